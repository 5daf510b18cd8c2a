"""What computes many attention heads on a device.

A causal head with matrices `W_Q, W_K, W_V, W_O` adds `A x W_V W_O` to the positions of a sequence `x`, where `A` is the softmax
of its scores over the past. Training asks two things of all heads at once: their weighted sum, and the gradient of each. There
is a kernel for both in C++, one in Pallas, and one in XLA (`training.crowd`), which alone has derivatives.
"""

import abc

import equinox as eqx
from jaxtyping import Array, Float


class AbstractHeadKernel(eqx.Module):
    """Sums over causal heads, whose parameters are the rows of `points`, on the same sequences `tokens`."""

    @abc.abstractmethod
    def suits(self, points: Float[Array, "n D"]) -> bool:
        """Whether it takes such heads, in their precision."""

    @abc.abstractmethod
    def total(
        self, points: Float[Array, "n D"], weights: Float[Array, " n"], tokens: Float[Array, "S T d"]
    ) -> Float[Array, "S T d"]:
        """What weighted heads add to each position together."""

    @abc.abstractmethod
    def gradient(
        self, points: Float[Array, "n D"], tokens: Float[Array, "S T d"], cotangents: Float[Array, "S T d"]
    ) -> Float[Array, "n D"]:
        """The gradient, for each head, of what it computes paired with cotangents."""

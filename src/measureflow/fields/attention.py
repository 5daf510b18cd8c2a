"""Self-attention as a velocity field, with general interaction `A = K^T Q` and value `V`.

With `L(a) = log ∫ e^{<a, y>} dmu(y)`, softmax attention moves a token with `V grad L(Ax)` and unnormalised attention
with `V e^{L} grad L (Ax)`: the same two numbers, whatever the measure.
"""

from typing import final

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Real
from numpy.typing import ArrayLike

from measureflow import checks
from measureflow.fields.base import AbstractField
from measureflow.measures import AbstractMeasure


class AbstractAttention(AbstractField):
    """A field with an interaction `A` (scores `<Ax, y>`) and a value matrix `V`."""

    interaction: eqx.AbstractVar[Float[Array, "d d"]]
    value: eqx.AbstractVar[Float[Array, "d d"]]

    def __check_init__(self):
        d = jnp.shape(self.interaction)[-1]
        for name, matrix in (("interaction", self.interaction), ("value", self.value)):
            checks.shaped(name, matrix, (d, d), "Both matrices act on tokens, so they are square and of one size.")
            checks.finite(name, matrix)

    @classmethod
    def isotropic(cls, dim: int, beta: Real[ArrayLike, ""]) -> "AbstractAttention":
        """The model of the sphere papers: scores `beta <x, y>` and values as they are."""
        identity = jnp.eye(dim)
        return cls(checks.floating(beta).astype(identity.dtype) * identity, identity)


@final
class SoftmaxAttention(AbstractAttention):
    """Each token moves to the average of the others, weighted by the softmax of the scores.

    `v(x) = ∫ V y e^{<Ax, y>} dmu(y) / ∫ e^{<Ax, y>} dmu(y)`; at `A = 0` it is `V` times the mean. This is SA of
    geshkovski:25.
    """

    interaction: Float[Array, "d d"] = eqx.field(converter=checks.floating)
    value: Float[Array, "d d"] = eqx.field(converter=checks.floating)

    def __call__(self, t: Real[ArrayLike, ""], xs: Float[Array, "m d"], mu: AbstractMeasure) -> Float[Array, "m d"]:
        """The velocity `V grad L(Ax)`."""
        return mu.attend(xs @ self.interaction.T).mean @ self.value.T


@final
class UnnormalisedAttention(AbstractAttention):
    """Attention without the softmax denominator, a gradient flow when `V = A` is symmetric.

    `v(x) = ∫ V y e^{<Ax, y>} dmu(y)`; at `A = 0` it is `V` times the mean. This is USA of geshkovski:25. In Euclidean
    space it can blow up in finite time.
    """

    interaction: Float[Array, "d d"] = eqx.field(converter=checks.floating)
    value: Float[Array, "d d"] = eqx.field(converter=checks.floating)

    def __call__(self, t: Real[ArrayLike, ""], xs: Float[Array, "m d"], mu: AbstractMeasure) -> Float[Array, "m d"]:
        """The velocity `V e^L grad L (Ax)`."""
        seen = mu.attend(xs @ self.interaction.T)
        return jnp.exp(seen.log_mass)[:, None] * seen.mean @ self.value.T

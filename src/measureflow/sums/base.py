"""The one operation that costs: how a covector sees a weighted cloud.

For sources `y_j` with log weights `l_j` and a covector `a`,

    L(a) = log sum_j exp(<a, y_j> + l_j),        grad L(a) = sum_j y_j exp(<a, y_j> + l_j - L(a)).

An engine computes both for a batch of covectors, and any other function of a query and all sources row by row. Engines
differ in memory and speed, not in the answer.
"""

import abc
from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from measureflow.spaces import AbstractSpace


class Attended(NamedTuple):
    """What a batch of covectors sees: the log mass `L(a)` and its gradient, the tilted mean."""

    log_mass: Float[Array, " m"]
    mean: Float[Array, "m d"]


class AbstractEngine(eqx.Module):
    """A way to compute kernel sums over weighted points."""

    @abc.abstractmethod
    def attend(
        self, covectors: Float[Array, "m d"], sources: Float[Array, "n d"], log_weights: Float[Array, " n"]
    ) -> Attended:
        """The log mass and tilted mean of the weighted sources seen by each covector."""

    def on(self, space: AbstractSpace) -> "AbstractEngine":
        """The engine for tokens of a space: itself, unless it depends on where tokens live."""
        return self

    @abc.abstractmethod
    def rows(self, row: Callable[..., PyTree[Array]], sources: int, *queries: PyTree[Array]) -> PyTree[Array]:
        """Any function of one query that looks at all sources, for a batch of queries.

        `sources` is how many there are, so that an engine knows what a row costs.
        """

    def average(
        self,
        covectors: Float[Array, "m d"],
        offsets: Float[Array, " m"],
        sources: Float[Array, "n d"],
        log_weights: Float[Array, " n"],
        values: Float[Array, "n e"],
    ) -> Float[Array, "m e"]:
        """The sums `sum_j e^{<a_i, y_j> + b_i + w_j} z_j`, where no exponent is above zero.

        With minus the log mass as offset these are averages under the tilted measure; its second moment is the one of
        `z_j = y_j y_j^T`.
        """

        def row(a, b):
            scores = jnp.matmul(sources, a, precision=jax.lax.Precision.HIGHEST) + b + log_weights
            return jnp.matmul(jnp.exp(scores), values, precision=jax.lax.Precision.HIGHEST)

        return self.rows(row, len(sources), covectors, offsets)


def attend_one(
    a: Float[Array, " d"], sources: Float[Array, "n d"], log_weights: Float[Array, " n"]
) -> tuple[Float[Array, ""], Float[Array, " d"]]:
    """The log mass and tilted mean seen by one covector, with one exponential per source."""
    scores = jnp.matmul(sources, a, precision=jax.lax.Precision.HIGHEST) + log_weights
    top = jax.lax.stop_gradient(scores.max())
    tilt = jnp.exp(scores - top)
    mass = tilt.sum()
    mean = jnp.matmul(tilt, sources, precision=jax.lax.Precision.HIGHEST) / mass
    return top + jnp.log(mass), mean

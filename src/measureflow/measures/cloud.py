"""Clouds: measures of finitely many weighted points, each of which a field moves.

Covectors see a cloud through a kernel sum by its engine. `push`, `shift` and `advance` move points by a map, by a displacement
and along geodesics; the first two may leave the space, and `settle` returns.
"""

import abc
from collections.abc import Callable
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from measureflow import checks
from measureflow.annotations import Numbers, RandomKey
from measureflow.measures.base import AbstractMeasure
from measureflow.spaces import AbstractSpace, Euclidean
from measureflow.sums import AbstractEngine, Attended, KernelSum

Cloud = TypeVar("Cloud", bound="AbstractCloud")


class AbstractCloud(AbstractMeasure):
    """The measure `sum_i w_i delta_{x_i}` of tokens in a space; weights are kept as logarithms and sum to one."""

    space: eqx.AbstractVar[AbstractSpace]
    points: eqx.AbstractVar[Float[Array, "*frames n d"]]
    log_weights: eqx.AbstractVar[Float[Array, "*frames n"]]
    engine: eqx.AbstractVar[AbstractEngine]
    tokens: eqx.AbstractVar["AbstractCloud"]
    """The tokens and their weights alone, where the numbers that move are kept."""

    @property
    def described(self) -> str:
        """How many tokens, and where."""
        return f"{self.points.shape[-2]} tokens on {self.space.symbol}"

    @property
    def weights(self) -> Float[Array, "*frames n"]:
        """The masses of the tokens; they sum to one."""
        return jnp.exp(self.log_weights)

    def attend(self, covectors: Float[Array, "m d"]) -> Attended:
        """The kernel sum over all tokens, by the engine of the measure."""
        return self.engine.attend(covectors, self.points, self.log_weights)

    def ridge(
        self, kernel: Callable[[Float[Array, "*s"]], Float[Array, "*s"]], covectors: Float[Array, "m d"]
    ) -> tuple[Float[Array, " m"], Float[Array, "m d"]]:
        """The kernel sums over all tokens."""
        weights = self.weights

        def row(a):
            share = weights * kernel(jnp.matmul(self.points, a, precision=jax.lax.Precision.HIGHEST))
            return share.sum(), share @ self.points

        return self.engine.rows(row, len(self.points), covectors)

    def farthest(self, covectors: Float[Array, "m d"], tie: float = 1e-12) -> Float[Array, "m d"]:
        """The token that each covector scores highest; tokens within `tie` of the top, relative to the
        largest score in size, are averaged by weight."""

        def row(a):
            scores = jnp.matmul(self.points, a, precision=jax.lax.Precision.HIGHEST)
            top = scores.max()
            share = jnp.where(scores >= top - tie * jnp.abs(scores).max(), self.weights, 0.0)
            return (share / share.sum()) @ self.points

        return self.engine.rows(row, len(self.points), covectors)

    def potential(self, f: Callable[[Float[Array, "m d"]], Float[Array, " m"]]) -> Float[Array, " n"]:
        """The values of a function at the tokens."""
        return f(self.points)

    def weigh(self: Cloud, potential: Float[Array, " n"]) -> Cloud:
        """Add a potential to the log weights."""
        return eqx.tree_at(lambda m: m.tokens.log_weights, self, self.log_weights + potential)

    def using(self: Cloud, engine: AbstractEngine) -> Cloud:
        """The same tokens with another engine."""
        return eqx.tree_at(lambda m: m.tokens.engine, self, engine.on(self.space))

    @property
    def engine_name(self) -> str:
        """The name of the engine that does the sums of the tokens over themselves."""
        return self.summing.name

    @property
    def summing(self) -> AbstractEngine:
        """The engine that does the sums of the tokens over themselves: that of the measure, or the one it chooses."""
        return self.engine.pick(KernelSum.of(self.points, self.points))

    def coarser(self: Cloud) -> Cloud | None:
        """The same tokens with less exact sums; None where sums are over all pairs."""
        engine = None if self.summing.exact else self.engine.coarser()
        return None if engine is None else self.using(engine)

    def push(self: Cloud, place: Callable[[Float[Array, " d"]], Float[Array, " d"]]) -> Cloud:
        """The image of the tokens under a map of one point; it may leave the space."""
        return self._anywhere(jax.vmap(place)(self.points))

    def integrate(self, integrand: Callable[[Float[Array, "m d"]], Float[Array, "m *shape"]]) -> Float[Array, "*shape"]:
        """The weighted sum of a function over the tokens."""
        return jnp.tensordot(self.weights, checks.rows(integrand(self.points), len(self.points)), axes=1)

    def moving(self) -> Any:
        """The points: weights, and numbers of the space, stay."""
        return eqx.tree_at(lambda m: m.tokens.points, jax.tree.map(lambda _: False, self), True)

    def transport(self: Cloud, velocity: Callable[[Float[Array, "m d"]], Float[Array, "m d"]]) -> Cloud:
        """Each token follows its velocity inside the space; the weights stay."""
        ambient = velocity(self.points)
        checks.shaped(
            "velocity", ambient, self.points.shape, "A field must give each token a velocity of its own size."
        )
        rate = jax.vmap(self.space.tangent)(self.points, ambient)
        still = jax.tree.map(jnp.zeros_like, self)
        return eqx.tree_at(lambda m: m.tokens.points, still, rate)

    def shift(self: Cloud, displacement: Float[Array, "n d"]) -> Cloud:
        """Each token moved by an ambient displacement; it may leave the space."""
        return self._anywhere(self.points + displacement)

    def _anywhere(self: Cloud, points: Float[Array, "n d"]) -> Cloud:
        engine = self.engine.on(Euclidean(self.space.dim))
        return eqx.tree_at(lambda m: (m.tokens.points, m.tokens.engine), self, (points, engine))

    def advance(self: Cloud, displacement: Float[Array, "n d"]) -> Cloud:
        """Each token moved along a geodesic by an ambient displacement made tangent."""
        tangent = jax.vmap(self.space.tangent)(self.points, displacement)
        return eqx.tree_at(lambda m: m.tokens.points, self, jax.vmap(self.space.exp)(self.points, tangent))

    def settle(self: Cloud) -> Cloud:
        """Every token put back on the space."""
        points = jax.vmap(self.space.project)(self.points)
        return eqx.tree_at(lambda m: (m.tokens.points, m.tokens.engine), self, (points, self.engine.on(self.space)))


class AbstractSampled(AbstractMeasure):
    """A measure from which tokens can be drawn."""

    @abc.abstractmethod
    def sample(self, n: int, *, key: RandomKey) -> AbstractCloud:
        """Independent equally weighted tokens."""


def checked_points(space: AbstractSpace, points: Numbers) -> Float[Array, "n d"]:
    """The tokens that a user passes, after a look at them."""
    checks.shaped("points", points, ("n", space.dim), "Rows are tokens, columns coordinates.")
    points = checks.floating(points)
    if len(points) == 0:
        raise ValueError("`points` has no token; a measure needs at least one.")
    checks.finite("points", points)
    space.check(points)
    return points


def checked_weights(weights: Numbers | None, points: Float[Array, "n d"]) -> Float[Array, " n"]:
    """The logarithms of the weights that a user passes, which are normalised; equal ones unless given."""
    n, dtype = len(points), points.dtype
    if weights is None:
        return jnp.asarray(np.full(n, -np.log(n), dtype), dtype)
    checks.shaped("weights", weights, (n,), "There is one weight for each token.")
    checks.finite("weights", weights)
    checks.positive("weights", weights)
    # Logarithms first: weights beyond the range of the tokens' precision still have shares.
    if checks.concrete(weights):
        log_weights = np.log(np.asarray(weights, np.float64))
        log_weights -= log_weights.max()
        return jnp.asarray((log_weights - np.log(np.exp(log_weights).sum())).astype(dtype), dtype)
    return jax.nn.log_softmax(jnp.log(jnp.asarray(weights, dtype)))


def as_key(key: PRNGKeyArray | int) -> PRNGKeyArray:
    """A JAX key from a key or a seed."""
    if isinstance(key, jax.Array) and jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
        return key
    if isinstance(key, jax.Array | np.ndarray) and np.shape(key):  # a key of old, `jax.random.PRNGKey(0)`
        return jax.random.wrap_key_data(jnp.asarray(key))
    if isinstance(key, int) and not -(2**63) <= key < 2**63:
        raise ValueError(f"`key` as a seed must fit into 64 bits; got {key}.")
    return jax.random.key(key)

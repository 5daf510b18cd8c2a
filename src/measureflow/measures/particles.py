"""Finitely many weighted points: the tokens themselves."""

from collections.abc import Callable
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray
from numpy.typing import ArrayLike

from measureflow import checks
from measureflow.measures.base import AbstractMeasure
from measureflow.spaces import AbstractSpace, Euclidean
from measureflow.sums import AbstractEngine, Attended, Auto


@final
class Particles(AbstractMeasure):
    """The measure `sum_i w_i delta_{x_i}` of tokens in a space; weights are kept as logarithms and sum to one."""

    space: AbstractSpace
    points: Float[Array, "n d"]
    log_weights: Float[Array, " n"]
    engine: AbstractEngine

    def __init__(
        self,
        space: AbstractSpace,
        points: ArrayLike | Array,
        weights: ArrayLike | Array | None = None,
        engine: AbstractEngine | None = None,
    ):
        checks.shaped("points", points, ("n", space.dim), "Rows are tokens, columns coordinates.")
        points = checks.floating(points)
        if len(points) == 0:
            raise ValueError("`points` has no token; a measure needs at least one.")
        checks.finite("points", points)
        space.check(points)
        self.space = space
        self.points = points
        self.log_weights = _log_weights(weights, len(points), points.dtype)
        self.engine = (Auto() if engine is None else engine).on(space)

    @staticmethod
    def iid(space: AbstractSpace, n: int, *, key: PRNGKeyArray | int) -> "Particles":
        """Independent equally weighted tokens from the reference law of the space.

        Uniform on a sphere, standard normal on Euclidean space. `key` is a JAX key or an integer seed.
        """
        if n < 1:
            raise ValueError(f"`n` must be at least 1; got {n}.")
        return Particles(space, jax.vmap(space.sample)(jax.random.split(as_key(key), n)))

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

    def weigh(self, potential: Float[Array, " n"]) -> "Particles":
        """Add a potential to the log weights."""
        return eqx.tree_at(lambda m: m.log_weights, self, self.log_weights + potential)

    def using(self, engine: AbstractEngine) -> "Particles":
        """The same tokens with another engine."""
        return eqx.tree_at(lambda m: m.engine, self, engine.on(self.space))

    @property
    def engine_name(self) -> str:
        """The engine that does the sums of the tokens over themselves."""
        n, d = self.points.shape
        return self.engine.pick(n, n, d, self.points.dtype).name

    def push(self, place: Callable[[Float[Array, " d"]], Float[Array, " d"]]) -> "Particles":
        """The image of the tokens under a map of one point; it may leave the space."""
        return self._anywhere(jax.vmap(place)(self.points))

    def integrate(self, integrand: Callable[[Float[Array, "m d"]], Float[Array, "m *shape"]]) -> Float[Array, "*shape"]:
        """The weighted sum of a function over the tokens."""
        return jnp.tensordot(self.weights, integrand(self.points), axes=1)

    def transport(self, velocity: Callable[[Float[Array, "m d"]], Float[Array, "m d"]]) -> "Particles":
        """Each token follows its velocity inside the space; the weights stay."""
        ambient = velocity(self.points)
        checks.shaped(
            "velocity", ambient, self.points.shape, "A field must give each token a velocity of its own size."
        )
        rate = jax.vmap(self.space.tangent)(self.points, ambient)
        still = jax.tree.map(jnp.zeros_like, self)  # weights, and numbers of the space, do not move
        return eqx.tree_at(lambda m: m.points, still, rate)

    def shift(self, displacement: Float[Array, "n d"]) -> "Particles":
        """Each token moved by an ambient displacement; it may leave the space."""
        return self._anywhere(self.points + displacement)

    def _anywhere(self, points: Float[Array, "n d"]) -> "Particles":
        engine = self.engine.on(Euclidean(self.space.dim))
        return eqx.tree_at(lambda m: (m.points, m.engine), self, (points, engine))

    def advance(self, displacement: Float[Array, "n d"]) -> "Particles":
        """Each token moved along a geodesic by an ambient displacement made tangent."""
        tangent = jax.vmap(self.space.tangent)(self.points, displacement)
        return eqx.tree_at(lambda m: m.points, self, jax.vmap(self.space.exp)(self.points, tangent))

    def settle(self) -> "Particles":
        """Every token put back on the space."""
        points = jax.vmap(self.space.project)(self.points)
        return eqx.tree_at(lambda m: (m.points, m.engine), self, (points, self.engine.on(self.space)))


def as_key(key: PRNGKeyArray | int) -> PRNGKeyArray:
    """A JAX key from a key or a seed."""
    is_key = isinstance(key, jax.Array) and jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
    return key if is_key else jax.random.key(key)  # pyright: ignore[reportReturnType]


def _log_weights(weights: ArrayLike | Array | None, n: int, dtype) -> Float[Array, " n"]:
    if weights is None:
        return jnp.full(n, -jnp.log(n), dtype)
    checks.shaped("weights", weights, (n,), "There is one weight for each token.")
    checks.finite("weights", weights)
    checks.positive("weights", weights)
    log_weights = jnp.log(jnp.asarray(weights, dtype))
    return log_weights - jax.nn.logsumexp(log_weights)

"""A closed ball, and products of spaces: compact sets of parameters."""

from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float, PRNGKeyArray, Real

from measureflow import checks
from measureflow.spaces.base import AbstractSpace

SLACK = 1e-6
"""How far a point may be outside a ball, relative to its radius: float32 rounding passes."""


@final
class Ball(AbstractSpace):
    """The points of `R^dim` of norm at most `radius`; its reference law is uniform.

    It has a boundary: there, and only there, a velocity loses its outward part.

    >>> mf.Ball(2, radius=2.0).project(jnp.array([0.0, 8.0])).tolist()
    [0.0, 2.0]
    >>> mf.Ball(2, radius=2.0).project(jnp.array([0.0, 1.0])).tolist()
    [0.0, 1.0]
    """

    dim: int = eqx.field(static=True)
    radius: Float[Array, ""] = eqx.field(converter=checks.floating)

    def __check_init__(self):
        checks.count("dim", self.dim, 1)
        checks.finite("radius", self.radius)
        checks.positive("radius", self.radius)

    @property
    def compact(self) -> bool:
        """It is."""
        return True

    @property
    def convex(self) -> bool:
        """It is."""
        return True

    def project(self, x: Float[Array, " d"]) -> Float[Array, " d"]:
        """The point, pulled back to the boundary if it is outside."""
        radius, squared = self.radius.astype(x.dtype), jnp.vdot(x, x)
        outside = squared > radius**2
        return jnp.where(outside, x * radius / jnp.sqrt(jnp.where(outside, squared, 1.0)), x)

    def tangent(self, x: Float[Array, " d"], v: Float[Array, " d"]) -> Float[Array, " d"]:
        """The vector inside; on the boundary its projection to the directions that do not leave."""
        radius, squared = self.radius.astype(x.dtype), jnp.vdot(x, x)
        # Points that `project` puts on the boundary are there up to rounding.
        bound = squared >= radius**2 * (1 - 8 * jnp.finfo(x.dtype).eps)
        outward = jnp.maximum(jnp.vdot(x, v), 0.0) / jnp.where(bound, squared, 1.0)
        return jnp.where(bound, v - outward * x, v)

    def exp(self, x: Float[Array, " d"], v: Float[Array, " d"]) -> Float[Array, " d"]:
        """The end of a straight line, stopped by the boundary."""
        return self.project(x + v)

    def distance(self, x: Float[Array, " d"], y: Float[Array, " d"]) -> Float[Array, ""]:
        """The length of the difference: a ball is convex."""
        return jnp.linalg.norm(x - y)

    def chord(self, distance: Real[ArrayLike, "*shape"]) -> Real[ArrayLike, "*shape"]:
        """The distance itself."""
        return distance

    def sample(self, key: PRNGKeyArray) -> Float[Array, " d"]:
        """A uniform point."""
        return self.radius * jax.random.ball(key, self.dim, dtype=self.radius.dtype)

    def check(self, points: Float[Array, "n d"]) -> None:
        """Every point must be inside."""
        if checks.concrete(points, self.radius):
            norms = np.linalg.norm(np.asarray(points, np.float64), axis=-1)
            if norms.max() > float(self.radius) * (1 + SLACK):
                raise ValueError(
                    f"`points` in a ball of radius {float(self.radius):g} must have at most that norm; point "
                    f"{int(norms.argmax())} has {norms.max():.6g}. Apply `space.project` first."
                )


@final
class Product(AbstractSpace):
    """Several spaces side by side: the coordinates of a point are those of its parts, one after the other.

    >>> space = mf.Product(mf.Ball(2, radius=2.0), mf.Euclidean(1))
    >>> space.dim, space.project(jnp.array([0.0, 8.0, 5.0])).tolist()
    (3, [0.0, 2.0, 5.0])
    """

    spaces: tuple[AbstractSpace, ...]

    def __init__(self, *spaces: AbstractSpace):
        if not spaces:
            raise ValueError("`Product(...)` needs at least one space; got none.")
        self.spaces = spaces

    @property
    def dim(self) -> int:
        """The sum of the dimensions."""
        return sum(space.dim for space in self.spaces)

    @property
    def symbol(self) -> str:
        """Those of its parts."""
        return " × ".join(space.symbol for space in self.spaces)

    @property
    def intrinsic_dim(self) -> int:
        """The sum of those of its parts."""
        return sum(space.intrinsic_dim for space in self.spaces)

    @property
    def compact(self) -> bool:
        """Whether all parts are."""
        return all(space.compact for space in self.spaces)

    @property
    def convex(self) -> bool:
        """Whether all parts are."""
        return all(space.convex for space in self.spaces)

    @property
    def linear(self) -> bool:
        """Whether all parts are."""
        return all(space.linear for space in self.spaces)

    def split(self, x: Float[Array, "*n d"]) -> list[Float[Array, "*n _"]]:
        """The parts of a point, or of many."""
        return jnp.split(x, np.cumsum([space.dim for space in self.spaces])[:-1].tolist(), axis=-1)

    def project(self, x: Float[Array, " d"]) -> Float[Array, " d"]:
        """Each part projected."""
        return self._join(lambda space, x: space.project(x), x)

    def tangent(self, x: Float[Array, " d"], v: Float[Array, " d"]) -> Float[Array, " d"]:
        """Each part made tangent."""
        return self._join(lambda space, x, v: space.tangent(x, v), x, v)

    def exp(self, x: Float[Array, " d"], v: Float[Array, " d"]) -> Float[Array, " d"]:
        """Each part along its own geodesic."""
        return self._join(lambda space, x, v: space.exp(x, v), x, v)

    def distance(self, x: Float[Array, " d"], y: Float[Array, " d"]) -> Float[Array, ""]:
        """Pythagoras over the parts."""
        parts = zip(self.spaces, self.split(x), self.split(y), strict=True)
        return jnp.linalg.norm(jnp.stack([space.distance(a, b) for space, a, b in parts]))

    def between(self, x: Float[Array, " d"], y: Float[Array, " d"], t: Real[ArrayLike, ""]) -> Float[Array, " d"]:
        """Each part along its own shortest path."""
        return self._join(lambda space, x, y: space.between(x, y, t), x, y)

    def chord(self, distance: Real[ArrayLike, "*shape"]) -> Real[ArrayLike, "*shape"]:
        """The shortest of the chords of the parts: arcs grow faster than their chords, so nearer points are no farther apart."""
        return np.minimum.reduce([np.asarray(space.chord(distance)) for space in self.spaces])

    def sample(self, key: PRNGKeyArray) -> Float[Array, " d"]:
        """Independent parts."""
        keys = jax.random.split(key, len(self.spaces))
        return jnp.concatenate([space.sample(k) for space, k in zip(self.spaces, keys, strict=True)])

    def check(self, points: Float[Array, "n d"]) -> None:
        """Every part must be in its space."""
        for space, part in zip(self.spaces, self.split(points), strict=True):
            space.check(part)

    def _join(self, act, *vectors: Float[Array, " d"]) -> Float[Array, " d"]:
        parts = zip(self.spaces, *(self.split(vector) for vector in vectors), strict=True)
        return jnp.concatenate([act(space, *pieces) for space, *pieces in parts])

"""The unit sphere, where layer normalisation puts the tokens."""

import functools
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float, PRNGKeyArray, Real

from measureflow import checks
from measureflow.spaces.base import RAISED, AbstractSpace

UNIT_TOLERANCE = 1e-6
"""How far a token's norm may be from one: float32 rounding passes, data that was never normalised does not."""

ANTIPODAL = 1e-6
"""Points whose angle differs from pi by less are taken for antipodal."""

FEW_COORDINATES = 4
"""Coordinates up to which sums over them are written out."""


@final
class Sphere(AbstractSpace):
    """The unit sphere of `R^dim`: the circle is `Sphere(2)`, the usual sphere `Sphere(3)`.

    >>> mf.Sphere(3).project(jnp.array([0.0, 3.0, 4.0])).round(3).tolist()
    [0.0, 0.6, 0.8]
    >>> mf.Sphere(2).tangent(jnp.array([1.0, 0.0]), jnp.array([3.0, 4.0])).tolist()
    [0.0, 4.0]
    """

    dim: int = eqx.field(static=True)

    def __check_init__(self):
        checks.count("dim", self.dim, 2, "It counts ambient coordinates: the circle is `Sphere(2)`.")

    @property
    def symbol(self) -> str:
        """S¹, S², ..."""
        return f"S{self.dim - 1}".translate(RAISED)

    @property
    def intrinsic_dim(self) -> int:
        """One less than the ambient dimension."""
        return self.dim - 1

    @property
    def compact(self) -> bool:
        """It is."""
        return True

    @property
    def spherical(self) -> bool:
        """It is."""
        return True

    def project(self, x: Float[Array, " d"]) -> Float[Array, " d"]:
        """The point divided by its norm."""
        return x / jnp.sqrt(_inner(x, x))

    def tangent(self, x: Float[Array, " d"], v: Float[Array, " d"]) -> Float[Array, " d"]:
        """Remove the radial part: `P_x v = v - <x, v> x`."""
        return v - _inner(x, v) * x

    def exp(self, x: Float[Array, " d"], v: Float[Array, " d"]) -> Float[Array, " d"]:
        """Follow a great circle: `cos|v| x + (sin|v| / |v|) v`."""
        angle_squared = jnp.vdot(v, v)
        safe = jnp.where(angle_squared > 0, angle_squared, 1.0)
        angle = jnp.sqrt(safe)
        sinc = jnp.where(angle_squared > 0, jnp.sin(angle) / angle, 1.0)
        return self.project(jnp.where(angle_squared > 0, jnp.cos(angle), 1.0) * x + sinc * v)

    def distance(self, x: Float[Array, " d"], y: Float[Array, " d"]) -> Float[Array, ""]:
        """The angle, as `2 atan2(|x - y|, |x + y|)`, which keeps its digits at 0 and at pi."""
        return 2 * jnp.atan2(jnp.linalg.norm(x - y), jnp.linalg.norm(x + y))

    def between(self, x: Float[Array, " d"], y: Float[Array, " d"], t: Real[ArrayLike, ""]) -> Float[Array, " d"]:
        """A point of the great circle through both; NaN for antipodal points, which many great circles join."""
        angle, heading = self.distance(x, y), self.tangent(x, y)
        squared = jnp.vdot(heading, heading)
        length = jnp.sqrt(jnp.where(squared > 0, squared, 1.0))
        point = self.exp(x, jnp.asarray(t, x.dtype) * angle / length * heading)
        return jnp.where(angle > np.pi - ANTIPODAL, jnp.nan, point)

    def chord(self, distance: Real[ArrayLike, "*shape"]) -> Real[ArrayLike, "*shape"]:
        """The straight line under an arc: `2 sin(distance / 2)`, and 2 from the antipode on."""
        return 2 * np.sin(np.minimum(distance, np.pi) / 2)

    def sample(self, key: PRNGKeyArray) -> Float[Array, " d"]:
        """A uniform point: a normal vector divided by its norm."""
        return self.project(jax.random.normal(key, (self.dim,)))

    def check(self, points: Float[Array, "n d"]) -> None:
        """Every token must have norm one."""
        if checks.concrete(points):
            excess = np.abs(np.linalg.norm(np.asarray(points, np.float64), axis=-1) - 1)
            if (worst := excess.max()) > UNIT_TOLERANCE:
                raise ValueError(
                    f"`points` on the sphere must have norm 1 within {UNIT_TOLERANCE:g}; token {int(excess.argmax())} "
                    f"is off by {worst:.3g}. Divide each token by its norm first."
                )


def _inner(x: Float[Array, " d"], y: Float[Array, " d"]) -> Float[Array, ""]:
    """The inner product, of few coordinates term by term: in a batch a sum over two of them costs as much as the field."""
    return (
        functools.reduce(jnp.add, [x[i] * y[i] for i in range(len(x))]) if len(x) <= FEW_COORDINATES else jnp.vdot(x, y)
    )

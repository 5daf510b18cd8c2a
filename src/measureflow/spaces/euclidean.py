"""The flat space of all vectors."""

from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float, PRNGKeyArray, Real

from measureflow import checks
from measureflow.spaces.base import AbstractSpace, raised


@final
class Euclidean(AbstractSpace):
    """The space `R^dim` with its standard normal law as reference.

    >>> mf.Euclidean(2).exp(jnp.array([1.0, 2.0]), jnp.array([3.0, 4.0])).tolist()
    [4.0, 6.0]
    """

    dim: int = eqx.field(static=True)

    def __check_init__(self):
        checks.count("dim", self.dim, 1)

    @property
    def symbol(self) -> str:
        """R, R², ..."""
        return raised("R", self.dim)

    @property
    def linear(self) -> bool:
        """It is."""
        return True

    def project(self, x: Float[Array, " d"]) -> Float[Array, " d"]:
        """The point itself."""
        return x

    def tangent(self, x: Float[Array, " d"], v: Float[Array, " d"]) -> Float[Array, " d"]:
        """The vector itself."""
        return v

    def exp(self, x: Float[Array, " d"], v: Float[Array, " d"]) -> Float[Array, " d"]:
        """The end of a straight line."""
        return x + v

    def distance(self, x: Float[Array, " d"], y: Float[Array, " d"]) -> Float[Array, ""]:
        """The length of the difference."""
        return jnp.linalg.norm(x - y)

    def chord(self, distance: Real[ArrayLike, "*shape"]) -> Real[ArrayLike, "*shape"]:
        """The distance itself."""
        return distance

    def sample(self, key: PRNGKeyArray) -> Float[Array, " d"]:
        """A standard normal vector."""
        return jax.random.normal(key, (self.dim,))

    def check(self, points: Float[Array, "n d"]) -> None:
        """Every finite vector is a point."""

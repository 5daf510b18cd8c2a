"""What a space must know about one point.

Fields speak in ambient coordinates; a space turns an ambient velocity into a tangent one and an ambient point back
into one of its own. Everything is written for a single point and lifted by `jax.vmap`.

What other floors need to know of a space they ask it, and never its class: its intrinsic dimension, and whether it is compact,
convex, linear or the unit sphere. The base class answers for a space of which nothing is known.
"""

import abc

import equinox as eqx
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float, PRNGKeyArray, Real

RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def raised(letter: str, power: int) -> str:
    """A letter with an exponent, which is left out if it is one."""
    return letter if power == 1 else letter + str(power).translate(RAISED)


class AbstractSpace(eqx.Module):
    """A subset of Euclidean space on which tokens live; `dim` counts ambient coordinates."""

    dim: eqx.AbstractVar[int]

    @property
    def symbol(self) -> str:
        """The space in a formula, such as S² or R³."""
        return f"a {type(self).__name__.lower()} of {raised('R', self.dim)}"

    @property
    def intrinsic_dim(self) -> int:
        """The dimension of its tangent spaces: 2 for the usual sphere, whose `dim` is 3."""
        return self.dim

    @property
    def compact(self) -> bool:
        """Whether it is closed and bounded, so that continuous functions have a least value on it."""
        return False

    @property
    def convex(self) -> bool:
        """Whether straight lines between its points stay inside: means of points are points, and distances are norms."""
        return self.linear

    @property
    def linear(self) -> bool:
        """Whether every vector is a point."""
        return False

    @property
    def spherical(self) -> bool:
        """Whether it is the unit sphere: its points are all unit vectors, and its distances are angles."""
        return False

    @abc.abstractmethod
    def project(self, x: Float[Array, " d"]) -> Float[Array, " d"]:
        """The nearest point of the space."""

    @abc.abstractmethod
    def tangent(self, x: Float[Array, " d"], v: Float[Array, " d"]) -> Float[Array, " d"]:
        """The orthogonal projection of an ambient vector to the tangent space at a point."""

    @abc.abstractmethod
    def exp(self, x: Float[Array, " d"], v: Float[Array, " d"]) -> Float[Array, " d"]:
        """The end of the geodesic that starts at a point with a tangent velocity."""

    @abc.abstractmethod
    def distance(self, x: Float[Array, " d"], y: Float[Array, " d"]) -> Float[Array, ""]:
        """The length of the shortest path inside the space."""

    def between(self, x: Float[Array, " d"], y: Float[Array, " d"], t: Real[ArrayLike, ""]) -> Float[Array, " d"]:
        """The point `t` of the way along the shortest path from `x` to `y`; NaN where no path is the shortest.

        In a convex space the path is a straight line. Other spaces must say what theirs is.
        """
        if not self.convex:
            raise TypeError(f"Shortest paths are not known on {self}. Give `{type(self).__name__}` a method `between`.")
        t = jnp.asarray(t, x.dtype)
        return (1 - t) * x + t * y

    @abc.abstractmethod
    def chord(self, distance: Real[ArrayLike, "*shape"]) -> Real[ArrayLike, "*shape"]:
        """The ambient distance of two points a given geodesic distance apart; the least, where it depends on the points."""

    @abc.abstractmethod
    def sample(self, key: PRNGKeyArray) -> Float[Array, " d"]:
        """A random point of the reference law of the space."""

    @abc.abstractmethod
    def check(self, points: Float[Array, "n d"]) -> None:
        """Refuse, with a sentence, points that are not in the space."""

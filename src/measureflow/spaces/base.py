"""What a space must know about one point.

Fields speak in ambient coordinates; a space turns an ambient velocity into a tangent one and an ambient point back
into one of its own. Everything is written for a single point and lifted by `jax.vmap`.
"""

import abc

import equinox as eqx
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

    @abc.abstractmethod
    def chord(self, distance: Real[ArrayLike, "*shape"]) -> Real[ArrayLike, "*shape"]:
        """The ambient distance of two points a given geodesic distance apart; the least, where it depends on the points."""

    @abc.abstractmethod
    def sample(self, key: PRNGKeyArray) -> Float[Array, " d"]:
        """A random point of the reference law of the space."""

    @abc.abstractmethod
    def check(self, points: Float[Array, "n d"]) -> None:
        """Refuse, with a sentence, points that are not in the space."""

"""Families of covariances: which numbers stand for the square roots of a mixture, and how these numbers descend.

With a root `L` of the covariance, `S = L L^T`, plain gradient descent on mean and root is the Bures-Wasserstein flow:
`L' = -H L` where `H` is the mean Hessian of the first variation. On diagonal roots it is `sigma_i' = -H_ii sigma_i`, and on
multiples of the identity `sigma' = -tr(H) sigma / D`: the gradient in that one number is divided by the dimension. A direction
without variance never opens again, so a root should start with the rank it is to keep.
"""

import abc
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from measureflow import checks


class AbstractCovariances(eqx.Module):
    """The numbers of the square roots of `K` covariances in `D` dimensions."""

    @abc.abstractmethod
    def shape(self, components: int, dim: int) -> tuple[int, ...]:
        """The shape of the numbers."""

    @abc.abstractmethod
    def roots(self, numbers: Float[Array, "K *s"], dim: int) -> Float[Array, "K D r"]:
        """The square roots themselves."""

    def start(self, spread: Float[Array, ""], components: int, dim: int, key: PRNGKeyArray) -> Float[Array, "K *s"]:
        """Roots of one standard deviation in all the directions that there are."""
        return jnp.full(self.shape(components, dim), spread)

    def share(self, dim: int) -> float:
        """The factor of the gradient in these numbers that makes it the steepest one of the geometry."""
        return 1.0


@final
class Full(AbstractCovariances):
    """Any covariance: square roots `(K, D, D)`."""

    def shape(self, components: int, dim: int) -> tuple[int, ...]:
        """A square matrix for each component."""
        return components, dim, dim

    def roots(self, numbers: Float[Array, "K *s"], dim: int) -> Float[Array, "K D r"]:
        """The numbers themselves."""
        return numbers

    def start(self, spread: Float[Array, ""], components: int, dim: int, key: PRNGKeyArray) -> Float[Array, "K *s"]:
        """Multiples of the identity."""
        return Isotropic().roots(jnp.full(components, spread), dim)


@final
class LowRank(AbstractCovariances):
    """Covariances of a `rank` at most: roots `(K, D, rank)`, whose rank cannot grow."""

    rank: int = eqx.field(static=True)

    def __check_init__(self):
        checks.count("rank", self.rank, 1)

    def shape(self, components: int, dim: int) -> tuple[int, ...]:
        """A tall matrix for each component."""
        if self.rank > dim:
            raise ValueError(
                f"`rank` must be at most {dim}, the parameters of a neuron; got {self.rank}. Use `Full()`."
            )
        return components, dim, self.rank

    def roots(self, numbers: Float[Array, "K *s"], dim: int) -> Float[Array, "K D r"]:
        """The numbers themselves."""
        return numbers

    def start(self, spread: Float[Array, ""], components: int, dim: int, key: PRNGKeyArray) -> Float[Array, "K *s"]:
        """One standard deviation in random directions that are orthogonal."""
        return spread * jnp.linalg.qr(jax.random.normal(key, self.shape(components, dim), spread.dtype))[0]


@final
class Diagonal(AbstractCovariances):
    """Independent coordinates: standard deviations `(K, D)`."""

    def shape(self, components: int, dim: int) -> tuple[int, ...]:
        """A number for each coordinate of each component."""
        return components, dim

    def roots(self, numbers: Float[Array, "K *s"], dim: int) -> Float[Array, "K D r"]:
        """Diagonal matrices."""
        return numbers[:, :, None] * jnp.eye(dim, dtype=numbers.dtype)[None]


@final
class Isotropic(AbstractCovariances):
    """Multiples of the identity: one standard deviation `(K,)` for each component."""

    def shape(self, components: int, dim: int) -> tuple[int, ...]:
        """A number for each component."""
        return (components,)

    def roots(self, numbers: Float[Array, "K *s"], dim: int) -> Float[Array, "K D r"]:
        """Multiples of the identity."""
        return numbers[:, None, None] * jnp.eye(dim, dtype=numbers.dtype)[None]

    def share(self, dim: int) -> float:
        """One number moves all coordinates, a distance of the root of their count."""
        return 1.0 / dim

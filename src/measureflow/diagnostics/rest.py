"""What kind of rest point a cloud is: the directions in which an energy rises, falls, or does not change because it cannot.

In coordinates `u` of the tangent spaces, `x_i(u) = settle(x_i + B_i u_i)` with orthonormal `B_i`, the second derivative at a rest
point is the Riemannian Hessian on the product of the spaces, whatever the coordinates. Meant for tens of tokens: the Hessian is
formed in full. These functions look at numbers on the host.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from measureflow.energies import AbstractEnergy
from measureflow.fields import AbstractField
from measureflow.measures import Particles
from measureflow.precision import keep_all

ZERO = 1e-7
"""An eigenvalue is zero below this part of the largest: rounding in a second derivative, and what a rest point misses."""


class Index(NamedTuple):
    """The second derivative of an energy at a cloud: its eigenvalues from the smallest, and what they mean."""

    eigenvalues: np.ndarray
    """Those of the Hessian in `L^2(mu)`: rates at which an ascent of the energy leaves the rest point, or returns to it."""
    directions: np.ndarray
    """The eigenvectors as velocities of the tokens, `(k, n, d)`."""
    residual: float
    """The largest slope: zero at a rest point."""
    rotations: int
    """How many of the zero eigenvalues belong to rotations of the whole cloud, along which no energy of overlaps changes."""

    @property
    def ascents(self) -> int:
        """In how many directions the energy rises."""
        return int((self.eigenvalues > self._zero).sum())

    @property
    def descents(self) -> int:
        """In how many directions it falls: the index of a rest point, for the ascent of the energy."""
        return int((self.eigenvalues < -self._zero).sum())

    @property
    def flat(self) -> int:
        """In how many directions it does not change to second order, rotations apart."""
        return len(self.eigenvalues) - self.ascents - self.descents - self.rotations

    @property
    def _zero(self) -> float:
        return ZERO * max(float(np.abs(self.eigenvalues).max()), 1.0)

    def __repr__(self) -> str:
        return (
            f"Index({self.ascents} up, {self.descents} down, {self.flat} flat, {self.rotations} rotations, "
            f"residual {self.residual:.2g})"
        )


def index(energy: AbstractEnergy | AbstractField, mu: Particles) -> Index:
    """The kind of rest point that a cloud is for an energy, or for a field at time 0.

    A field that is no gradient has complex eigenvalues: their real parts are told, and the real parts of their directions.

    >>> mu = mf.Particles(mf.Sphere(2), [[1.0, 0.0], [-1.0, 0.0]])  # opposite tokens: the energy rises as they turn
    >>> mf.diagnostics.index(mf.InteractionEnergy(1.0), mu)
    Index(1 up, 0 down, 0 flat, 1 rotations, residual 0)
    """
    points = np.asarray(mu.points)
    bases = tangent_bases(mu)
    slope, hessian = map(np.asarray, _second(energy, mu, jnp.asarray(bases, points.dtype)))
    values, vectors = _spectrum(hessian, isinstance(energy, AbstractEnergy))
    scale = np.sqrt(np.asarray(mu.weights))[:, None]
    directions = np.einsum("ndk,nkm->mnd", bases, vectors.reshape(*bases.shape[::2], -1)) / scale[None]
    residual = float(np.abs(slope).max())
    return Index(values, directions, residual if residual > 1e-15 else 0.0, _rotations(points))


def _spectrum(hessian: np.ndarray, symmetric: bool) -> tuple[np.ndarray, np.ndarray]:
    if symmetric:
        return np.linalg.eigh((hessian + hessian.T) / 2)
    values, vectors = np.linalg.eig(hessian)
    order = np.argsort(np.real(values))
    return np.real(values)[order], np.real(vectors)[:, order]


def tangent_bases(mu: Particles) -> np.ndarray:
    """Orthonormal bases of the tangent spaces at all tokens, `(n, d, k)`, as columns."""
    points, d = mu.points, mu.points.shape[1]
    projections = np.asarray(_projections(mu.space, points))
    values, vectors = np.linalg.eigh((projections + projections.mT) / 2)
    k = int((values[0] > 0.5).sum())
    return vectors[..., d - k :]


@eqx.filter_jit
def _projections(space: Any, points: Float[Array, "n d"]) -> Float[Array, "n d d"]:
    return jax.vmap(lambda x: jax.vmap(lambda v: space.tangent(x, v))(jnp.eye(len(x), dtype=x.dtype)).T)(points)


@eqx.filter_jit
def _second(energy: AbstractEnergy | AbstractField, mu: Particles, bases: Float[Array, "n d k"]) -> tuple[Array, Array]:
    """Slope and its derivative in coordinates that are orthonormal in `L^2(mu)`."""
    scale = jnp.exp(-mu.log_weights / 2)[:, None]

    def moved(u):
        points = mu.points + jnp.einsum("ndk,nk->nd", bases, scale * u.reshape(len(bases), -1))
        return eqx.tree_at(lambda m: m.points, mu, jax.vmap(mu.space.project)(points))

    def velocity(u):
        nu = moved(u)
        v = nu.transport(lambda xs: energy(jnp.zeros((), xs.dtype), xs, nu)).points  # pyright: ignore[reportCallIssue]
        return (jnp.einsum("ndk,nd->nk", bases, v) / scale).ravel()

    slope = velocity if isinstance(energy, AbstractField) else jax.grad(lambda u: energy(moved(u)))
    at = jnp.zeros(bases.shape[0] * bases.shape[2], mu.points.dtype)
    return slope(at), jax.jacfwd(slope)(at)


def _rotations(points: np.ndarray) -> int:
    """The dimension of the orbit of a cloud under rotations."""
    i, j = np.triu_indices(points.shape[1], 1)
    moved = np.zeros((len(i), *points.shape))
    moved[np.arange(len(i)), :, i], moved[np.arange(len(i)), :, j] = points[:, j].T, -points[:, i].T
    return int(np.linalg.matrix_rank(moved.reshape(len(i), -1), tol=1e-9))


keep_all(globals())

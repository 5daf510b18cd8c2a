"""Parcels: the mass of a density in pieces that go where the field takes them.

No number of moments resolves a density for ever that attention gathers into clusters: they become narrower at an exponential
rate. Pieces of the mass do. A density is cut at the points of a quadrature; each piece keeps its share and moves like a token,
so the mass stays to the last bit, nothing becomes negative, and what covectors see is the quadrature of the density carried
along: as exact as that on the grid while the pieces lie like the mass, and exact again where they have met. What is lost is of
the size of the mass between two pieces on either side of a watershed, where little is left when clusters become narrow.
"""

import abc
from collections.abc import Callable
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from measureflow.measures.axial import AxialDensity, folded, gegenbauer_at, meridian, unfolded
from measureflow.measures.circle import CircleDensity
from measureflow.measures.cloud import AbstractCloud
from measureflow.measures.density import AbstractMoments, AbstractSpectral, shown
from measureflow.measures.sphere import SphereDensity, harmonic_sums
from measureflow.spaces import Euclidean, Sphere
from measureflow.sums import AbstractEngine, Attended, Auto, Blockwise

FINER = {CircleDensity: 8, SphereDensity: 2, AxialDensity: 4}
"""Parcels are cut on the grid of a density with so many times the moments: as many as cost no more than the density did."""


class AbstractParcels(AbstractCloud, AbstractMoments):
    """Parcels of a density. They know its moments, as many as it had, and show it again as a density of that degree."""

    points: eqx.AbstractVar[Float[Array, "*frames n d"]]
    log_weights: eqx.AbstractVar[Float[Array, "*frames n"]]
    engine: eqx.AbstractVar[AbstractEngine]

    @property
    def space(self) -> Sphere:
        """The sphere."""
        return Sphere(self.points.shape[-1])

    @property
    def described(self) -> str:
        """How many parcels, and where."""
        return f"A density on {self.space.symbol} in {self.points.shape[-2]} parcels"

    @property
    def tokens(self) -> "AbstractParcels":
        """The parcels themselves."""
        return self

    @property
    def moments(self) -> Float[Array, "*_"]:
        """The moments of the parcels."""
        return self.lowest(self.degree)

    @abc.abstractmethod
    def even(self) -> AbstractSpectral:
        """The uniform density in the form that the parcels were cut from."""

    def seen(self, like: AbstractSpectral) -> AbstractSpectral:
        """The density as moments of the degree of another show it: clusters are as wide as they can resolve."""
        return shown(self, like)

    @property
    def density(self) -> AbstractSpectral:
        """The density as its moments show it."""
        return self.seen(self.even())

    @property
    def values(self) -> Float[Array, " k"]:
        """The density at the nodes of its grid."""
        return self.density.values

    @property
    def negative_mass(self) -> Float[Array, ""]:
        """None: every parcel keeps its share."""
        return jnp.zeros(self.log_weights.shape[:-1], self.log_weights.dtype)

    @eqx.filter_jit
    def misplaced(self, other: AbstractMoments) -> Float[Array, ""]:
        """How far mass may be from where another measure has it: the largest difference of moments over their degree.

        Moving all mass by a distance changes no moment by more than its degree times that, so it is at most `W_1`.
        """
        degree = min(self.degree, other.degree)
        between = eqx.tree_at(lambda mu: mu.moments, self.even(), self.lowest(degree) - other.lowest(degree))
        return (jnp.abs(between.moments) / jnp.sqrt(jnp.maximum(between.eigenvalues, 1.0))).max()

    def coarser(self) -> "AbstractParcels":
        """The same parcels: what their number costs is seen by runs from densities of fewer moments, which have fewer."""
        return self


@final
class CircleParcels(AbstractParcels):
    """Parcels of a density on the circle."""

    points: Float[Array, "*frames n 2"]
    log_weights: Float[Array, "*frames n"]
    engine: AbstractEngine
    degree: int = eqx.field(static=True)

    @eqx.filter_jit
    def lowest(self, degree: int) -> Float[Array, "2 k"]:
        """The sums of cosines and of sines of multiples of the angles."""
        z = jax.lax.complex(*self.points.T)
        # Powers one after the other hold one row at a time, and their rounding grows like the degree only.
        start = self.weights.astype(z.dtype)
        _, sums = jax.lax.scan(lambda power, _: (power * z, power.sum()), start, length=degree + 1)
        return jnp.stack([sums.real, sums.imag])

    def even(self) -> CircleDensity:
        """The uniform density on the circle."""
        return CircleDensity.uniform(self.degree)


@final
class SphereParcels(AbstractParcels):
    """Parcels of a density on the usual sphere."""

    points: Float[Array, "*frames n 3"]
    log_weights: Float[Array, "*frames n"]
    engine: AbstractEngine
    degree: int = eqx.field(static=True)

    @eqx.filter_jit
    def lowest(self, degree: int) -> Float[Array, "2 l m"]:
        """The sums of harmonics over the parcels."""
        return harmonic_sums(degree, self.points, self.weights)

    def even(self) -> SphereDensity:
        """The uniform density on the sphere."""
        return SphereDensity.uniform(self.degree)


@final
class AxialParcels(AbstractParcels):
    """Parcels of a density about an axis: each is a ring around the first axis, kept as its point in one half plane."""

    points: Float[Array, "*frames n d"]
    log_weights: Float[Array, "*frames n"]
    engine: AbstractEngine
    degree: int = eqx.field(static=True)

    @property
    def engine_name(self) -> str:
        """Sums are over parcels and the angle about the axis."""
        return "quadrature"

    def attend(self, covectors: Float[Array, "m d"]) -> Attended:
        """The sums over rings, turned back to the direction of each covector."""
        a, across = folded(covectors)
        seen = self.engine.on(Euclidean(2)).attend(a, *self._rings())
        return Attended(seen.log_mass, unfolded(seen.mean, across))

    def ridge(
        self, kernel: Callable[[Float[Array, "*s"]], Float[Array, "*s"]], covectors: Float[Array, "m d"]
    ) -> tuple[Float[Array, " m"], Float[Array, "m d"]]:
        """The sums over rings for a kernel of the score."""
        (a, across), (nodes, log_weights) = folded(covectors), self._rings()

        def row(a):
            share = jnp.exp(log_weights) * kernel(nodes @ a)
            return share.sum(), share @ nodes

        mass, moment = Blockwise().rows(row, len(nodes), a)
        return mass, unfolded(moment, across)

    def integrate(self, integrand: Callable[[Float[Array, "m d"]], Float[Array, "m *shape"]]) -> Float[Array, "*shape"]:
        """The sum over points of the rings: exact for functions of degree up to three in the other coordinates."""
        (n, d), (z, s) = self.points.shape, self._heights()
        axes = jnp.eye(d, dtype=z.dtype)
        around = jnp.concatenate([axes[1:], -axes[1:]])
        points = z[:, None, None] * axes[:1][None] + s[:, None, None] * around[None]
        share = jnp.repeat(self.weights / len(around), len(around))
        return jnp.tensordot(share, integrand(points.reshape(n * len(around), d)), axes=1)

    @eqx.filter_jit
    def lowest(self, degree: int) -> Float[Array, " k"]:
        """The sums of polynomials of the heights."""
        return gegenbauer_at(self.space.dim, degree, self.points[:, 0]) @ self.weights

    def even(self) -> AxialDensity:
        """The uniform density on the sphere."""
        return AxialDensity.uniform(self.space.dim, self.degree)

    def _heights(self) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
        return self.points[:, 0], self.points[:, 1]

    def _rings(self) -> tuple[Float[Array, "N 2"], Float[Array, " N"]]:
        """Nodes of all rings in the half plane, and the logarithms of their masses."""
        (z, s), plane = self._heights(), meridian(self.space.dim, self.degree).half_plane
        u, shares = (jnp.asarray(part, z.dtype) for part in (plane.across, plane.shares))
        nodes = jnp.stack([jnp.repeat(z, len(u)), jnp.outer(s, u).ravel()], axis=1)
        return nodes, (self.log_weights[:, None] + jnp.log(shares)[None]).ravel()


PARCELS = {CircleDensity: CircleParcels, SphereDensity: SphereParcels, AxialDensity: AxialParcels}


@eqx.filter_jit
def cut(mu: AbstractSpectral) -> AbstractParcels:
    """A density in parcels, one for each point of a quadrature; what is negative gets no mass, and the whole keeps its own."""
    points, masses = mu.padded(FINER[type(mu)] * mu.degree).pieces()
    masses = jnp.maximum(masses, jnp.finfo(masses.dtype).tiny)
    return PARCELS[type(mu)](points, jnp.log(masses / masses.sum()), Auto().on(mu.space), mu.degree)

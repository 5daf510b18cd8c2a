"""Densities: measures known as functions, through a quadrature whose nodes do not move.

A `Grid` holds the nodes and does the one sum that costs, `T(a, W) = sum_l e^{<a, y_l>} W_l` for columns `W` of data at the
nodes; on a symmetric grid a transform does it faster for covectors that have the symmetry of the nodes. The sum is its own
derivative, `dT = <da, T(a, y W)> + T(a, dW)`, so every derivative is as fast. What covectors see of a density, its averages
and its reweightings are then the same for all densities; a density of its own kind adds what its numbers are (moments,
cell averages, harmonics) and how they move.
"""

import abc
from collections.abc import Callable
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from measureflow import checks
from measureflow.annotations import Number
from measureflow.measures.base import AbstractHeated, AbstractMeasure
from measureflow.sums import AbstractEngine, Attended, Blockwise

MASS_TOLERANCE = 1e-6
"""How far the mass of what a user passes may be from one: float32 rounding passes, a density never normalised does not."""

NEGATIVE = 1e-3
"""The negative mass at which a density is no longer one: far above what resolved runs show, and far below nonsense."""

TAIL = 1 / 8
"""The part of all degrees whose moments tell whether the others suffice."""

RESOLVED = 1e-6
"""The highest moments of a density that is resolved, well below what parcels of it misplace; in float32 some roundings."""

RIPPLE = 1e-4
"""The highest moments that are shown without a blur: their ripples are a tenth of the negative mass that ends a flow."""


class AbstractGrid:
    """Nodes of a quadrature in the unit ball, `(n, d)`, and their weights."""

    nodes: np.ndarray
    weights: np.ndarray

    def symmetric(self, a: Float[Array, "m d"]) -> Bool[Array, ""] | None:
        """Whether covectors lie like the nodes, so that `fast` may be used; None where it is known that they do not."""
        return None

    def fast(self, a: Float[Array, "m d"], shift: Float[Array, " m"], W: Float[Array, "n c"]) -> Float[Array, "m c"]:
        """The sums `sum_l e^{<a, y_l> - shift} W_l` by a transform if there is one, for covectors that lie like the nodes."""
        return self.direct(a, shift, W)

    def direct(self, a: Float[Array, "m d"], shift: Float[Array, " m"], W: Float[Array, "n c"]) -> Float[Array, "m c"]:
        """The same sums term by term, for any covectors."""
        nodes = jnp.asarray(self.nodes, a.dtype)
        return Blockwise().rows(lambda a, shift: jnp.exp(nodes @ a - shift) @ W, len(nodes), a, shift)

    def sums(self, a: Float[Array, "m d"], shift: Float[Array, " m"], W: Float[Array, "n c"]) -> Float[Array, "m c"]:
        """The sums, by the fast way if the covectors allow it."""
        symmetric = self.symmetric(a)
        return (
            self.direct(a, shift, W)
            if symmetric is None
            else jax.lax.cond(symmetric, self.fast, self.direct, a, shift, W)
        )


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def exponential_sums(
    grid: AbstractGrid, a: Float[Array, "m d"], shift: Float[Array, " m"], W: Float[Array, "n c"]
) -> Float[Array, "m c"]:
    """The sums `sum_l e^{<a, y_l> - shift} W_l` over the nodes of a grid."""
    return grid.sums(a, shift, W)


@exponential_sums.defjvp
def _(grid, primals, tangents):
    (a, shift, W), (da, dshift, dW) = primals, tangents
    nodes = jnp.asarray(grid.nodes, a.dtype)
    n, c = W.shape
    columns = jnp.concatenate([W, (nodes[:, :, None] * W[:, None, :]).reshape(n, -1)], axis=1)
    T, first = jnp.split(exponential_sums(grid, a, shift, columns), [c], axis=1)
    turned = jnp.einsum("md,mdc->mc", da, first.reshape(len(a), -1, c))
    return T, exponential_sums(grid, a, shift, dW) + turned - dshift[:, None] * T


class AbstractDensity(AbstractMeasure):
    """A measure with a density, seen through its values at the nodes of a grid.

    `tilt` is the potential at the nodes by which the measure has been reweighted, if it has been.
    """

    tilt: eqx.AbstractVar[Float[Array, "*frames n"] | None]

    @property
    def described(self) -> str:
        """What, and where."""
        return f"A density on {self.space.symbol}"

    @property
    @abc.abstractmethod
    def grid(self) -> AbstractGrid:
        """The nodes at which the density is known."""

    @property
    @abc.abstractmethod
    def masses(self) -> Float[Array, "*frames n"]:
        """The density at the nodes times the weights of the quadrature, not tilted; negative where the density is."""

    @property
    def nodes(self) -> Float[Array, "n d"]:
        """The points at which the density is known."""
        return jnp.asarray(self.grid.nodes, self.masses.dtype)

    @property
    def negative_mass(self) -> Float[Array, "*frames"]:
        """The mass below zero: 0 for a density that is one, growing when its numbers no longer resolve it."""
        return -jnp.minimum(self.masses, 0.0).sum(-1)

    def sound(self) -> Bool[Array, ""]:
        """Whether the numbers still are those of a density, up to a negative mass of 1e-3."""
        return self.negative_mass <= NEGATIVE

    def attend(self, covectors: Float[Array, "m d"]) -> Attended:
        """The sums over the grid: spectrally accurate for smooth densities."""
        masses, height = self._tilted()
        shift = jax.lax.stop_gradient(jnp.linalg.norm(covectors, axis=-1))
        W = masses[:, None] * jnp.concatenate([jnp.ones_like(self.nodes[:, :1]), self.nodes], axis=1)
        T = exponential_sums(self.grid, covectors, shift, W)
        return Attended(shift + height + jnp.log(T[:, 0]), T[:, 1:] / T[:, :1])

    def ridge(
        self, kernel: Callable[[Float[Array, "*s"]], Float[Array, "*s"]], covectors: Float[Array, "m d"]
    ) -> tuple[Float[Array, " m"], Float[Array, "m d"]]:
        """The sums over the grid, term by term: spectrally accurate for smooth kernels, second order for a kink."""
        masses, height = self._tilted()
        nodes, masses = self.nodes, jnp.exp(height) * masses

        def row(a):
            share = masses * kernel(nodes @ a)
            return share.sum(), share @ nodes

        return Blockwise().rows(row, len(nodes), covectors)

    def integrate(self, integrand: Callable[[Float[Array, "m d"]], Float[Array, "m *shape"]]) -> Float[Array, "*shape"]:
        """The quadrature over the grid."""
        masses, height = self._tilted()
        values = checks.rows(integrand(self.nodes), len(self.nodes))
        return jnp.tensordot(jnp.exp(height) * masses, values, axes=1)

    def potential(self, f: Callable[[Float[Array, "m d"]], Float[Array, " m"]]) -> Float[Array, " n"]:
        """The values of a function at the nodes."""
        return f(self.nodes)

    def weigh(self, potential: Float[Array, " n"]) -> "AbstractDensity":
        """Add a potential to the tilt."""
        tilt = potential if self.tilt is None else self.tilt + potential
        return eqx.tree_at(lambda mu: mu.tilt, self, tilt, is_leaf=lambda leaf: leaf is None)

    def using(self, engine: AbstractEngine) -> "AbstractDensity":
        """A density sums over its own grid."""
        raise ValueError(
            f"`engine` is for kernel sums over particles; {type(self).__name__} sums over its grid. Got {type(engine).__name__}."
        )

    def _tilted(self) -> tuple[Float[Array, " n"], Float[Array, ""]]:
        """The masses after the tilt, scaled so that they do not overflow, and the logarithm of the scale."""
        if self.tilt is None:
            return self.masses, jnp.zeros((), self.masses.dtype)
        top = jax.lax.stop_gradient(self.tilt.max())
        return self.masses * jnp.exp(self.tilt - top), top


class AbstractMoments(AbstractMeasure):
    """A measure that is known by moments, whether they are its numbers or are made of them.

    So a density and the parcels that it went on as can be told apart by the same numbers.
    """

    degree: eqx.AbstractVar[int]
    """The highest degree of its moments."""

    @abc.abstractmethod
    def lowest(self, degree: int) -> Float[Array, "*_"]:
        """The moments up to a degree."""


class AbstractSpectral(AbstractDensity, AbstractHeated, AbstractMoments):
    """A density through its moments against functions that the heat equation only scales."""

    moments: eqx.AbstractVar[Float[Array, "*frames _"]]
    finest: eqx.AbstractClassVar[int]
    """The degree up to which `finer` goes: beyond it a step takes too long, or a table too much memory."""

    @property
    def degree(self) -> int:
        """The highest degree of the moments."""
        return self.moments.shape[-1] - 1

    @property
    @abc.abstractmethod
    def eigenvalues(self) -> Float[Array, "*_"]:
        """Those of minus the Laplacian, shaped so that they multiply the moments."""

    @property
    @abc.abstractmethod
    def values(self) -> Float[Array, "*frames n"]:
        """The density at the nodes."""

    @property
    def masses(self) -> Float[Array, "*frames n"]:
        """The density times the weights of the quadrature."""
        values = self.values
        return values * jnp.broadcast_to(jnp.asarray(self.grid.weights, values.dtype), values.shape)

    def diffuse(self, temperature: Number) -> "AbstractSpectral":
        """The rate under the heat equation: minus the temperature times the eigenvalues times the moments."""
        return self._with(-jnp.asarray(temperature, self.moments.dtype) * self.eigenvalues * self.moments)

    def heat(self, span: Number) -> "AbstractSpectral":
        """The density, or a tangent to it, after the heat equation with unit temperature for a span of time."""
        return self._with(jnp.exp(-jnp.asarray(span, self.moments.dtype) * self.eigenvalues) * self.moments)

    def settle(self) -> "AbstractSpectral":
        """Every table of moments is taken as it is."""
        return self

    def coarser(self) -> "AbstractSpectral | None":
        """The density with a quarter of its moments less; None where only the mass would be left."""
        keep = 3 * self.degree // 4
        return None if keep < 1 else self._with(self.lowest(keep))

    def finer(self) -> "AbstractSpectral | None":
        """The same density with room for twice as many moments; None where those would be too many."""
        return None if 2 * self.degree > self.finest else self.padded(2 * self.degree)

    def lowest(self, degree: int) -> Float[Array, "*_"]:
        """The moments up to a degree, of those that there are."""
        return self.moments[..., : degree + 1]

    def padded(self, degree: int) -> "AbstractSpectral":
        """The same density with moments up to a higher degree, which are zero."""
        more = [(0, 0)] * (self.moments.ndim - 1) + [(0, degree - self.degree)]
        return self._with(jnp.pad(self.moments, more))

    def pieces(self) -> tuple[Float[Array, "n d"], Float[Array, " n"]]:
        """Points and masses of a quadrature of the density."""
        return self.nodes, self.masses

    @property
    def tail(self) -> Float[Array, ""]:
        """The largest moment of the highest degrees, an eighth of all: what is left out is of that size or smaller."""
        top = self.eigenvalues >= (1 - TAIL) ** 2 * self.eigenvalues.max()
        return jnp.where(top, jnp.abs(self.moments), 0.0).max()

    def resolved(self) -> Bool[Array, ""]:
        """Whether the highest moments have decayed, so that those above, which there are not, would have done so too."""
        return self.tail <= max(RESOLVED, 100 * float(jnp.finfo(self.moments.dtype).eps))

    def seen(self, like: "AbstractSpectral") -> "AbstractSpectral":
        """The density as moments of the degree of another show it."""
        return like._with(self.moments) if self.degree == like.degree else shown(self, like)

    def _with(self, moments: Float[Array, "*_"]) -> "AbstractSpectral":
        return eqx.tree_at(lambda mu: mu.moments, self, moments)


@eqx.filter_jit
def shown(mu: AbstractMoments, like: AbstractSpectral) -> AbstractSpectral:
    """The density of the lowest moments, blurred by the heat equation for as long as those left out would make it ripple.

    It is not blurred at all while the next ones are below a bound, so that what is shown changes steadily when a density loses
    its resolution, and one that has no others is shown as it is. A cluster is a bump about as wide as the shortest wave.
    """
    wide = like.padded(like.degree + max(1, int(TAIL * like.degree)))
    wide = wide._with(mu.lowest(wide.degree))
    sharp, highest = like._with(wide.lowest(like.degree)), like.eigenvalues.max()
    left = jnp.where(wide.eigenvalues > highest, jnp.abs(wide.moments), 0.0).max()
    return sharp.heat(jnp.log(jnp.maximum(jnp.minimum(sharp.tail, left) / RIPPLE, 1.0)) / highest)


def check_density(values: Array, weights: np.ndarray) -> None:
    """Refuse values that are not those of a probability density, where `weights` are those of the quadrature."""
    checks.finite("values", values)
    if not checks.concrete(values):
        return
    known = np.asarray(values)
    if (lowest := float(known.min())) < 0:
        raise ValueError(
            f"`values` of a density must not be negative; entry {int(known.argmin())} is {lowest:.3g}. "
            "If that is rounding, set it to zero."
        )
    if abs((mass := float(known @ weights)) - 1) > MASS_TOLERANCE:
        raise ValueError(f"`values` must have mass 1 within {MASS_TOLERANCE:g}; got {mass:.6g}. Divide them by it.")


def lost(shown: Array, values: Array) -> float:
    """How far a density is from the values that it was made of, relative to their maximum; 0 where they are traced."""
    if not checks.concrete(shown, values):
        return 0.0
    given = np.asarray(values)
    return float(np.abs(np.asarray(shown) - given).max() / given.max())

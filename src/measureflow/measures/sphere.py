"""Densities on the usual sphere: the mean-field limit of tokens on `Sphere(3)`.

A density is kept as its moments `∫ P_lm(z) cos(mφ) dμ` and `∫ P_lm(z) sin(mφ) dμ` for spherical harmonics up to a degree, with
`z` the third coordinate, `φ` the angle about it, and `P_lm` scaled so that each `P_lm e^{imφ}` has mean square one. The weak
form of the continuity equation moves them: the rate of `∫ f dμ` is `∫ <∇f, v> dμ`. Integrals are taken on a grid of
Gauss-Legendre nodes in `z` times equal angles, by a Fourier transform along the circles of latitude and a matrix for each
order across them. A kernel of `<x, y>` multiplies the moments of degree `l` by one number (Funk and Hecke), so attention
with scores `beta <x, y>` costs two transforms.
"""

import functools
from collections.abc import Callable
from typing import ClassVar, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from measureflow import checks
from measureflow.annotations import Numbers, RandomKey
from measureflow.measures.circle import fast_size
from measureflow.measures.cloud import AbstractSampled, as_key
from measureflow.measures.density import AbstractGrid, AbstractSpectral, check_density, lost
from measureflow.measures.particles import Particles
from measureflow.spaces import Sphere

RESOLVED = 1e-6
"""How far, relative to its maximum, a density may be from its harmonics up to the degree asked for."""


class Globe(AbstractGrid):
    """Nodes on circles of latitude, on which products of two densities of a degree are integrated exactly.

    `harmonics[m, l, i]` are the `P_lm` at latitude `i` up to one degree more. Their derivatives need no tables of their own:
    along the meridian `(l z P_lm - c_lm P_(l-1)m) / s` with the `lower[l, m]` for `c`, along the circle `m P_lm / s`.
    """

    def __init__(self, degree: int):
        self.degree, self.latitudes, self.longitudes = degree, 3 * degree // 2 + 2, fast_size(3 * degree + 3)
        self.z, self.z_weights = np.polynomial.legendre.leggauss(self.latitudes)
        self.angles = 2 * np.pi * np.arange(self.longitudes) / self.longitudes
        s = np.sqrt(1 - self.z**2)
        z, s_, phi = (part.ravel() for part in np.broadcast_arrays(self.z[:, None], s[:, None], self.angles[None]))
        self.nodes = np.stack([s_ * np.cos(phi), s_ * np.sin(phi), z], axis=1)
        self.weights = np.repeat(self.z_weights, self.longitudes) * 2 * np.pi / self.longitudes
        self.south = np.stack([z * np.cos(phi), z * np.sin(phi), -s_], axis=1)
        self.east = np.stack([-np.sin(phi), np.cos(phi), np.zeros_like(phi)], axis=1)
        self.sines, self.heights = s_, z
        self.harmonics = _legendre(degree + 1, self.z)
        l, m = np.arange(degree + 1)[:, None], np.arange(degree + 1)  # noqa: E741
        self.lower = np.sqrt((2 * l + 1) / np.maximum(2 * l - 1, 1) * np.maximum(l**2 - m**2, 0))

    def analyse(self, data: Float[Array, "n c"], table: np.ndarray) -> Float[Array, "2 l m c"]:
        """The sums over the nodes of data times `table` and the cosine, or the sine, of `m φ`."""
        size = table.shape[0]
        rings = jnp.fft.rfft(data.reshape(self.latitudes, self.longitudes, -1), axis=1)[:, :size]
        parts = jnp.stack([rings.real, -rings.imag])
        return jnp.einsum("mli,kimc->klmc", jnp.asarray(table, data.dtype), parts)

    def synthesise(self, moments: Float[Array, "2 l m c"]) -> Float[Array, "n c"]:
        """The function with given moments with respect to the uniform law, at the nodes."""
        size = moments.shape[1]
        table = jnp.asarray(self.harmonics[:size, :size], moments.dtype)
        cosines, sines = jnp.einsum("mli,klmc->kimc", table, moments)
        rings = jnp.fft.irfft(jax.lax.complex(cosines, -sines), self.longitudes, axis=1) * self.longitudes
        return rings.reshape(len(self.nodes), -1)

    def symmetric(self, a: Float[Array, "m d"]) -> Bool[Array, ""] | None:
        """Whether the covectors are one multiple of the nodes."""
        if len(a) != len(self.nodes):
            return None
        nodes = jnp.asarray(self.nodes, a.dtype)
        return jnp.abs(a - (a[0] @ nodes[0]) * nodes).max() <= 16 * jnp.finfo(a.dtype).eps * jnp.abs(a).max()

    def fast(self, a: Float[Array, "m d"], shift: Float[Array, " m"], W: Float[Array, "n c"]) -> Float[Array, "m c"]:
        """The moments of the data times the coefficients `½ ∫ e^{rt} P_l(t) dt` of the kernel."""
        z, w, first = (jnp.asarray(x, a.dtype) for x in (self.z, self.z_weights, self.harmonics[0]))
        kernel = jnp.exp((a[0] @ jnp.asarray(self.nodes[0], a.dtype)) * z - shift[0])
        degrees = jnp.sqrt(2 * jnp.arange(len(first), dtype=a.dtype) + 1)
        coefficients = first @ (w * kernel) / (2 * degrees)
        return self.synthesise(coefficients[None, :, None, None] * self.analyse(W, self.harmonics))


@functools.cache
def globe(degree: int) -> Globe:
    """The grid for a degree, one object for each so that nothing compiles twice."""
    if degree < 1:
        raise ValueError(f"`degree` must be at least 1; got {degree}.")
    return Globe(degree)


@final
class SphereDensity(AbstractSpectral, AbstractSampled):
    """A density on the usual sphere through its moments with harmonics up to a degree, `(2, degree + 1, degree + 1)`.

    `values` are densities with respect to the area at the nodes of `globe(degree)`. The first axis of `moments` has cosines
    and sines, the second the degree `l`, the third the order `m`; entries with `m > l` are zero. Attention whose scores are a
    multiple of `<x, y>` is fast; any other sums over all pairs of nodes, which is for degrees up to about 20.

    >>> mu = mf.SphereDensity.uniform(4)
    >>> mu
    SphereDensity(A density on S²)
    >>> round(float(mu.expect(lambda x: x[0] ** 2)), 3)
    0.333
    """

    tilt: Float[Array, "*frames n"] | None
    moments: Float[Array, "*frames 2 l m"]
    finest: ClassVar[int] = 64

    def __init__(self, values: Numbers, degree: int):
        values, grid = checks.floating(values), globe(degree)
        checks.shaped("values", values, (len(grid.nodes),), f"They are the density at the nodes of `globe({degree})`.")
        check_density(values, grid.weights)
        self.tilt = None
        self.moments = _analysed(values, degree)
        off = lost(self.values, values)
        if off > RESOLVED:
            raise ValueError(
                f"`degree` {degree} resolves the density only to {off:.2g} of its maximum; take a higher one."
            )

    @staticmethod
    def uniform(degree: int) -> "SphereDensity":
        """The uniform density with harmonics up to a degree."""
        return SphereDensity(np.full(len(globe(degree).nodes), 1 / (4 * np.pi)), degree)

    @staticmethod
    def from_function(density: Callable[[Float[Array, "n 3"]], Float[Array, " n"]], degree: int) -> "SphereDensity":
        """The density given as a function of a batch of points, with harmonics up to a degree.

        For example `SphereDensity.from_function(lambda x: (1 + x[:, 0]) / (4 * jnp.pi), 8)`.
        """
        return SphereDensity(density(jnp.asarray(globe(degree).nodes, float)), degree)

    @property
    def space(self) -> Sphere:
        """The usual sphere."""
        return Sphere(3)

    @property
    def grid(self) -> Globe:
        """The nodes on circles of latitude."""
        return globe(self.degree)

    @property
    def values(self) -> Float[Array, "*frames n"]:
        """The density at the nodes, with respect to the area."""
        return _synthesised(self.moments)

    @property
    def engine_name(self) -> str:
        """Sums are done by harmonics."""
        return "harmonics"

    def transport(self, velocity: Callable[[Float[Array, "m d"]], Float[Array, "m d"]]) -> "AbstractSpectral":
        """The rate of the moments, `∫ <∇f, v> dμ` for each harmonic `f`."""
        grid, nodes, size = self.grid, self.nodes, self.degree + 1
        v = velocity(nodes)
        checks.shaped("velocity", v, nodes.shape, "A field on the sphere has three coordinates.")
        lower, heights, sines = (jnp.asarray(part, v.dtype) for part in (grid.lower, grid.heights, grid.sines))
        south, east = (self.masses * (jnp.asarray(e, v.dtype) * v).sum(-1) / sines for e in (grid.south, grid.east))
        rates = grid.analyse(jnp.stack([heights * south, south, east], axis=1), grid.harmonics[:size, :size])
        degrees = jnp.arange(size, dtype=v.dtype)
        below = jnp.pad(rates[:, :-1, :, 1], ((0, 0), (1, 0), (0, 0)))
        along = degrees[None, :, None] * rates[..., 0] - lower[None] * below
        around = degrees[None, None] * rates[..., 2]
        return self._with(along + jnp.stack([-around[1], around[0]]))

    def sample(self, n: int, *, key: RandomKey) -> Particles:
        """Independent tokens, uniform in the cells around nodes drawn by mass; needs a density that is not negative.

        Averages are off by the square of the distance of the nodes.
        """
        grid, dtype = self.grid, self.moments.dtype
        node_key, z_key, angle_key = jax.random.split(as_key(key), 3)
        below = jnp.cumsum(self.masses)
        drawn = jnp.searchsorted(below, below[-1] * jax.random.uniform(node_key, (n,), dtype), side="right")
        i, j = jnp.divmod(drawn, grid.longitudes)
        edges = jnp.asarray(np.concatenate([[0.0], np.cumsum(grid.z_weights)]) - 1, dtype)
        z = jnp.clip(edges[i] + (edges[i + 1] - edges[i]) * jax.random.uniform(z_key, (n,), dtype), -1.0, 1.0)
        phi = 2 * jnp.pi / grid.longitudes * (j.astype(dtype) + jax.random.uniform(angle_key, (n,), dtype, -0.5, 0.5))
        s = jnp.sqrt(1 - z**2)
        return Particles(self.space, jnp.stack([s * jnp.cos(phi), s * jnp.sin(phi), z], axis=1)).settle()

    def lowest(self, degree: int) -> Float[Array, "*frames 2 l m"]:
        """The moments up to a degree, and so up to that order."""
        return self.moments[..., : degree + 1, : degree + 1]

    def padded(self, degree: int) -> "SphereDensity":
        """The same density with moments up to a higher degree and order, which are zero."""
        more = degree - self.degree
        return eqx.tree_at(
            lambda mu: mu.moments,
            self,
            jnp.pad(self.moments, [(0, 0)] * (self.moments.ndim - 2) + [(0, more), (0, more)]),
        )

    @property
    def eigenvalues(self) -> Float[Array, "1 l 1"]:
        """Those of the harmonics, `l(l + 1)`."""
        degrees = jnp.arange(self.degree + 1, dtype=self.moments.dtype)
        return (degrees * (degrees + 1))[None, :, None]


@functools.partial(jax.jit, static_argnums=1)
def _analysed(values: Float[Array, " n"], degree: int) -> Float[Array, "2 l m"]:
    """The moments of a density at the nodes."""
    grid = globe(degree)
    masses = values * jnp.asarray(grid.weights, values.dtype)
    return grid.analyse(masses[:, None], grid.harmonics[: degree + 1, : degree + 1])[..., 0]


@jax.jit
def _synthesised(moments: Float[Array, "*frames 2 l m"]) -> Float[Array, "*frames n"]:
    """The density at the nodes."""
    flat = moments.reshape(-1, *moments.shape[-3:])
    values = globe(moments.shape[-1] - 1).synthesise(jnp.moveaxis(flat, 0, -1)).T / (4 * jnp.pi)
    return values.reshape(*moments.shape[:-3], -1)


def _legendre(degree: int, z: np.ndarray) -> np.ndarray:
    """The functions `P_lm` at heights `z` with mean square one on the sphere, as `[m, l, i]`, by the stable recurrence in `l`."""
    P = np.zeros((degree + 1, degree + 1, len(z)))
    P[0, 0] = 1.0
    for m in range(1, degree + 1):
        P[m, m] = np.sqrt((2 * m + 1) / (2 * m)) * np.sqrt(1 - z**2) * P[m - 1, m - 1]
    for m in range(degree):
        P[m, m + 1] = np.sqrt(2 * m + 3) * z * P[m, m]
        for l in range(m + 2, degree + 1):  # noqa: E741
            a, b = (4 * l**2 - 1) / (l**2 - m**2), ((l - 1) ** 2 - m**2) / (4 * (l - 1) ** 2 - 1)
            P[m, l] = np.sqrt(a) * (z * P[m, l - 1] - np.sqrt(b) * P[m, l - 2])
    return P


def harmonic_sums(degree: int, points: Float[Array, "n 3"], weights: Float[Array, " n"]) -> Float[Array, "2 l m"]:
    """The moments of weighted points of the sphere, one degree after the other so that little is held at once.

    `P_lm e^{imφ} = sqrt(2l + 1) Q_lm(z) (x + iy)^m`, and with `r_lm = sqrt(l² - m²)` the recurrence is
    `r_lm Q_lm = (2l - 1) z Q_(l-1)m - r_(l-1)m Q_(l-2)m`.
    """
    (x, y, z), (l, m) = points.T, np.ogrid[: degree + 1, : degree + 1]  # noqa: E741
    root = np.sqrt(np.where(m < l, l**2 - m**2, 1))
    ahead = np.where(m < l, (2 * l - 1) / root, 0.0)
    behind = np.where(m < l, np.sqrt(np.maximum((l - 1) ** 2 - m**2, 0)) / root, 0.0)
    first = np.diag(np.cumprod(np.sqrt(np.maximum(2 * m[0] - 1, 1) / np.maximum(2 * m[0], 1))))
    turn = jax.lax.complex(x, y)
    _, waves = jax.lax.scan(lambda wave, _: (wave * turn, wave), weights.astype(turn.dtype), length=degree + 1)
    parts = jnp.stack([waves.real, waves.imag])

    def up(carry, row):
        (last, before), (ahead, behind, first) = carry, (part[:, None] for part in row)
        now = ahead * z[None] * last - behind * before + first
        return (now, last), (parts * now[None]).sum(-1)

    none = jnp.zeros((degree + 1, len(z)), z.dtype)
    rows = tuple(jnp.asarray(table, z.dtype) for table in (ahead, behind, first))
    sums = jnp.moveaxis(jax.lax.scan(up, (none, none), rows)[1], 1, 0)
    return sums * jnp.asarray(np.sqrt(2 * l + 1.0), z.dtype)[None]

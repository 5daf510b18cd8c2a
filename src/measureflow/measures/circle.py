"""Densities on the unit circle: the mean-field limit of tokens on `Sphere(2)`.

`CircleDensity` is what is left of the PDE `∂ρ/∂t + ∂(ρv)/∂θ = 0` when `ρ` is kept as trigonometric moments
`m_k = ∫ e^{-ikθ} dμ`: then `m_k' = -ik ∫ v e^{-ikθ} dμ`, the mass does not move at all, diffusion is diagonal, and smooth
densities are exact to rounding. Products are formed on a grid of more than three points per moment, where those of two
band-limited functions do not alias. `CircleCells` keeps averages over cells instead: second order, but positive.
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
from measureflow.annotations import Number, Numbers, RandomKey
from measureflow.measures.base import AbstractHeated
from measureflow.measures.cloud import AbstractSampled, as_key
from measureflow.measures.density import NEGATIVE, AbstractDensity, AbstractGrid, AbstractSpectral, check_density
from measureflow.measures.particles import Particles
from measureflow.spaces import Sphere

Velocity = Callable[[Float[Array, "m d"]], Float[Array, "m d"]]


class Ring(AbstractGrid):
    """Equally spaced nodes: for covectors that turn like them the kernel is circulant, and the sum a convolution."""

    def __init__(self, size: int):
        self.angles = 2 * np.pi * np.arange(size) / size
        self.nodes = np.stack([np.cos(self.angles), np.sin(self.angles)], axis=1)
        self.weights = np.full(size, 2 * np.pi / size)

    def symmetric(self, a: Float[Array, "m d"]) -> Bool[Array, ""] | None:
        """Whether the covectors are the corners of a regular polygon, in the order of the nodes."""
        if len(a) != len(self.nodes):
            return None
        cos, sin = jnp.asarray(self.nodes.T, a.dtype)
        corners = jnp.stack([cos * a[0, 0] - sin * a[0, 1], sin * a[0, 0] + cos * a[0, 1]], axis=1)
        return jnp.abs(a - corners).max() <= 16 * jnp.finfo(a.dtype).eps * jnp.abs(a).max()

    def fast(self, a: Float[Array, "m d"], shift: Float[Array, " m"], W: Float[Array, "n c"]) -> Float[Array, "m c"]:
        """The convolution of the kernel seen from the first node with the data."""
        kernel = jnp.exp(a[:, :1] - shift[:, None])
        return jnp.fft.irfft(jnp.fft.rfft(kernel, axis=0) * jnp.fft.rfft(W, axis=0), len(W), axis=0)


@functools.cache
def ring(size: int) -> Ring:
    """The grid of a given size, one object for each so that nothing compiles twice."""
    return Ring(size)


@final
class CircleDensity(AbstractSpectral, AbstractSampled):
    """A density on the circle through its moments `∫ cos(kθ) dμ` and `∫ sin(kθ) dμ`, the two rows of `moments`.

    `values` are densities with respect to the angle at equally spaced angles from zero: `2K + 1` of them give `K` moments.
    A flow that makes finer structure than the moments resolve shows it by a growing `negative_mass`, and ends with an
    outcome that says so. `filter`, an even order such as 8, damps the highest moments at the rate `K (k/K)^filter`, which
    is nothing to what is resolved: then the flow goes on past that time with the right low moments, and `values` that
    ripple around clusters; at order 2 they do not, at the price of first order.

    >>> mu = mf.CircleDensity.from_function(lambda angle: (1 + jnp.cos(angle)) / (2 * jnp.pi), modes=4)
    >>> mu
    CircleDensity(A density on S¹)
    >>> round(float(mu.expect(lambda x: x[0])), 3)
    0.5
    """

    tilt: Float[Array, "*frames n"] | None
    moments: Float[Array, "*frames 2 k"]
    finest: ClassVar[int] = 4096
    filter: int | None = eqx.field(static=True)

    def __init__(self, values: Numbers, filter: int | None = None):
        values = checks.floating(values)
        checks.shaped("values", values, ("n",), "They are the density at equally spaced angles.")
        if len(values) < 3:
            raise ValueError(f"`values` needs at least 3 angles to hold a moment; got {len(values)}.")
        if filter is not None and (filter < 2 or filter % 2):
            raise ValueError(f"`filter` is an even order, such as 8; got {filter}.")
        check_density(values, np.full(len(values), 2 * np.pi / len(values)))
        self.moments = _analysed(values)
        self.tilt, self.filter = None, filter

    @staticmethod
    def uniform(modes: int, filter: int | None = None) -> "CircleDensity":
        """The uniform density with a number of moments."""
        return CircleDensity(np.full(_count(modes), 1 / (2 * np.pi)), filter)

    @staticmethod
    def from_function(
        density: Callable[[Float[Array, " n"]], Float[Array, " n"]], modes: int, filter: int | None = None
    ) -> "CircleDensity":
        """The density given as a function of the angle, with a number of moments.

        For example `CircleDensity.from_function(lambda t: (1 + jnp.cos(t)) / (2 * jnp.pi), 32)`.
        """
        return CircleDensity(density(jnp.asarray(ring(_count(modes)).angles, float)), filter)

    @property
    def modes(self) -> int:
        """The number of moments above the mass."""
        return self.degree

    @property
    def space(self) -> Sphere:
        """The circle."""
        return Sphere(2)

    @property
    def grid(self) -> Ring:
        """More than three nodes per moment, in a number that transforms fast."""
        return ring(fast_size(3 * self.modes + 1))

    @property
    def values(self) -> Float[Array, "*frames n"]:
        """The density at the nodes."""
        return self.sampled(len(self.grid.nodes))

    def sampled(self, size: int) -> Float[Array, "*frames n"]:
        """The density at equally spaced angles from zero, more than two per moment."""
        if size <= 2 * self.modes:
            raise ValueError(f"`size` must be more than {2 * self.modes} to show {self.modes} moments; got {size}.")
        return _synthesised(self.moments, size)

    @property
    def engine_name(self) -> str:
        """Sums are convolutions."""
        return "fourier"

    def transport(self, velocity: Velocity) -> "AbstractSpectral":
        """The rate of the moments, `m_k' = -ik ∫ v e^{-ikθ} dμ`, and of the filter."""
        cosines, sines = _real(jnp.fft.rfft(self.masses * _speed(self.nodes, velocity))[: self.modes + 1])
        k = jnp.arange(self.modes + 1, dtype=self.moments.dtype)
        damping = 0.0 if self.filter is None else self.modes * (k[None] / self.modes) ** self.filter
        return self._with(jnp.stack([-k * sines, k * cosines]) - jnp.asarray(damping, k.dtype) * self.moments)

    def sound(self) -> Bool[Array, ""]:
        """Whether the density is still resolved; ripples are no harm where a filter keeps them from growing."""
        return self.negative_mass <= (NEGATIVE if self.filter is None else jnp.inf)

    def pieces(self) -> tuple[Float[Array, "n 2"], Float[Array, " n"]]:
        """Points and masses midway between the nodes: a density that is even has its watershed at a node."""
        size, dtype = len(self.grid.nodes), self.moments.dtype
        half = jnp.asarray(self.grid.angles + np.pi / size, dtype)
        phase = jnp.asarray(np.pi / size * np.arange(self.modes + 1), dtype)
        waves = _complex(self.moments) * jax.lax.complex(jnp.cos(phase), jnp.sin(phase))
        return jnp.stack([jnp.cos(half), jnp.sin(half)], axis=1), jnp.fft.irfft(waves, size)

    def resolved(self) -> Bool[Array, ""]:
        """Whether the highest moments have decayed; a filter takes care of them where there is one."""
        return super().resolved() if self.filter is None else jnp.array(True)

    def quantiles(self, n: int) -> Particles:
        """Equally weighted tokens that divide the mass evenly: closer to the density than a sample, by far."""
        return self._particles((jnp.arange(n, dtype=self.moments.dtype) + 0.5) / n)

    def sample(self, n: int, *, key: RandomKey) -> Particles:
        """Independent tokens from the density, up to the square of the distance of the nodes."""
        return self._particles(jax.random.uniform(as_key(key), (n,), self.moments.dtype))

    @eqx.filter_jit
    def _particles(self, shares: Float[Array, " n"]) -> Particles:
        size = 4 * len(self.grid.nodes)
        k = jnp.arange(self.modes + 1, dtype=self.moments.dtype)
        cosines, sines = self.moments / jnp.maximum(k, 1.0)[None]
        primitive = jnp.stack([-sines, cosines]).at[:, 0].set(0.0)
        wave = jnp.fft.irfft(_complex(primitive), size) * (size / (2 * jnp.pi))
        angles = jnp.linspace(0.0, 2 * jnp.pi, size + 1, dtype=k.dtype)
        below = self.moments[0, 0] * angles / (2 * jnp.pi) + jnp.append(wave, wave[0]) - wave[0]
        places = jnp.interp(shares * below[-1], below, angles)
        return Particles(self.space, jnp.stack([jnp.cos(places), jnp.sin(places)], axis=1))

    @property
    def eigenvalues(self) -> Float[Array, "1 k"]:
        """Those of the waves, `k²`."""
        return jnp.arange(self.modes + 1, dtype=self.moments.dtype)[None] ** 2


@final
class CircleCells(AbstractDensity, AbstractHeated, AbstractSampled):
    """A density on the circle through its averages over equal cells, the first one centred at angle zero.

    Mass moves from cell to cell across their edges, so none is lost; what crosses is taken from the side it comes from,
    with slopes limited by `minmod`, so that averages stay positive under `Euler(dt)` and `Heun(dt)` as long as `dt` is at
    most half the time in which the fastest mass crosses a cell. Second order where the density is smooth and has no
    extremum.

    >>> mu = mf.CircleCells.uniform(4)
    >>> mu
    CircleCells(A density on S¹)
    >>> mu.masses.round(3).tolist()
    [0.25, 0.25, 0.25, 0.25]
    """

    tilt: Float[Array, "*frames n"] | None
    values: Float[Array, "*frames n"]

    def __init__(self, values: Numbers):
        self.values = checks.floating(values)
        checks.shaped("values", self.values, ("n",), "They are the averages over equal cells.")
        if len(self.values) < 3:
            raise ValueError(f"`values` needs at least 3 cells; got {len(self.values)}.")
        check_density(self.values, np.full(len(self.values), 2 * np.pi / len(self.values)))
        self.tilt = None

    @staticmethod
    def uniform(cells: int) -> "CircleCells":
        """The uniform density on a number of cells."""
        return CircleCells(jnp.full(cells, 1 / (2 * jnp.pi)))

    @property
    def space(self) -> Sphere:
        """The circle."""
        return Sphere(2)

    @property
    def grid(self) -> Ring:
        """The centres of the cells."""
        return ring(self.values.shape[-1])

    @property
    def masses(self) -> Float[Array, "*frames n"]:
        """The masses of the cells."""
        return self.values * self.width

    @property
    def width(self) -> float:
        """The width of a cell."""
        return 2 * np.pi / self.values.shape[-1]

    @property
    def engine_name(self) -> str:
        """Sums are convolutions."""
        return "fourier"

    def transport(self, velocity: Velocity) -> "CircleCells":
        """The rate of the averages: what comes in across the edges minus what goes out, over the width."""
        half = jnp.asarray(self.grid.angles + self.width / 2, self.values.dtype)
        speed = _speed(jnp.stack([jnp.cos(half), jnp.sin(half)], axis=1), velocity)
        ahead = jnp.roll(self.values, -1) - self.values
        slope = _minmod(ahead, jnp.roll(ahead, 1))
        here, next_ = self.values + slope / 2, jnp.roll(self.values - slope / 2, -1)
        flux = jnp.maximum(speed, 0.0) * here + jnp.minimum(speed, 0.0) * next_
        return self._with((jnp.roll(flux, 1) - flux) / self.width)

    def diffuse(self, temperature: Number) -> "CircleCells":
        """The rate under the heat equation, by the second difference of the averages."""
        second = jnp.roll(self.values, -1) - 2 * self.values + jnp.roll(self.values, 1)
        return self._with(jnp.asarray(temperature, self.values.dtype) * second / self.width**2)

    def heat(self, span: Number) -> "CircleCells":
        """The averages after that heat equation with unit temperature for a span of time: positive ones stay so.

        What crosses is averaged with a positive kernel, up to rounding of its transform.
        """
        n = self.values.shape[-1]
        k = jnp.arange(n // 2 + 1, dtype=self.values.dtype)
        decay = jnp.exp(-4 * jnp.asarray(span, k.dtype) * (jnp.sin(jnp.pi * k / n) / self.width) ** 2)
        spectrum = jnp.fft.rfft(self.values)
        return self._with(jnp.fft.irfft(decay.astype(spectrum.dtype) * spectrum, n))

    def quantiles(self, n: int) -> Particles:
        """Equally weighted tokens that divide the mass evenly."""
        return self._particles((jnp.arange(n, dtype=self.values.dtype) + 0.5) / n)

    def sample(self, n: int, *, key: RandomKey) -> Particles:
        """Independent tokens, uniform within their cells."""
        return self._particles(jax.random.uniform(as_key(key), (n,), self.values.dtype))

    def _particles(self, shares: Float[Array, " n"]) -> Particles:
        edges = self.width * (jnp.arange(self.values.shape[-1] + 1, dtype=shares.dtype) - 0.5)
        below = jnp.append(jnp.zeros(1, shares.dtype), jnp.cumsum(jnp.maximum(self.masses, 0.0)))
        places = jnp.interp(shares * below[-1], below, edges)
        return Particles(self.space, jnp.stack([jnp.cos(places), jnp.sin(places)], axis=1))

    def settle(self) -> "CircleCells":
        """The averages are what they are."""
        return self

    def coarser(self) -> "CircleCells | None":
        """The averages over half as many cells; None where there are too few."""
        n = self.values.shape[-1]
        if n < 6:
            return None
        dtype = self.values.dtype
        edges, wanted = (2 * jnp.pi / k * (jnp.arange(k + 1, dtype=dtype) - 0.5) for k in (n, n // 2))
        below = jnp.append(jnp.zeros(1, dtype), jnp.cumsum(self.masses))
        turns = jnp.floor(
            (wanted - edges[0]) / (2 * jnp.pi)
        )  # a wider first cell begins before the edge of the finer one
        mass = turns * below[-1] + jnp.interp(wanted - 2 * jnp.pi * turns, edges, below)
        return self._with(jnp.diff(mass) * (n // 2) / (2 * jnp.pi))

    def _with(self, values: Float[Array, "*frames n"]) -> "CircleCells":
        return eqx.tree_at(lambda mu: mu.values, self, values)


def _speed(points: Float[Array, "n 2"], velocity: Velocity) -> Float[Array, " n"]:
    """The angular speed at points of the circle."""
    v = velocity(points)
    checks.shaped("velocity", v, points.shape, "A field on the circle has two coordinates.")
    return points[:, 0] * v[:, 1] - points[:, 1] * v[:, 0]


def _minmod(a: Float[Array, " n"], b: Float[Array, " n"]) -> Float[Array, " n"]:
    """The smaller of two slopes if they agree in sign, and else zero."""
    return jnp.where(a * b > 0, jnp.sign(a) * jnp.minimum(jnp.abs(a), jnp.abs(b)), 0.0)


def _real(coefficients: Array) -> Float[Array, "2 k"]:
    """The integrals of cosines and of sines from those of `e^{-ikθ}`."""
    return jnp.stack([coefficients.real, -coefficients.imag])


@jax.jit
def _analysed(values: Float[Array, " n"]) -> Float[Array, "2 k"]:
    """The moments of a density at equally spaced angles."""
    coefficients = jnp.fft.rfft(values) * (2 * jnp.pi / len(values))
    if len(values) % 2 == 0:  # the last one stands for both signs of its frequency
        coefficients = coefficients.at[-1].divide(2)
    return _real(coefficients)


@functools.partial(jax.jit, static_argnums=1)
def _synthesised(moments: Float[Array, "*frames 2 k"], size: int) -> Float[Array, "*frames n"]:
    """The density at equally spaced angles."""
    return jnp.fft.irfft(_complex(moments), size) * (size / (2 * jnp.pi))


def _complex(moments: Float[Array, "*frames 2 k"]) -> Array:
    return jax.lax.complex(moments[..., 0, :], -moments[..., 1, :])


def _count(modes: int) -> int:
    if modes < 1:
        raise ValueError(f"`modes` must be at least 1; got {modes}.")
    return 2 * modes + 1


@functools.cache
def fast_size(least: int) -> int:
    """The smallest even number from a bound on that has no prime factor above five."""

    def rough(n: int) -> int:
        for p in (2, 3, 5):
            while n % p == 0:
                n //= p
        return n

    return next(n for n in range(least + least % 2, 2 * least + 4, 2) if rough(n) == 1)

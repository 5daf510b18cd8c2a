"""Series that separate sources from covectors: work linear in the tokens.

On a sphere of sources the kernel is a short sum of products, scaled so that nothing overflows,

    e^{<a, y> - |a|} = sum_k b_k(|a|) f_k(a / |a|) f_k(y),

so sources enter through the moments `sum_j w_j f_k(y_j)` alone. The error is some roundings of the total weight, plus what
the series leaves out. A covector that sees a tiny part of that weight would lose digits: its bound is checked, and where it
exceeds the tolerance the sum is made exactly.

Devices that share the sources add up their moments, so what they send does not grow with the tokens.
"""

import functools
from collections.abc import Callable
from typing import ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, PyTree

from measureflow import checks
from measureflow.sums import averages, native, pallas
from measureflow.sums.base import FEW_PAIRS, KernelSum
from measureflow.sums.devices import ALONE, Devices
from measureflow.sums.fast import AbstractFast
from measureflow.sums.native.constants import SCORE_ROUNDINGS
from measureflow.sums.pallas import modes
from measureflow.sums.tangent import attend_tangent

EPS = float(np.finfo(np.float64).eps)
"""The rounding of float64, in which series are done."""


class Series(NamedTuple):
    """What a sphere of sources needs to separate the kernel.

    - `space` and `dim`: the name of the sphere and its coordinates; `beside`: another engine, and where it sums.
    - `features(top, points)`: the functions `f_k` at unit vectors, one row for each.
    - `bessel(top, r)`: the factors of degrees `0 .. top` for a batch of lengths, one row for each degree; they add up to 1.
    - `degrees(top)`: the degree of each feature; `shares(top)`: the part of its degree's factor that it carries.
    - `tail(k, r)`: a bound on the sum of all factors beyond degree `k`.
    - `walk`: how kernels of a card go through the features.
    - `tops`: the degrees that are compiled for; the smallest that suffices is taken when running.
    - `target`: the name of the C++ kernel; `width(top)`: the moments that it has. `longest`: covectors beyond are summed exactly.
    - `part`: how much of the tolerance may be left out. `roundings`: error in units of eps, at length 0 and for its root.
    """

    space: str
    dim: int
    beside: str
    features: Callable[[int, Array], Array]
    bessel: Callable[[int, Array], Array]
    degrees: Callable[[int], np.ndarray]
    shares: Callable[[int], np.ndarray]
    tail: Callable[[Array, Array], Array]
    walk: modes.Walk
    tops: tuple[int, ...]
    target: str
    width: Callable[[int], int]
    longest: float
    part: float
    roundings: tuple[float, float]


class AbstractSeries(AbstractFast):
    """An engine that sums by a series, and exactly where the series does not suffice."""

    series: ClassVar[Series]
    tolerance: eqx.AbstractVar[float]
    threads: eqx.AbstractVar[int]
    level: eqx.AbstractVar[int]

    @classmethod
    def serving(cls, sum: KernelSum) -> "AbstractSeries | None":
        """Sums over the sphere of the series, where an error is allowed."""
        there = sum.spherical and sum.d == cls.series.dim and sum.dtype in ("float32", "float64")
        if sum.tolerance is None or not there:
            return None
        return cls(tolerance=sum.tolerance)  # pyright: ignore[reportCallIssue]

    @classmethod
    def worth(cls, sum: KernelSum) -> bool:
        """From few pairs on where the C++ kernel does them, and where a card is worth its launch."""
        if native.on_cpu():
            return sum.pairs > native.FEWEST_PAIRS
        return pallas.available() and sum.pairs > FEW_PAIRS

    def __check_init__(self):
        if not 1e-14 <= self.tolerance < 1:
            raise ValueError(f"`tolerance` must lie between 1e-14 and 1; got {self.tolerance:g}.")

    def check(self, sources: Array) -> None:
        """Refuse sources that are not on the unit sphere of the series."""
        name, space, dim = type(self).__name__, self.series.space, self.series.dim
        others = f"{self.series.beside}, `Nufft` over up to 3 coordinates, `Native`, `Blockwise` and `Dense` over any"
        if sources.shape[1] != dim:
            raise ValueError(f"`{name}` sums over the {space} of {dim} coordinates; got {sources.shape[1]}. {others}.")
        if sources.dtype not in (np.float32, np.float64):
            raise TypeError(f"`{name}` takes float32 or float64; got {sources.dtype}. `Blockwise` takes any.")
        if checks.concrete(sources) and (off := np.abs(np.linalg.norm(np.asarray(sources), axis=1) - 1).max()) > 1e-6:
            raise ValueError(f"`{name}` needs sources on the unit {space}; a norm is off by {off:.3g}. {others}.")

    def approximate(self, devices: Devices, a: Array, y: Array, w: Array) -> tuple[Array, Array, Array]:
        """By the series; devices add up their moments."""
        return alone(Expansion(self.series, self.tolerance, self.threads, self.level, devices), a, y, w)


class Expansion(NamedTuple):
    """How a sum is done by a series: which one, with what error, and the devices that share the sources.

    `threads` and `level` are those of the C++ kernel, as in `Native`.
    """

    series: Series
    tolerance: float
    threads: int = 0
    level: int = -1
    devices: Devices = ALONE

    @property
    def options(self) -> dict[str, np.int32]:
        """The options of the C++ kernel."""
        return {"threads": np.int32(self.threads), "level": np.int32(self.level)}

    def left_out(self, dtype) -> float:
        """What the series may leave out of the total weight: a part of the tolerance, or of that of the precision if larger."""
        return max(EPS, self.series.part * max(self.tolerance, SCORE_ROUNDINGS * float(jnp.finfo(dtype).eps)))

    def kernel(self, dtype) -> "AverageKernel":
        """The averages by the series, for numbers of a precision."""
        return AverageKernel(self.series, self.left_out(dtype), self.devices)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def alone(expansion: Expansion, a: Array, y: Array, w: Array) -> tuple[Array, Array, Array]:
    """Log mass, mean and which covectors miss the tolerance, by the series alone."""
    if not native.on_cpu():
        return by_averages(expansion, a, y, w)
    return (natively if expansion.devices == ALONE else natively_across)(expansion, a, y, w)


def _alone_jvp(expansion: Expansion, primals, tangents):
    a, y, w = primals
    log_mass, mean, missed = alone(expansion, *primals)
    # What is missed is summed again exactly; here it only must stay finite, since zero times infinity is not a number.
    length = _norm(a) + expansion.devices.largest(w.max())
    safe = jnp.where(missed, length, log_mass), jnp.where(missed[:, None], 0.0, mean)

    def average(z):
        return averages.average(a, -safe[0], y, w, z, kernel=expansion.kernel(a.dtype))

    moved = attend_tangent(average, a, y, *safe, tangents)
    return (log_mass, mean, missed), (*moved, np.zeros(missed.shape, jax.dtypes.float0))


alone.defjvp(_alone_jvp, symbolic_zeros=True)


def natively(expansion: Expansion, a: Array, y: Array, w: Array) -> tuple[Array, Array, Array]:
    """Log mass, mean and which covectors miss the tolerance, by the C++ kernel."""
    call = jax.ffi.ffi_call(expansion.series.target, _seen(a), vmap_method="expand_dims")
    log_mass, mean, missed = call(a, y, w, tolerance=np.float64(expansion.tolerance), **expansion.options)
    return log_mass, mean, missed


def natively_across(expansion: Expansion, a: Array, y: Array, w: Array) -> tuple[Array, Array, Array]:
    """The same over the sources of all devices, by the two halves of the C++ kernel with the sum of all moments between."""
    series, devices, options = expansion.series, expansion.devices, expansion.options
    tolerance = np.float64(expansion.tolerance)

    def by_degrees(top: int, need: Array, a: Array, y: Array, w: Array):
        found = [jax.ShapeDtypeStruct((size,), np.float64) for size in (series.width(top), 2)]
        gather = jax.ffi.ffi_call(f"{series.target}_moments", found, vmap_method="sequential")
        moments, known = gather(y, w, need, **options)
        everywhere = devices.largest(known)
        total = devices.total(moments * jnp.exp(known[0] - everywhere[0]))
        see = jax.ffi.ffi_call(f"{series.target}_values", _seen(a), vmap_method="sequential")
        return tuple(see(a, need, total, everywhere, tolerance=tolerance, **options))

    with jax.enable_x64(True):
        longest = devices.largest(_norm(a.astype(jnp.float64)).max())
        return _by_degrees(series, expansion.left_out(a.dtype), longest, by_degrees, a, y, w)


def _seen(a: Array) -> list[jax.ShapeDtypeStruct]:
    """The shapes of log masses, means and marks."""
    kinds = ((a.shape[:1], a.dtype), (a.shape, a.dtype), (a.shape[:1], bool))
    return [jax.ShapeDtypeStruct(*kind) for kind in kinds]


def by_averages(expansion: Expansion, a: Array, y: Array, w: Array) -> tuple[Array, Array, Array]:
    """Log mass, mean and which covectors miss the tolerance, by averages of the series."""
    series, devices = expansion.series, expansion.devices
    r, top = _norm(a), devices.largest(w.max())
    values = jnp.concatenate([jnp.ones((len(y), 1), y.dtype), y], 1)
    sums = averages.average(a, -r, y, w - top, values, kernel=expansion.kernel(a.dtype))
    mass, mean = sums[:, 0], sums[:, 1:] / sums[:, :1]
    # Scores of size r carry r roundings into the exponent.
    allowed = jnp.maximum(expansion.tolerance, SCORE_ROUNDINGS * float(jnp.finfo(a.dtype).eps) * (1 + r))
    base, growth = series.roundings
    cut = expansion.left_out(a.dtype)
    error = devices.total(jnp.exp(w - top).sum()) * (cut + EPS * (base + growth * jnp.sqrt(r)))
    off = devices.largest(jnp.abs(_norm(y) - 1).max())
    missed = (mass * allowed < error) | (r * off > allowed) | (r > series.longest)
    return top + r + jnp.log(mass), mean, missed


def _by_degrees(series: Series, cut: float, longest: Array, f: Callable[..., PyTree[Array]], *arrays: Array):
    """A function of the degrees that are compiled for and those that the longest covector needs, for as few as suffice."""
    longest = jnp.minimum(longest, series.longest)
    degrees = jnp.arange(series.tops[-1], dtype=jnp.float64)
    need = jnp.sum(series.tail(degrees, longest) > cut).astype(jnp.int32)
    level = jnp.sum(need > jnp.asarray(series.tops[:-1], jnp.int32))
    branches = [functools.partial(f, top, jnp.minimum(need, top)) for top in series.tops]
    return lax.switch(level, branches, *arrays)


class AverageKernel(NamedTuple):
    """Averages by a series, where one side lies on its sphere: the sources, or `turned` the queries.

    They are done in float64 whatever the numbers are: on a card by Pallas, elsewhere in JAX.
    """

    series: Series
    left_out: float
    devices: Devices = ALONE
    turned: bool = False
    interpret: bool = False

    def exchanged(self) -> "AverageKernel":
        """The same kernel, with the other side on the sphere."""
        return self._replace(turned=not self.turned)

    def __call__(self, a: Array, b: Array, y: Array, w: Array, z: Array) -> Array:
        """The sums, for all members of a batch by as many degrees as the longest covector needs."""
        with jax.enable_x64(True):
            a, b, y, w, u = (x.astype(jnp.float64) for x in (a, b, y, w, z))
            covectors = y if self.turned else a
            longest = self.devices.largest(_norm(covectors).max())
            return _by_degrees(self.series, self.left_out, longest, self._sums, a, b, y, w, u).astype(z.dtype)

    def _sums(self, top: int, need: Array, *arrays: Array) -> Array:
        def one(a, b, y, w, u):
            # Factors are those of e^{<a, y> - |a|}.
            lengths = None if self.turned else _norm(a), _norm(y) if self.turned else None
            u = u * jnp.exp(w + (0.0 if lengths[1] is None else lengths[1]))[:, None]
            sums = self._expanded(top, need, modes.Side(_unit(a), lengths[0]), modes.Side(_unit(y), lengths[1]), u)
            return sums * jnp.exp(b + (0.0 if lengths[0] is None else lengths[0]))[:, None]

        for _ in range(arrays[-1].ndim - 2):
            one = jax.vmap(one)
        lead = arrays[-1].shape[:-2]
        return one(*(jnp.broadcast_to(x, (*lead, *x.shape[len(lead) :])) for x in arrays))

    def _expanded(self, top: int, need: Array, queries: modes.Side, sources: modes.Side, u: Array) -> Array:
        if self.interpret or pallas.available():
            ascent = modes.Ascent(self.series.walk, top, self.interpret)
            return modes.sums(ascent, need, queries, sources, u, self.devices)
        return _expanded(self.series, top, queries, sources, u, self.devices)


def debye(order: Array, r: Array) -> Array:
    """A bound on the Bessel number `e^{-r} I(r)` of an order: the first term of Debye's expansion, whose rest is below 10%."""
    across = jnp.sqrt(order**2 + r**2)
    return 1.1 * jnp.exp(across - r - order * jnp.arcsinh(order / r)) / jnp.sqrt(2 * jnp.pi * across)


def ratio_bound(order: Array, r: Array) -> Array:
    """A bound on the ratio of the Bessel numbers of the next order and of this one."""
    return r / (order + 0.5 + jnp.sqrt((order + 0.5) ** 2 + r**2))


def _norm(points: Array) -> Array:
    return jnp.sqrt(jnp.sum(points**2, -1))


def _expanded(series: Series, top: int, queries: modes.Side, sources: modes.Side, u: Array, devices: Devices) -> Array:
    """The sums by degrees up to `top`, in blocks of tokens."""
    degrees, shares = series.degrees(top), jnp.asarray(series.shares(top), u.dtype)
    size = max(1, 2**18 // len(degrees))

    def features(points, r):
        found = series.features(top, points)
        return found if r is None else found * series.bessel(top, r)[degrees].T

    def add(total, block):
        u, points, r = block
        return total + _product(features(points, r).T, u), None

    def cut(side):
        return tuple(None if x is None else _blocks(x, size) for x in side)

    start = jnp.zeros((len(degrees), u.shape[1]), u.dtype)
    total = devices.total(lax.scan(add, start, (_blocks(u, size), *cut(sources)))[0]) * shares[:, None]
    return lax.map(lambda side: _product(features(*side), total), cut(queries)).reshape(-1, u.shape[1])[
        : len(queries[0])
    ]


def _product(x: Array, y: Array) -> Array:
    return jnp.matmul(x, y, precision=lax.Precision.HIGHEST)


def _unit(points: Array) -> Array:
    """Directions; that of a zero vector is the first axis."""
    zero = jnp.all(points == 0, 1, keepdims=True)
    safe = jnp.where(zero, jnp.eye(1, points.shape[1], dtype=points.dtype), points)
    return safe / _norm(safe)[:, None]


def _blocks(rows: Array, size: int) -> Array:
    """Rows in blocks of at most `size`, the last filled up with zeros."""
    size = min(size, len(rows))
    return jnp.pad(rows, ((0, -len(rows) % size), *((0, 0),) * (rows.ndim - 1))).reshape(-1, size, *rows.shape[1:])


def ratios_down(
    top: int, r: Array, first: Array, ratio: Callable[[Array, Array], Array], count: Callable[[Array], Array]
):
    """Bessel numbers of degrees `0 .. top` from ratios of neighbours, found from above.

    `ratio(k, next)` gives one ratio from the next and `count(k)` how often a degree counts in the sum of all, which is 1.
    """

    def down(carry, k):
        last, total = carry
        here = ratio(k, last)
        return (here, here * (count(k) + total)), here

    ks = jnp.arange(1, top + 1, dtype=r.dtype)
    (_, total), ratios = lax.scan(down, (first, jnp.zeros_like(r)), ks, reverse=True)
    numbers = jnp.cumprod(jnp.concatenate([1 / (1 + total)[None], ratios]), 0)
    return numbers * jnp.concatenate([jnp.ones(1, r.dtype), count(ks) * jnp.ones_like(ks)])[:, None]

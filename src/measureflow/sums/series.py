"""Series that separate sources from covectors: work linear in the tokens.

On a sphere of sources the kernel is a short sum of products, scaled so that nothing overflows,

    e^{<a, y> - |a|} = sum_k b_k(|a|) f_k(a / |a|) f_k(y),

so sources enter through the moments `sum_j w_j f_k(y_j)` alone. The error is some roundings of the total weight, plus what
the series leaves out. A covector that sees a tiny part of that weight would lose digits: its bound is checked, and where it
exceeds the tolerance the sum is made exactly.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, PyTree

from measureflow import checks
from measureflow.sums import native
from measureflow.sums.base import AbstractEngine, Attended, KernelSum
from measureflow.sums.blockwise import Blockwise
from measureflow.sums.isolated import resummed
from measureflow.sums.native.constants import SCORE_ROUNDINGS


class Series(NamedTuple):
    """What a sphere of sources needs to separate the kernel.

    - `space` and `dim`: the name of the sphere and its coordinates; `beside`: another engine, and where it sums.
    - `features(top, points)`: the functions `f_k` at unit vectors, one row for each.
    - `bessel(top, r)`: the factors of degrees `0 .. top` for a batch of lengths, one row for each degree; they add up to 1.
    - `degrees(top)`: the degree of each feature; `shares(top)`: the part of its degree's factor that it carries.
    - `tops`: the degrees that are compiled for; the smallest that suffices is taken when running.
    - `target`: the name of the C++ kernel. `longest`: covectors beyond are summed exactly.
    - `part`: how much of the tolerance may be left out. `roundings`: error in units of eps, at length 0 and for its root.
    """

    space: str
    dim: int
    beside: str
    features: Callable[[int, Array], Array]
    bessel: Callable[[int, Array], Array]
    degrees: Callable[[int], np.ndarray]
    shares: Callable[[int], np.ndarray]
    tops: tuple[int, ...]
    target: str
    longest: float
    part: float
    roundings: tuple[float, float]


class AbstractSeries(AbstractEngine):
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
        """From few pairs on where the C++ kernel does them."""
        return native.on_cpu() and sum.pairs > native.FEWEST_PAIRS

    def __check_init__(self):
        if not 1e-14 <= self.tolerance < 1:
            raise ValueError(f"`tolerance` must lie between 1e-14 and 1; got {self.tolerance:g}.")

    def coarser(self) -> "AbstractSeries | None":
        """The same sums with a tenfold error, while that is small."""
        return dataclasses.replace(self, tolerance=10 * self.tolerance) if self.tolerance < 0.1 else None

    def attend(
        self, covectors: Float[Array, "m d"], sources: Float[Array, "n d"], log_weights: Float[Array, " n"]
    ) -> Attended:
        """The log mass and tilted mean, by the series and exactly where it does not suffice."""
        check_sources(type(self).__name__, self.series, sources)
        return attend(self.series, self.tolerance, self.threads, self.level, covectors, sources, log_weights)

    def rows(self, row, sources: int, *queries: PyTree[Array]) -> PyTree[Array]:
        """Other functions of a row go through the blocks of the JAX engine."""
        return Blockwise().rows(row, sources, *queries)


def check_sources(name: str, series: Series, sources: Array) -> None:
    """Refuse sources that are not on the unit sphere of the series, and say who takes them."""
    space, dim = series.space, series.dim
    others = f"{series.beside}, `Nufft` over up to 3 coordinates, `Native`, `Blockwise` and `Dense` over any"
    if sources.shape[1] != dim:
        raise ValueError(f"`{name}` sums over the {space} of {dim} coordinates; got {sources.shape[1]}. {others}.")
    if sources.dtype not in (np.float32, np.float64):
        raise TypeError(f"`{name}` takes float32 or float64; got {sources.dtype}. `Blockwise` takes any.")
    if checks.concrete(sources) and (off := np.abs(np.linalg.norm(np.asarray(sources), axis=1) - 1).max()) > 1e-6:
        raise ValueError(f"`{name}` needs sources on the unit {space}; a norm is off by {off:.3g}. {others}.")


def attend(series: Series, tolerance: float, threads: int, level: int, a: Array, y: Array, w: Array) -> Attended:
    """The log mass and tilted mean, by the series and exactly where it does not suffice."""
    if native.on_cpu():
        log_mass, mean, missed = natively(series, tolerance, threads, level, a, y, w)
    else:
        log_mass, mean, missed = in_jax(series, tolerance, a, y, w)
    return resummed(missed, Attended(log_mass, mean), a, y, w)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1, 2, 3))
def natively(series: Series, tolerance: float, threads: int, level: int, a: Array, y: Array, w: Array):
    """Log mass, mean and which covectors miss the tolerance, by the C++ kernel."""
    kinds = ((a.shape[:1], a.dtype), (a.shape, a.dtype), (a.shape[:1], bool))
    shapes = [jax.ShapeDtypeStruct(*kind) for kind in kinds]
    call = jax.ffi.ffi_call(series.target, shapes, vmap_method="expand_dims")
    attributes = {"tolerance": np.float64(tolerance), "threads": np.int32(threads), "level": np.int32(level)}
    log_mass, mean, missed = call(a, y, w, **attributes)
    return log_mass, mean, missed


@natively.defjvp
def _natively_jvp(series: Series, tolerance: float, threads: int, level: int, primals, tangents):
    _, moved = jax.jvp(lambda *arrays: in_jax(series, tolerance, *arrays), primals, tangents)
    return natively(series, tolerance, threads, level, *primals), moved


def in_jax(series: Series, tolerance: float, a: Array, y: Array, w: Array) -> tuple[Array, Array, Array]:
    """Log mass, mean and which covectors miss the tolerance, in JAX."""
    wide = jax.dtypes.canonicalize_dtype(np.float64)
    kind, eps = a.dtype, float(jnp.finfo(wide).eps)
    a, y, w = (x.astype(wide) for x in (a, y, w))
    r = lax.stop_gradient(_norm(a))
    top = lax.stop_gradient(w.max())
    weights = jnp.exp(w - top)[:, None]
    left_out = max(eps, series.part * tolerance)
    sums = _sums(series, left_out, jnp.concatenate([weights, weights * y], 1), a, y)
    mass, mean = sums[:, 0], sums[:, 1:] / sums[:, :1]
    # Scores of size r carry r roundings into the exponent.
    allowed = jnp.maximum(tolerance, SCORE_ROUNDINGS * float(jnp.finfo(kind).eps) * (1 + r))
    base, growth = series.roundings
    error = weights.sum() * (left_out + eps * (base + growth * jnp.sqrt(r)))
    off = jnp.abs(_norm(y) - 1).max()
    missed = (mass * allowed < error) | (r * off > allowed) | (r > series.longest)
    return (top + r + jnp.log(mass)).astype(kind), mean.astype(kind), missed


def _norm(points: Array) -> Array:
    return jnp.sqrt(jnp.sum(points**2, 1))


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def _sums(series: Series, left_out: float, u: Array, a: Array, y: Array) -> Array:
    """The sums `sum_j u_j e^{<a, y_j> - r}` for each column of `u`, at `|y_j| = 1` and with the constant `r = |a|`.

    Derivatives are sums of the same kind, and so right in all directions, also those that leave the sphere.
    """
    longest = _norm(a).max()
    most = series.tops[-1]
    factors = series.bessel(most + 40, longest[None])[:, 0]
    beyond = jnp.stack([factors[top + 1 :].sum() for top in series.tops[:-1]])
    level = jnp.sum(beyond > left_out)
    return lax.switch(level, [functools.partial(_expanded, series, top) for top in series.tops], u, a, y)


@_sums.defjvp
def _sums_jvp(series: Series, left_out: float, primals, tangents):
    (u, a, y), (du, da, dy) = primals, tangents
    c = u.shape[1]

    def times(v):
        return (u[:, :, None] * v[:, None, :]).reshape(len(u), -1)

    def along(sums, v):
        return jnp.einsum("mcd,md->mc", sums[:, c:].reshape(-1, c, a.shape[1]), v)

    still = _sums(series, left_out, jnp.concatenate([u, times(y)], 1), a, y)
    moved = _sums(series, left_out, jnp.concatenate([du, times(dy)], 1), a, y)
    return still[:, :c], moved[:, :c] + along(moved, a) + along(still, da)


def _expanded(series: Series, top: int, u: Array, a: Array, y: Array) -> Array:
    """The sums by degrees up to `top`, in blocks of tokens that the backward pass computes again."""
    degrees, shares = series.degrees(top), jnp.asarray(series.shares(top), a.dtype)
    size = max(1, 2**18 // len(degrees))

    @jax.checkpoint
    def moments(block):
        u, y = block
        return _product(series.features(top, _unit(y)).T, u)

    @jax.checkpoint
    def values(a):
        r = _norm(a)
        # Backward passes forget the rule above; with the scale constant here too, second derivatives along the sphere hold.
        factors = (series.bessel(top, r) * jnp.exp(r - lax.stop_gradient(r))[None])[degrees].T
        return _product(factors * series.features(top, _unit(a)), total)

    start = jnp.zeros((len(degrees), u.shape[1]), u.dtype)
    total = lax.scan(lambda sum, block: (sum + moments(block), None), start, (_blocks(u, size), _blocks(y, size)))[0]
    total = total * shares[:, None]
    return lax.map(values, _blocks(a, size)).reshape(-1, u.shape[1])[: len(a)]


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

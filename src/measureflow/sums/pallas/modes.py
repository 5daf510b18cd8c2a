"""Series of kernels on a card: moments of sources, and what covectors see of them.

A program is one warp with a few tokens in each lane. It walks up through the functions of the series, which each follow from
those before: multiples of an angle on the circle, harmonics of rising degree within each order on the sphere. Moments are
sums over the tokens of a program, stored for each program and added up afterwards; values are sums over the functions, and
stay in registers. Factors of a covector are found downwards from the highest degree (`factors`), and are a table because both
walk upwards. All numbers are float64, whatever the tokens are: the card does them at half the speed of float32.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from measureflow.sums.devices import Devices
from measureflow.sums.pallas.card import compiled, filled, fma, up

LANES = 32
"""Lanes of a warp."""
AT_ONCE = 2**26
"""Numbers that tables of factors and moments may have; more tokens go one block after the other."""
GROUP = 4
"""Columns of values that a program takes along."""


class Walk(NamedTuple):
    """How a program goes through the functions of a series.

    - `tokens`: those of each lane.
    - `table(top)`: the shape of all moments; `constants(top)`: numbers that the walk reads.
    - `shares(top)`: how often each pair of functions counts.
    - `up(fma, degree, constants, points, visit, state)`: call `state = visit(index, degree, f, g, state)` for each pair of
      functions `f, g`, of which `index` is the place in the table; `fma(x, y, z)` is `x y + z` by one instruction.
    - `odd`: the `p` in `r / (2 k + p + r next)`, the ratio of two factors; `count(k)`: how often a degree counts.
    """

    tokens: int
    table: Callable[[int], tuple[int, ...]]
    constants: Callable[[int], np.ndarray]
    shares: Callable[[int], np.ndarray]
    up: Callable
    odd: int
    count: Callable


class Ascent(NamedTuple):
    """A walk that is compiled for degrees up to `top`; `interpret` runs its kernels step by step, for tests."""

    walk: Walk
    top: int
    interpret: bool = False

    @property
    def tile(self) -> int:
        """Tokens of a program."""
        return LANES * self.walk.tokens

    @property
    def table(self) -> tuple[int, ...]:
        """The shape of all moments."""
        return self.walk.table(self.top)

    def block(self, n: int, lengths: bool) -> int:
        """Tokens that are done at once, in whole tiles."""
        each = int(np.prod(self.table)) * 2 * GROUP / self.tile + (self.top + 1 if lengths else 0)
        return min(up(n, self.tile), max(self.tile, int(AT_ONCE / each) // self.tile * self.tile))

    def fma(self, x: Array, y: Array, z: Array) -> Array:
        """The number `x y + z` with one rounding."""
        return fma(self.interpret, x, y, z)


class Side(NamedTuple):
    """Unit vectors, with their lengths where these are covectors."""

    points: Array
    lengths: Array | None


def sums(ascent: Ascent, degree: Array, queries: Side, sources: Side, u: Array, devices: Devices) -> Array:
    """The sums `sum_j u_j k(x_i, y_j)` over all degrees up to `degree <= top` and the sources of all devices."""
    shares = jnp.asarray(ascent.walk.shares(ascent.top), u.dtype)
    seen = devices.total(moments(ascent, degree, sources, u)) * shares.reshape(*shares.shape, 1, 1)
    return values(ascent, degree, queries, seen)


def _cut(x: Array, block: int) -> Array:
    """The last axis in blocks, which are a new first axis."""
    cut = filled(x, block).reshape(*x.shape[:-1], -1, block)
    return jnp.moveaxis(cut, -2, 0)


@functools.partial(jax.jit, static_argnums=0)
def factors(ascent: Ascent, degree: Array, r: Array) -> Array:
    """The factors of degrees up to `degree` for each length, scaled so that they add up to one; what is above is undefined."""
    from jax.experimental import pallas as pl

    walk, tile = ascent.walk, ascent.tile

    def kernel(degree_ref, r_ref, out_ref):
        r, high = r_ref[...], degree_ref[0]
        # The ratio beyond the highest degree, to some percent.
        top = high.astype(r.dtype)
        half = 0.5 * walk.odd
        first = r / (top + 0.5 + half + jnp.sqrt((top + 1.5 + half) ** 2 + r**2))

        def down(j, carry):
            last, total = carry
            k = high - j
            here = r / (2.0 * k.astype(r.dtype) + walk.odd + r * last)
            out_ref[k] = here
            return here, here * (walk.count(k.astype(r.dtype)) + total)

        _, total = jax.lax.fori_loop(0, high, down, (first, jnp.zeros_like(r)))
        start = 1 / (1 + total)
        out_ref[0] = start

        def rise(k, last):
            here = last * out_ref[k]
            out_ref[k] = here * walk.count(k.astype(r.dtype))
            return here

        jax.lax.fori_loop(1, high + 1, rise, start)

    return pl.pallas_call(
        kernel,
        grid=(len(r) // tile,),
        in_specs=[pl.BlockSpec((1,), lambda i: (0,)), pl.BlockSpec((tile,), lambda i: (i,))],
        out_specs=pl.BlockSpec((ascent.top + 1, tile), lambda i: (0, i)),
        out_shape=jax.ShapeDtypeStruct((ascent.top + 1, len(r)), r.dtype),
        **compiled(ascent.interpret, warps=1),
    )(degree.reshape(1), r)


def moments(ascent: Ascent, degree: Array, sources: Side, u: Array) -> Array:
    """The sums over all points of each function times each column of `u`: an array `(*table, 2, columns)`."""
    points, r = sources
    block = ascent.block(len(points), r is not None)
    lengths = None if r is None else _cut(r, block)

    def add(total, part):
        points, u, r = part
        known = None if r is None else factors(ascent, degree, r)
        return total + _moments(ascent, degree, points, u, known), None

    start = jnp.zeros((*ascent.table, 2, u.shape[1]), u.dtype)
    return jax.lax.scan(add, start, (_cut(points.T, block), _cut(u.T, block).mT, lengths))[0]


def values(ascent: Ascent, degree: Array, queries: Side, seen: Array) -> Array:
    """The sums over all functions at each point, times their moments and the factors of their degree."""
    points, r = queries
    n, block = len(points), ascent.block(len(points), r is not None)

    def some(part):
        points, r = part
        known = None if r is None else factors(ascent, degree, r)
        return _values(ascent, degree, points, known, seen)

    out = jax.lax.map(some, (_cut(points.T, block), None if r is None else _cut(r, block)))
    return out.reshape(-1, seen.shape[-1])[:n]


def _inputs(pl, ascent: Ascent, degree: Array, points: Array, known: Array | None):
    """What both kernels read: the degree, constants, points and perhaps factors, and in which blocks."""
    tile, constants = ascent.tile, jnp.asarray(ascent.walk.constants(ascent.top), points.dtype)
    arrays = [degree.reshape(1), constants, points, *([] if known is None else [known])]
    specs = [
        pl.BlockSpec((1,), lambda i: (0,)),
        pl.BlockSpec(constants.shape, lambda i: (0,) * constants.ndim),
        pl.BlockSpec((len(points), tile), lambda i: (0, i)),
        pl.BlockSpec((ascent.top + 1, tile), lambda i: (0, i)),
    ]
    return arrays, specs[: len(arrays)]


def _by_groups(call: Callable[[Array], Array], columns: Array) -> Array:
    """A call on groups of columns, which are the last axis, filled up so that all are one program."""
    count = columns.shape[-1]
    whole = filled(columns, min(GROUP, count))
    size = min(GROUP, count)
    return jnp.concatenate([call(whole[..., k : k + size]) for k in range(0, whole.shape[-1], size)], -1)[..., :count]


def _moments(ascent: Ascent, degree: Array, points: Array, u: Array, known: Array | None):
    whole = _by_groups(lambda u: _moments_of(ascent, degree, points, u, known), u)
    places = np.indices(ascent.table, np.int32)
    written = (jnp.asarray(places[0]) <= degree) & jnp.asarray((places <= places[0]).all(0))
    return jnp.where(written[None, ..., None, None], whole, 0.0).sum(0)


def _values(ascent: Ascent, degree: Array, points: Array, known: Array | None, seen: Array):
    return _by_groups(lambda seen: _values_of(ascent, degree, points, known, seen), seen)


# Jitted, so that the groups of all sums of a program are compiled once.
@functools.partial(jax.jit, static_argnums=0)
def _moments_of(ascent: Ascent, degree: Array, points: Array, u: Array, known: Array | None):
    from jax.experimental import pallas as pl

    tile, table, c = ascent.tile, ascent.table, u.shape[1]
    inputs, specs = _inputs(pl, ascent, degree, points, known)
    programs = points.shape[1] // tile

    def kernel(degree_ref, constants, points_ref, *refs):
        u_ref, out_ref = refs[-2:]
        u = [u_ref[j] for j in range(c)]

        def visit(index, k, f, g, state):
            if known is not None:
                f, g = f * refs[0][k], g * refs[0][k]
            for j in range(c):
                out_ref[(*index, 0, j)] = jnp.sum(u[j] * f)
                out_ref[(*index, 1, j)] = jnp.sum(u[j] * g)
            return state

        here = [points_ref[i] for i in range(len(points))]
        ascent.walk.up(ascent.fma, degree_ref[0], constants, here, visit, ())

    return pl.pallas_call(
        kernel,
        grid=(programs,),
        in_specs=[*specs, pl.BlockSpec((c, tile), lambda i: (0, i))],
        out_specs=pl.BlockSpec((None, *table, 2, c), lambda i: (i, *(0,) * (len(table) + 2))),
        out_shape=jax.ShapeDtypeStruct((programs, *table, 2, c), points.dtype),
        **compiled(ascent.interpret, warps=1),
    )(*inputs, u.T)


@functools.partial(jax.jit, static_argnums=0)
def _values_of(ascent: Ascent, degree: Array, points: Array, known: Array | None, seen: Array):
    from jax.experimental import pallas as pl

    tile, n, c = ascent.tile, points.shape[1], seen.shape[-1]
    inputs, specs = _inputs(pl, ascent, degree, points, known)

    def kernel(degree_ref, constants, points_ref, *refs):
        seen_ref, out_ref = refs[-2:]

        def visit(index, k, f, g, state):
            if known is not None:
                f, g = f * refs[0][k], g * refs[0][k]
            for i, part in enumerate((f, g)):
                state = tuple(ascent.fma(part, seen_ref[(*index, i, j)], x) for j, x in enumerate(state))
            return state

        here = [points_ref[i] for i in range(len(points))]
        zero = jnp.zeros_like(here[0])
        totals = ascent.walk.up(ascent.fma, degree_ref[0], constants, here, visit, (zero,) * c)
        for j, total in enumerate(totals):
            out_ref[j] = total

    return pl.pallas_call(
        kernel,
        grid=(n // tile,),
        in_specs=[*specs, pl.BlockSpec(seen.shape, lambda i: (0,) * seen.ndim)],
        out_specs=pl.BlockSpec((c, tile), lambda i: (0, i)),
        out_shape=jax.ShapeDtypeStruct((c, n), points.dtype),
        **compiled(ascent.interpret, warps=1),
    )(*inputs, seen).T

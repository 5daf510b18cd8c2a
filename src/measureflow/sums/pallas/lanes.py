"""Kernel sums of few coordinates on a card, in float32 or float64: queries by lanes of sources, in registers.

A program is one warp. It keeps some queries; each of its 32 lanes takes every 32nd source and adds what all queries see of
it, so a coordinate that is loaded once serves every query. Where there are too few queries to fill the card a program has
several warps. Lanes are added only at the end of a chunk, and chunks to the
total: no sum runs over more than some hundred terms. Sources are kept coordinate by coordinate, so that lanes read side by
side.

Exponents are shifted by a bound on the scores where these spread little, else by the largest one, for which the program walks
over all sources once more; for few sources that is faster than to ask for a bound. Weights enter the exponents; where they
are equal they cost nothing.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from measureflow.sums.native import constants
from measureflow.sums.pallas.card import (
    LOG2E,
    Slopes,
    batched,
    compiled,
    exponential,
    filled,
    fma,
    power_of_two,
    up,
    vanishing,
)

CHUNK = 2**14
"""Sources whose sums are added up before they join the total."""
SPAN = {"float32": constants.SPAN_FLOAT32, "float64": constants.SPAN_FLOAT64}
"""Scores that spread farther are shifted by the largest."""
FEW_SOURCES = 2**13
"""Up to so many the largest score is found at once."""


class Tile(NamedTuple):
    """Queries of a program, how many lots of sources are written out one after the other, and warps."""

    queries: int
    unrolled: int
    warps: int = 1

    @property
    def lanes(self) -> int:
        """Sources of a lot."""
        return 32 * self.warps

    @property
    def lot(self) -> int:
        """Sources of all lots that are written out."""
        return self.lanes * self.unrolled


ATTEND = {"float32": Tile(16, 4), "float64": Tile(8, 4)}
SECOND = {"float32": Tile(16, 4), "float64": Tile(8, 1)}
SLOPES = {"float32": Tile(16, 4), "float64": Tile(8, 2)}
AVERAGE = {"float32": Tile(16, 2), "float64": Tile(4, 4)}
"""The fastest on an H200 among some: sums, with second moments, with slopes, and of other values."""
REGISTERS = 1024
"""Bytes of registers that a lane has for its queries and their sums."""
PROGRAMS = 1024
"""Programs that fill a card."""
WARPS = 4
"""Warps of a program where there are too few programs to fill the card."""
COLUMNS = 12
"""Values that a program sums at once."""


def attend(interpret: bool, a: Array, y: Array, w: Array) -> tuple[Array, Array]:
    """Log masses and tilted means; arrays may have leading axes."""
    log_mass, mean, _ = batched(lambda *x: _attend(interpret, False, *x), (2, 2, 1))(a, y, w)
    return log_mass, mean


def attend_second(interpret: bool, a: Array, y: Array, w: Array) -> tuple[Array, Array, Array]:
    """Log masses, tilted means and second moments, those on and above the diagonal one after the other."""
    return batched(lambda *x: _attend(interpret, True, *x), (2, 2, 1))(a, y, w)


def average(interpret: bool, a: Array, b: Array, y: Array, w: Array, z: Array) -> Array:
    """The sums `sum_j e^{<a_i, y_j> + b_i + w_j} z_j`; arrays may have leading axes."""
    return batched(lambda *x: _average(interpret, *x), (2, 1, 2, 1, 2))(a, b, y, w, z)


def _tile(tiles: dict[str, Tile], numbers: int, m: int, n: int, dtype) -> Tile:
    """The tile for a precision: queries whose numbers fit the registers and that fill the card, no more lots than there are."""
    queries, unrolled, warps = tiles[dtype.name]
    while queries > 1 and (queries * numbers * dtype.itemsize > REGISTERS or m < PROGRAMS * queries):
        queries //= 2
    if m < PROGRAMS * tiles[dtype.name].queries and n > 32 * WARPS * unrolled:
        queries, warps = min(2 * queries, tiles[dtype.name].queries), WARPS
    return Tile(queries, min(unrolled, -(-n // (32 * warps))), warps)


def _walk(n: int, tile: Tile, add, zero, sums: int):
    """The sums over all sources of `add(weighted, first, state)`, where the lanes begin at source `first`.

    Only the last lot, which may be filled up with sources without weight, must look at weights.
    """
    lot, lanes = tile.lot, tile.lanes
    steps, chunk = n // lot, max(1, CHUNK // lot)

    def step(j, state):
        for u in range(tile.unrolled):
            state = add(False, j * lot + u * lanes, state)
        return state

    def gather(totals, state):
        return tuple(total + part.sum(1) for total, part in zip(totals, state, strict=True))

    def walk(k, totals):
        return gather(totals, jax.lax.fori_loop(k * chunk, (k + 1) * chunk, step, (zero,) * sums))

    totals = jax.lax.fori_loop(0, steps // chunk, walk, (zero.sum(1),) * sums)
    state = jax.lax.fori_loop(steps // chunk * chunk, steps, step, (zero,) * sums)
    if n % lot:
        for u in range(-(-(n % lot) // lanes)):
            state = add(True, steps * lot + u * lanes, state)
    return gather(totals, state)


def _attend(interpret: bool, second: bool, a: Array, y: Array, w: Array) -> tuple[Array, Array, Array]:
    from jax.experimental import pallas as pl

    (size, m, d), n, dtype = a.shape, y.shape[1], a.dtype
    pairs = [(i, j) for i in range(d) for j in range(i, d)] if second else []
    count = d + len(pairs)
    tile = _tile(SECOND if second else ATTEND, d + 1 + count, size * m, n, dtype)
    queries, lanes = tile.queries, tile.lanes
    # What only fills the last lot has no weight.
    packed = (
        jnp.pad(a, ((0, 0), (0, -m % queries), (0, 0))),
        filled(y.mT, tile.lot),
        filled(w, tile.lot, -jnp.inf),
        *([_known(y, w)] if n > FEW_SOURCES else []),
    )

    def kernel(a_ref, y_ref, w_ref, *refs):
        *known, log_ref, moment_ref = refs
        flat = [LOG2E * a_ref[:, k] for k in range(d)]
        a = [a_k[:, None] for a_k in flat]
        zero = jnp.zeros((queries, lanes), dtype)

        def score(weighted, first, shift):
            s = shift + LOG2E * w_ref[pl.ds(first, lanes)][None] if weighted else shift
            here = [y_ref[k, pl.ds(first, lanes)][None] for k in range(d)]
            for a_k, y_k in zip(a, here, strict=True):
                s = fma(interpret, a_k, y_k, s)
            return s, here

        def highest(j, tops):
            return tuple(jnp.maximum(top, score(True, j * tile.lot + u * lanes, zero)[0]) for u, top in enumerate(tops))

        def largest(steps):
            tops = jax.lax.fori_loop(0, steps, highest, (zero - jnp.inf,) * tile.unrolled)
            return functools.reduce(jnp.maximum, tops).max(1)

        def sums(weighted, shift):
            def add(last, first, state):
                s, here = score(weighted or last, first, -shift[:, None])
                e = power_of_two(interpret, s)
                e = vanishing(s, e) if weighted or last else e
                values = [*here, *(here[i] * here[j] for i, j in pairs)]
                return state[0] + e, *(fma(interpret, e, z, x) for z, x in zip(values, state[1:], strict=True))

            return lambda: _walk(n, tile, add, zero, 1 + count)

        steps = jnp.int32(y_ref.shape[1] // tile.lot)
        if known:
            radius, spread, top = known[0][0], known[0][1], LOG2E * known[0][2]
            reach = jnp.sqrt(sum(a_k**2 for a_k in flat)) * radius
            close = 2 * reach.max() + LOG2E * spread < LOG2E * SPAN[dtype.name]
            shift = jnp.where(close, reach + top, largest(jnp.where(close, jnp.int32(0), steps)))
            equal = close & (spread == 0)
            mass, *moment = jax.lax.cond(equal, sums(False, shift - top), sums(True, shift))
        else:
            shift = largest(steps)
            mass, *moment = sums(True, shift)()
        log_ref[...] = shift / LOG2E + jnp.log(mass)
        for k in range(count):
            moment_ref[:, k] = moment[k] / mass

    blocks = packed[0].shape[1] // queries
    log_mass, moments = pl.pallas_call(
        kernel,
        grid=(size * blocks,),
        in_specs=[
            pl.BlockSpec((None, queries, d), lambda i: (i // blocks, i % blocks, 0)),
            *(_whole(pl, x, lambda i: i // blocks) for x in packed[1:]),
        ],
        out_specs=[
            pl.BlockSpec((None, queries), lambda i: (i // blocks, i % blocks)),
            pl.BlockSpec((None, queries, count), lambda i: (i // blocks, i % blocks, 0)),
        ],
        out_shape=[
            jax.ShapeDtypeStruct((size, blocks * queries), dtype),
            jax.ShapeDtypeStruct((size, blocks * queries, count), dtype),
        ],
        **compiled(interpret, tile.warps),
    )(*packed)
    return log_mass[:, :m], moments[:, :m, :d], moments[:, :m, d:]


def _known(y: Array, w: Array) -> Array:
    """The largest norm of a source, the spread of log weights and their top."""
    top = w.max(1)
    return jnp.stack([jnp.sqrt(jnp.sum(y**2, 2).max(1)), top - w.min(1), top], 1)


def _whole(pl, x: Array, member):
    """All of an array for one member of the batch."""
    return pl.BlockSpec((None, *x.shape[1:]), lambda i: (member(i), *(0,) * (x.ndim - 1)))


def _average(interpret: bool, a: Array, b: Array, y: Array, w: Array, z: Array) -> Array:
    from jax.experimental import pallas as pl

    (size, m, d), (n, e), dtype = a.shape, z.shape[1:], a.dtype
    parts = -(-e // COLUMNS)
    width = -(-e // parts)
    tile = _tile(AVERAGE, d + 1 + width, size * m * parts, n, dtype)
    queries, lanes, lot = tile.queries, tile.lanes, tile.lot
    packed = (
        filled(a.mT, queries),
        filled(b, queries),
        filled(y.mT, lot),
        filled(w, lot, -jnp.inf),
        filled(jnp.pad(z, ((0, 0), (0, 0), (0, parts * width - e))).mT, lot),
    )

    def kernel(a_ref, b_ref, y_ref, w_ref, z_ref, out_ref):
        a, b = [LOG2E * a_ref[k][:, None] for k in range(d)], LOG2E * b_ref[...][:, None]

        def add(_, first, state):
            here = pl.ds(first, lanes)
            s = b + LOG2E * w_ref[here][None]
            for k in range(d):
                s = fma(interpret, a[k], y_ref[k, here][None], s)
            p = vanishing(s, power_of_two(interpret, s))
            return tuple(fma(interpret, p, z_ref[k, here][None], x) for k, x in enumerate(state))

        totals = _walk(n, tile, add, jnp.zeros((queries, lanes), dtype), width)
        for k, total in enumerate(totals):
            out_ref[k] = total

    blocks = up(m, queries) // queries

    def member(i):
        return i // (blocks * parts)

    out = pl.pallas_call(
        kernel,
        grid=(size * blocks * parts,),
        in_specs=[
            pl.BlockSpec((None, d, queries), lambda i: (member(i), 0, i % blocks)),
            pl.BlockSpec((None, queries), lambda i: (member(i), i % blocks)),
            _whole(pl, packed[2], member),
            _whole(pl, packed[3], member),
            pl.BlockSpec((None, width, packed[4].shape[2]), lambda i: (member(i), i // blocks % parts, 0)),
        ],
        out_specs=pl.BlockSpec((None, width, queries), lambda i: (member(i), i // blocks % parts, i % blocks)),
        out_shape=jax.ShapeDtypeStruct((size, parts * width, blocks * queries), dtype),
        **compiled(interpret, tile.warps),
    )(*packed)
    return out.mT[:, :m, :e]


def sloped(
    interpret: bool,
    slopes: Slopes,
    b: Array,
    w: Array,
    by_row: Array | None,
    by_column: Array | None,
    totalled: bool = True,
) -> tuple[Array | None, Array]:
    """The sums `sum_j p_ij q_ij`, if they are wanted, and `sum_j p_ij (q_ij x_j + x'_j)` over columns `x` and `x'`, if any.

    `p_ij = e^{s_ij + b_i + w_j}` is at most 1, and `q_ij` the products of all pairs with what the row and the column add.
    """
    from jax.experimental import pallas as pl

    (size, m, d), n, dtype = slopes.rows[0].shape, slopes.columns[0].shape[1], b.dtype
    held, seen = len(slopes.rows), len(slopes.columns)
    tile = _tile(SLOPES, (held + 1) * d + 3, size * m, n, dtype)
    queries, lanes, lot = tile.queries, tile.lanes, tile.lot
    rows = [b[:, None], *(x.mT for x in slopes.rows), *([] if by_row is None else [by_row[:, None]])]
    rows = jnp.concatenate(rows, 1)
    columns = [x.mT for x in slopes.columns] + ([] if by_column is None else [by_column[:, None]])
    packed = filled(rows, queries), filled(w, lot, -jnp.inf), filled(jnp.concatenate(columns, 1), lot)

    def kernel(row_ref, w_ref, column_ref, *out_refs):
        b, *x = (row_ref[k][:, None] for k in range(rows.shape[1]))

        def add(_, first, state):
            here = pl.ds(first, lanes)
            y = [column_ref[k, here][None] for k in range(seen * d)]

            def product(i, j, start):
                for k in range(d):
                    start = fma(interpret, x[i * d + k], y[j * d + k], start)
                return start

            s = product(0, 0, b + w_ref[here][None])
            p = vanishing(s, exponential(interpret, s))
            added = [] if by_column is None else [column_ref[seen * d, here][None]]
            q = functools.reduce(jnp.add, added + x[held * d :], jnp.zeros((1, 1), dtype))
            for i, j in slopes.pairs:
                q = product(i, j, q)
            c = p * q
            out = [fma(interpret, c, y[k], state[k]) for k in range(d)]
            if seen == 2:
                out = [fma(interpret, p, y[d + k], out[k]) for k in range(d)]
            return *out, *(total + c for total in state[d:])

        sums = _walk(n, tile, add, jnp.zeros((queries, lanes), dtype), d + totalled)
        for k in range(d):
            out_refs[0][k] = sums[k]
        if totalled:
            out_refs[1][...] = sums[d]

    blocks = packed[0].shape[2] // queries
    row = pl.BlockSpec((None, queries), lambda i: (i // blocks, i % blocks))
    out, *total = pl.pallas_call(
        kernel,
        grid=(size * blocks,),
        in_specs=[
            pl.BlockSpec((None, packed[0].shape[1], queries), lambda i: (i // blocks, 0, i % blocks)),
            *(_whole(pl, x, lambda i: i // blocks) for x in packed[1:]),
        ],
        out_specs=[pl.BlockSpec((None, d, queries), lambda i: (i // blocks, 0, i % blocks)), row][: 1 + totalled],
        out_shape=[
            jax.ShapeDtypeStruct((size, d, blocks * queries), dtype),
            jax.ShapeDtypeStruct((size, blocks * queries), dtype),
        ][: 1 + totalled],
        **compiled(interpret, tile.warps),
    )(*packed)
    return total[0][:, :m] if totalled else None, out.mT[:, :m]

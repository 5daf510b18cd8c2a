"""Kernel sums of many coordinates on a card, in float32: scores and moments are products on the tensor cores.

These multiply numbers of eleven bits. A factor is split into a leading and a rest part, `x = h + l`, and a product is
`h h' + h l' + l h'`, summed in float32: what is left out is `l l'`, a part of 2^-22. Factors are scaled by powers of two to a
common size first, so that no part gets too small; exponentials as well.

A program keeps a tile of rows and walks over tiles of columns. `attend` shifts exponents by a running maximum. Derivatives
know the log masses: with `p_ij = e^{<a_i, y_j> + w_j - L_i}` and a second product `q_ij` of rows and columns, they are sums
`sum_j p_ij (q_ij x_j + x'_j)`, over sources for queries and over queries for sources.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from measureflow.sums.pallas.card import LOG2E, Slopes, batched, compiled, power_of_two, up

TILES = 64
"""Products that are added before they join the total."""
SIZE = 10
"""Factors and exponentials are below two to this power."""


class Tile(NamedTuple):
    """Rows and columns of a product, and the warps of a program."""

    rows: int
    columns: int
    warps: int
    stages: int = 2


def _tiles(width: int) -> tuple[Tile, Tile]:
    """The fastest on an H200 among some, for sums and for slopes."""
    if width > 64:
        return Tile(64, 64, 4), Tile(64, 32, 4)
    return Tile(128, 64, 4, 3), Tile(64, 64, 4)


class Factor(NamedTuple):
    """Rows as leading and rest parts of numbers that are scaled by a power of two; whole numbers have no rest."""

    lead: Array
    rest: Array | None
    scale: Array


def split(parts: int, x: Array, multiple: int) -> Factor:
    """A factor of a batch of rows, filled up to a multiple of rows and to a power of two of coordinates, of at least 16.

    `parts` 2 keeps 22 bits and 1 the leading 11; 0 keeps float32 as it is.
    """
    width = max(16, 2 ** (x.shape[2] - 1).bit_length())
    x = jnp.pad(x, ((0, 0), (0, up(x.shape[1], multiple) - x.shape[1]), (0, width - x.shape[2])))
    if parts == 0:
        return Factor(x, None, jnp.ones(len(x), x.dtype))
    largest = jnp.maximum(jnp.abs(x).max((1, 2)), jnp.finfo(x.dtype).tiny)
    scale = jnp.exp2(SIZE - jnp.ceil(jnp.log2(largest)))
    x = x * scale[:, None, None]
    # Casting there and back, which is the same, the compiler leaves out.
    lead = jax.lax.reduce_precision(x, 5, 10)
    return Factor(lead.astype(jnp.float16), (x - lead).astype(jnp.float16) if parts == 2 else None, 1 / scale)


def _parts(tolerance: float) -> int:
    """How products are made to keep a tolerance."""
    return 0 if tolerance < 1e-6 else 2 if tolerance < 1e-3 else 1


def _product(x: tuple[Array, Array | None], y: tuple[Array, Array | None], axis: int) -> Array:
    """The product of two factors in their scale, over an axis of the second."""
    whole = x[0].dtype == jnp.float32
    precision = jax.lax.DotAlgorithmPreset.F32_F32_F32 if whole else None

    def of(x, y):
        contracted = (((1,), (axis,)), ((), ()))
        return jax.lax.dot_general(x, y, contracted, precision=precision, preferred_element_type=jnp.float32)

    out = of(x[0], y[0])
    return out if x[1] is None or y[1] is None else out + of(x[0], y[1]) + of(x[1], y[0])


def _halves(like: tuple[Array, Array | None], e: Array) -> tuple[Array, Array | None]:
    """Numbers of a tile as a factor of the same kind."""
    if like[0].dtype == jnp.float32:
        return e, None
    lead = e.astype(jnp.float16)
    return lead, None if like[1] is None else (e - lead.astype(e.dtype)).astype(jnp.float16)


def _read(refs, rows) -> tuple[Array, Array | None]:
    lead, *rest = refs
    return lead[rows, :], rest[0][rows, :] if rest else None


def attend(interpret: bool, tolerance: float, a: Array, y: Array, w: Array) -> tuple[Array, Array]:
    """Log masses and tilted means; arrays may have leading axes."""
    return batched(lambda *x: _attend(interpret, tolerance, *x), (2, 2, 1))(a, y, w)


def _attend(interpret: bool, tolerance: float, a: Array, y: Array, w: Array) -> tuple[Array, Array]:
    from jax.experimental import pallas as pl

    (size, m, d), n, parts = a.shape, y.shape[1], _parts(tolerance)
    rows, columns, warps, stages = _tiles(d)[0]
    queries, sources = split(parts, LOG2E * a, rows), split(parts, y, columns)
    width, tiles, blocks = sources.lead.shape[2], sources.lead.shape[1] // columns, queries.lead.shape[1] // rows
    # What has no weight, and what only fills the last tile, stays finite: a first tile without weight is then forgotten.
    weights = jnp.maximum(LOG2E * w, -1e30)
    weights = jnp.pad(weights, ((0, 0), (0, tiles * columns - n)), constant_values=-1e30)
    count = 1 if queries.rest is None else 2

    def kernel(scale_ref, w_ref, *refs):
        a = _read(refs[:count], slice(None))
        y_refs, (top_ref, mass_ref, moment_ref) = refs[count : 2 * count], refs[2 * count :]
        scale = scale_ref[0]

        def tile(j, state):
            top, mass, moment = state
            here = pl.ds(j * columns, columns)
            y = _read(y_refs, here)
            s = _product(a, y, 1) * scale + w_ref[here][None]
            new = jnp.maximum(top, s.max(1))
            e, fade = power_of_two(interpret, s - (new - SIZE)[:, None]), power_of_two(interpret, top - new)
            return new, mass * fade + e.sum(1), moment * fade[:, None] + _product(_halves(y, e), y, 0)

        def walk(k, state):
            top, mass, moment = state
            start = top, jnp.zeros_like(mass), jnp.zeros_like(moment)
            last = jnp.minimum((k + 1) * TILES, tiles)
            new, *part = jax.lax.fori_loop(k * TILES, last, tile, start)
            fade = power_of_two(interpret, top - new)
            return new, mass * fade + part[0], moment * fade[:, None] + part[1]

        zero = jnp.zeros(rows, jnp.float32)
        start = zero - 1e30, zero, jnp.zeros((rows, width), jnp.float32)
        top_ref[...], mass_ref[...], moment_ref[...] = jax.lax.fori_loop(0, -(-tiles // TILES), walk, start)

    block = pl.BlockSpec((None, rows, width), lambda i: (i // blocks, i % blocks, 0))
    row = pl.BlockSpec((None, rows), lambda i: (i // blocks, i % blocks))
    number = jax.ShapeDtypeStruct((size, blocks * rows), jnp.float32)
    top, mass, moment = pl.pallas_call(
        kernel,
        grid=(size * blocks,),
        in_specs=[
            pl.BlockSpec((None, 1), lambda i: (i // blocks, 0)),
            pl.BlockSpec((None, weights.shape[1]), lambda i: (i // blocks, 0)),
            *[block] * count,
            *[pl.BlockSpec((None, tiles * columns, width), lambda i: (i // blocks, 0, 0))] * count,
        ],
        out_specs=[row, row, block],
        out_shape=[number, number, jax.ShapeDtypeStruct((size, blocks * rows, width), jnp.float32)],
        **compiled(interpret, warps, stages),
    )((queries.scale * sources.scale)[:, None], weights, *_arrays(queries), *_arrays(sources))
    mean = moment / mass[..., None] * sources.scale[:, None, None]
    return ((top - SIZE) / LOG2E + jnp.log(mass))[:, :m], mean[:, :m, :d]


def _arrays(factor: Factor) -> list[Array]:
    return [x for x in factor[:2] if x is not None]


def _length(x: Array) -> Array:
    """The largest norm of a row, for each member of a batch."""
    return jnp.sqrt(jnp.sum(x**2, 2).max(1))


def sloped(
    interpret: bool, tolerance: float, slopes: Slopes, b: Array, w: Array, by_row: Array, by_column: Array
) -> tuple[Array, Array]:
    """The sums `sum_j p_ij q_ij` and `sum_j p_ij (q_ij x_j + x'_j)` over columns `x` and `x'`, if there are such.

    `p_ij = e^{s_ij + b_i + w_j}` is at most 1, and `q_ij` the products of all pairs with what the row and the column add.
    """
    from jax.experimental import pallas as pl

    (size, m, d), n, parts = slopes.rows[0].shape, slopes.columns[0].shape[1], _parts(tolerance)
    height, breadth, warps, stages = _tiles(d)[1]
    rows = [split(parts, x, height) for x in slopes.rows]
    columns = [split(parts, x, breadth) for x in slopes.columns]
    width, tiles, blocks = (
        columns[0].lead.shape[2],
        columns[0].lead.shape[1] // breadth,
        rows[0].lead.shape[1] // height,
    )
    largest = sum(_length(slopes.rows[i]) * _length(slopes.columns[j]) for i, j in slopes.pairs)
    largest = largest + jnp.abs(by_row).max(1) + jnp.abs(by_column).max(1)
    small = jnp.exp2(-jnp.ceil(jnp.log2(jnp.maximum(largest, jnp.finfo(b.dtype).tiny))))
    scales = [LOG2E * rows[0].scale * columns[0].scale, small]
    scales += [rows[i].scale * columns[j].scale * small for i, j in slopes.pairs]
    fill_rows, fill_columns = blocks * height - m, tiles * breadth - n
    sides = (
        jnp.pad(LOG2E * b + SIZE, ((0, 0), (0, fill_rows))),
        jnp.pad(by_row * small[:, None], ((0, 0), (0, fill_rows))),
        jnp.pad(jnp.maximum(LOG2E * w, -1e30), ((0, 0), (0, fill_columns)), constant_values=-1e30),
        jnp.pad(by_column * small[:, None], ((0, 0), (0, fill_columns))),
    )
    count = len(_arrays(rows[0]))

    def kernel(scale_ref, b_ref, r_ref, w_ref, c_ref, *refs):
        held = [_read(refs[k * count : (k + 1) * count], slice(None)) for k in range(len(rows))]
        refs, out_refs = refs[len(rows) * count : -2], refs[-2:]
        scale = [scale_ref[k] for k in range(len(scales))]
        b, r = b_ref[...][:, None], r_ref[...][:, None]

        def tile(j, state):
            here = pl.ds(j * breadth, breadth)
            x = [_read(refs[k * count : (k + 1) * count], here) for k in range(len(columns))]
            p = power_of_two(interpret, _product(held[0], x[0], 1) * scale[0] + (b + w_ref[here][None]))
            q = r + c_ref[here][None]
            for factor, (i, k) in zip(scale[2:], slopes.pairs, strict=True):
                q = q + _product(held[i], x[k], 1) * factor
            c = p * q
            tilted = [c, p][: len(columns)]
            moved = (
                old + _product(_halves(x[k], e), x[k], 0)
                for k, (e, old) in enumerate(zip(tilted, state[1:], strict=True))
            )
            return state[0] + c.sum(1), *moved

        def walk(k, state):
            last = jnp.minimum((k + 1) * TILES, tiles)
            part = jax.lax.fori_loop(k * TILES, last, tile, tuple(jnp.zeros_like(x) for x in state))
            return tuple(x + y for x, y in zip(state, part, strict=True))

        zero = jnp.zeros((height, width), jnp.float32)
        start = jnp.zeros(height, jnp.float32), *(zero for _ in columns)
        total, *moved = jax.lax.fori_loop(0, -(-tiles // TILES), walk, start)
        out_refs[0][...] = total
        out_refs[1][...] = sum(x * scale_ref[len(scales) + k] for k, x in enumerate(moved))

    finals = [columns[0].scale / small, *(x.scale for x in columns[1:])]
    known = jnp.stack([*scales, *(2.0**-SIZE * x for x in finals)], 1)
    block = pl.BlockSpec((None, height, width), lambda i: (i // blocks, i % blocks, 0))
    row = pl.BlockSpec((None, height), lambda i: (i // blocks, i % blocks))
    across = pl.BlockSpec((None, tiles * breadth), lambda i: (i // blocks, 0))
    total, out = pl.pallas_call(
        kernel,
        grid=(size * blocks,),
        in_specs=[
            pl.BlockSpec((None, known.shape[1]), lambda i: (i // blocks, 0)),
            *(row, row, across, across),
            *[block] * (count * len(rows)),
            *[pl.BlockSpec((None, tiles * breadth, width), lambda i: (i // blocks, 0, 0))] * (count * len(columns)),
        ],
        out_specs=[row, block],
        out_shape=[
            jax.ShapeDtypeStruct((size, blocks * height), jnp.float32),
            jax.ShapeDtypeStruct((size, blocks * height, width), jnp.float32),
        ],
        **compiled(interpret, warps, stages),
    )(known, *sides, *(y for x in (*rows, *columns) for y in _arrays(x)))
    return (total * 2.0**-SIZE / small[:, None])[:, :m], out[:, :m, :d]

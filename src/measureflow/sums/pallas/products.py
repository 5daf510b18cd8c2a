"""Kernel sums of many coordinates on a card, in float32: scores and moments are products on the tensor cores."""
import functools
import jax
import jax.numpy as jnp
from jaxtyping import Array
from measureflow.sums.blockwise import Blockwise
from measureflow.sums.pallas.card import LOG2E, compiled, power_of_two, up

ROWS, COLUMNS, TILES = 128, 64, 64
THREE_PRODUCTS = 1e-6

@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def attend(interpret: bool, tolerance: float, a: Array, y: Array, w: Array) -> tuple[Array, Array]:
    return _by_products(interpret, tolerance, a, y, w)

@attend.defjvp
def _attend_jvp(interpret: bool, tolerance: float, primals, tangents):
    _, moved = jax.jvp(lambda *arrays: tuple(Blockwise().attend(*arrays)), primals, tangents)
    return attend(interpret, tolerance, *primals), moved

def _padded(rows: Array, multiple: int) -> Array:
    return jnp.pad(rows, ((0, up(len(rows), multiple) - len(rows)), *((0, 0),) * (rows.ndim - 1)))

def _by_products(interpret: bool, tolerance: float, a: Array, y: Array, w: Array) -> tuple[Array, Array]:
    from jax.experimental import pallas as pl

    (m, d), n = a.shape, len(y)
    width = max(16, 2 ** (d - 1).bit_length())
    queries = _padded(jnp.pad(LOG2E * a, ((0, 0), (0, width - d))), ROWS)
    sources = _padded(jnp.pad(y, ((0, 0), (0, width - d))), COLUMNS)
    # What has no weight, and what only fills the last tile, stays finite: a first tile without weight is then forgotten.
    weights = jnp.maximum(LOG2E * w, -1e30)
    weights = jnp.pad(weights, (0, len(sources) - n), constant_values=-1e30)
    tiles = len(sources) // COLUMNS
    exact = jax.lax.DotAlgorithmPreset.F32_F32_F32
    way = jax.lax.DotAlgorithmPreset.TF32_TF32_F32_X3 if tolerance >= THREE_PRODUCTS and not interpret else exact

    def product(x, z, axis):
        return jax.lax.dot_general(x, z, (((1,), (axis,)), ((), ())), precision=way)

    def kernel(a_ref, y_ref, w_ref, top_ref, mass_ref, moment_ref):
        a = a_ref[...]

        def tile(j, state):
            top, mass, moment = state
            here = pl.ds(j * COLUMNS, COLUMNS)
            y = y_ref[here, :]
            s = product(a, y, 1) + w_ref[here][None]
            new = jnp.maximum(top, s.max(1))
            e, fade = power_of_two(interpret, s - new[:, None]), power_of_two(interpret, top - new)
            return new, mass * fade + e.sum(1), moment * fade[:, None] + product(e, y, 0)

        def walk(k, state):
            top, mass, moment = state
            start = top, jnp.zeros_like(mass), jnp.zeros_like(moment)
            new, *part = jax.lax.fori_loop(k * TILES, jnp.minimum((k + 1) * TILES, tiles), tile, start)
            fade = power_of_two(interpret, top - new)
            return new, mass * fade + part[0], moment * fade[:, None] + part[1]

        zero = jnp.zeros(ROWS, jnp.float32)
        start = zero - 1e30, zero, jnp.zeros((ROWS, width), jnp.float32)
        top_ref[...], mass_ref[...], moment_ref[...] = jax.lax.fori_loop(0, -(-tiles // TILES), walk, start)

    rows, row = pl.BlockSpec((ROWS, width), lambda i: (i, 0)), pl.BlockSpec((ROWS,), lambda i: (i,))
    number = jax.ShapeDtypeStruct((len(queries),), jnp.float32)
    call = pl.pallas_call(
        kernel,
        grid=(len(queries) // ROWS,),
        in_specs=[
            rows,
            pl.BlockSpec(sources.shape, lambda i: (0, 0)),
            pl.BlockSpec(weights.shape, lambda i: (0,)),
        ],
        out_specs=[row, row, rows],
        out_shape=[number, number, jax.ShapeDtypeStruct(queries.shape, jnp.float32)],
        **compiled(interpret, 8),
    )
    top, mass, moment = call(queries, sources, weights)
    return (top / LOG2E + jnp.log(mass))[:m], (moment / mass[:, None])[:m, :d]



"""The GPU engine: Pallas kernels for NVIDIA cards.

Few coordinates, float32 or float64: a program keeps a small tile of queries by lanes of sources and walks over all sources;
lanes are added only at the end of a chunk, and chunks are added to the total, so that no sum runs over more than a thousand
terms. Fused multiply-adds and powers of two are written as single instructions, because the compiler neither fuses the one
nor leaves out the guards of the other. Weights that are equal cost nothing, others enter as factors.

Many coordinates, float32: scores and moments are products of tiles on the tensor cores, with a running maximum.
"""

import functools
from typing import ClassVar, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from measureflow.sums.base import AbstractEngine, Attended, KernelSum
from measureflow.sums.blockwise import Blockwise
from measureflow.sums.costs import Cost
from measureflow.sums.native import constants
from measureflow.sums.registry import register

LOG2E = float(np.log2(np.e))
LANES, QUERIES, CHUNK = 32, 8, 2**14
UNROLLED = {"float32": 16, "float64": 4}
"""The fastest tile on an H200 among some forty: 8 queries by 32 lanes in one warp, with so many tiles of sources unrolled."""
FEW_COORDINATES = 8
MOST = {"float32": 128, "float64": FEW_COORDINATES}
"""Coordinates that each precision can have; more do not fit the memory of a tile."""
SPAN = {"float32": constants.SPAN_FLOAT32, "float64": constants.SPAN_FLOAT64}
"""Scores that spread farther go through blocks."""
ROWS, COLUMNS, TILES = 128, 64, 64
"""Queries and sources of a product on the tensor cores, and how many products are added before they join the total."""
THREE_PRODUCTS = 1e-6
"""Three products in tf32 are as exact as this; a smaller tolerance takes full products, four times slower."""


def available() -> bool:
    """Whether the default device is a GPU."""
    return jax.default_backend() == "gpu"


@register
@final
class Pallas(AbstractEngine):
    """All pairs on an NVIDIA GPU: up to 8 coordinates in float32 and float64, up to 128 in float32; others go through blocks.

    `tolerance` decides how products of many coordinates are made: below 1e-6 in full, which is slower than the blocks of a
    small cloud. Derivatives are those of the blockwise sum. `interpret` runs the kernels step by step on any device, for tests.
    """

    exact: ClassVar[bool] = True
    batches: ClassVar[bool] = False
    costs: ClassVar[dict[str, Cost]] = {
        "gpu float32": Cost(3e-5, 2e-13, 6e-14),
        "gpu float64": Cost(3e-5, 1.3e-12, 1e-13),
    }
    tolerance: float = eqx.field(static=True, default=1e-5)
    interpret: bool = eqx.field(static=True, default=False)

    @classmethod
    def available(cls) -> bool:
        """On a GPU."""
        return available()

    @classmethod
    def serving(cls, sum: KernelSum) -> "Pallas | None":
        """Sums of as many coordinates as a tile has room for."""
        return cls() if sum.d <= MOST.get(sum.dtype, 0) else None

    def __check_init__(self):
        if not (self.interpret or available()):
            raise RuntimeError(
                "`Pallas` needs an NVIDIA GPU; the default device is a "
                f"{jax.default_backend()}. `Native` (if built), `Dense` and `Blockwise` work here."
            )

    def attend(
        self, covectors: Float[Array, "m d"], sources: Float[Array, "n d"], log_weights: Float[Array, " n"]
    ) -> Attended:
        """The log mass and tilted mean, by the kernel that applies."""
        if covectors.shape[1] > MOST.get(covectors.dtype.name, 0):
            return Blockwise().attend(covectors, sources, log_weights)
        return Attended(*_attend(self.interpret, self.tolerance, covectors, sources, log_weights))

    def rows(self, row, sources: int, *queries: PyTree[Array]) -> PyTree[Array]:
        """Other functions of a row go through the blocks of the JAX engine."""
        return Blockwise().rows(row, sources, *queries)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def _attend(interpret: bool, tolerance: float, a: Array, y: Array, w: Array) -> tuple[Array, Array]:
    if a.shape[1] > FEW_COORDINATES:
        return _by_products(interpret, tolerance, a, y, w)
    reach = jnp.linalg.norm(a, axis=1) * jnp.sqrt(jnp.sum(y**2, 1).max())
    close = 2 * reach.max() + w.max() - w.min() < SPAN[a.dtype.name]
    ways = [
        lambda: tuple(Blockwise().attend(a, y, w)),
        lambda: _by_lanes(interpret, False, a, y, w, reach),
        lambda: _by_lanes(interpret, True, a, y, w, reach),
    ]
    return jax.lax.switch(jnp.where(close, 1 + (w.max() > w.min()).astype(int), 0), ways)


@_attend.defjvp
def _attend_jvp(interpret: bool, tolerance: float, primals, tangents):
    _, moved = jax.jvp(lambda *arrays: tuple(Blockwise().attend(*arrays)), primals, tangents)
    return _attend(interpret, tolerance, *primals), moved


def _up(n: int, multiple: int) -> int:
    return -(-n // multiple) * multiple


def _padded(rows: Array, multiple: int) -> Array:
    return jnp.pad(rows, ((0, _up(len(rows), multiple) - len(rows)), *((0, 0),) * (rows.ndim - 1)))


def _by_lanes(interpret: bool, weighted: bool, a: Array, y: Array, w: Array, reach: Array) -> tuple[Array, Array]:
    m, top = len(a), w.max()
    queries = _padded(jnp.concatenate([LOG2E * a, -LOG2E * reach[:, None]], 1), QUERIES)
    weights = jnp.exp(w - top)[:, None]
    columns = [y, weights, weights * y] if weighted else [y]
    sources = _padded(jnp.concatenate(columns, 1), LANES * UNROLLED[a.dtype.name])
    mass, *moment = _sums(interpret, weighted, len(y), tuple(queries.T), tuple(sources.T))
    mass = mass[:m]
    return top + reach + jnp.log(mass), jnp.stack(moment, 1)[:m] / mass[:, None]


def _sums(interpret: bool, weighted: bool, n: int, queries: tuple[Array, ...], sources: tuple[Array, ...]):
    """Mass and moments of each query over the first `n` sources: coordinates and shift of queries; coordinates, and if
    weighted also weight and weighted coordinates, of sources."""
    from jax.experimental import pallas as pl

    m, d, dtype = len(queries[0]), len(queries) - 1, queries[0].dtype
    unrolled = 1 if interpret else UNROLLED[dtype.name]
    chunks, rest = divmod(n, CHUNK)

    def kernel(*refs):
        *a, shift = (ref[...][:, None] for ref in refs[: d + 1])
        held, out = refs[d + 1 : -d - 1], refs[-d - 1 :]

        def tile(last, first, sums):
            here = [ref[pl.ds(first, LANES)][None] for ref in held]
            s = shift
            for a_i, y_i in zip(a, here[:d], strict=True):
                s = _fma(interpret, a_i, y_i, s)
            e = _power_of_two(interpret, s)
            if last:
                e = jnp.where(first + jnp.arange(LANES)[None] < n, e, jnp.zeros_like(e))
            mass = _fma(interpret, e, here[d], sums[0]) if weighted else sums[0] + e
            moments = here[d + 1 :] if weighted else here
            return mass, *(_fma(interpret, e, z, total) for z, total in zip(moments, sums[1:], strict=True))

        def walk(last, sources, k, totals):
            def step(j, sums):
                for u in range(unrolled):
                    sums = tile(last, k * CHUNK + (j * unrolled + u) * LANES, sums)
                return sums

            zero = tuple(jnp.zeros((QUERIES, LANES), dtype) for _ in totals)
            sums = jax.lax.fori_loop(0, -(-sources // (LANES * unrolled)), step, zero)
            return tuple(total + part.sum(1) for total, part in zip(totals, sums, strict=True))

        totals = tuple(jnp.zeros(QUERIES, dtype) for _ in out)
        totals = jax.lax.fori_loop(0, chunks, functools.partial(walk, False, CHUNK), totals)
        totals = walk(True, rest, chunks, totals) if rest else totals
        for ref, total in zip(out, totals, strict=True):
            ref[...] = total

    block = pl.BlockSpec((QUERIES,), lambda i: (i,))
    whole = pl.BlockSpec((len(sources[0]),), lambda i: (0,))
    call = pl.pallas_call(
        kernel,
        grid=(m // QUERIES,),
        in_specs=[block] * (d + 1) + [whole] * len(sources),
        out_specs=[block] * (d + 1),
        out_shape=[jax.ShapeDtypeStruct((m,), dtype)] * (d + 1),
        **_compiled(interpret, warps=1),
    )
    return call(*queries, *sources)


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
            e, fade = _power_of_two(interpret, s - new[:, None]), _power_of_two(interpret, top - new)
            return new, mass * fade + e.sum(1), moment * fade[:, None] + product(e, y, 0)

        def walk(k, state):
            top, mass, moment = state
            start = top, jnp.zeros_like(mass), jnp.zeros_like(moment)
            new, *part = jax.lax.fori_loop(k * TILES, jnp.minimum((k + 1) * TILES, tiles), tile, start)
            fade = _power_of_two(interpret, top - new)
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
        **_compiled(interpret, warps=8),
    )
    top, mass, moment = call(queries, sources, weights)
    return (top / LOG2E + jnp.log(mass))[:m], (moment / mass[:, None])[:m, :d]


def _compiled(interpret: bool, warps: int) -> dict:
    from jax.experimental.pallas import triton

    return {
        "compiler_params": None if interpret else triton.CompilerParams(num_warps=warps, num_stages=2),
        "interpret": interpret,
    }


def _instruction(text: str, *arguments: Array) -> Array:
    """One instruction of the card for each element."""
    from jax.experimental.pallas import triton

    kind = "d" if arguments[0].dtype == np.float64 else "f"
    shape = jnp.broadcast_shapes(*(x.shape for x in arguments))
    whole = [jnp.broadcast_to(x, shape) for x in arguments]
    constraints = ",".join([f"={kind}"] + [kind] * len(whole))
    result = [jax.ShapeDtypeStruct(shape, arguments[0].dtype)]
    return triton.elementwise_inline_asm(text, args=whole, constraints=constraints, pack=1, result_shape_dtypes=result)[
        0
    ]


def _fma(interpret: bool, x: Array, y: Array, z: Array) -> Array:
    if interpret:
        return x * y + z
    return _instruction(f"fma.rn.f{8 * x.dtype.itemsize} $0, $1, $2, $3;", x, y, z)


def _power_of_two(interpret: bool, x: Array) -> Array:
    if interpret:
        return jnp.exp2(x)
    if x.dtype == np.float32:
        return _instruction("ex2.approx.ftz.f32 $0, $1;", x)
    # The card has no such instruction. Adding 1.5 * 2^52 rounds to an integer, which the low bits then hold; it is added to
    # the exponent bits.
    shifted = x + 1.5 * 2**52
    r = x - (shifted - 1.5 * 2**52)
    p = jnp.full_like(x, constants.POWER_OF_TWO[0])
    for c in constants.POWER_OF_TWO[1:]:
        p = _fma(False, p, r, jnp.full_like(x, c))
    bits = jax.lax.bitcast_convert_type(p, jnp.int64) + (jax.lax.bitcast_convert_type(shifted, jnp.int64) << 52)
    return jax.lax.bitcast_convert_type(bits, jnp.float64)

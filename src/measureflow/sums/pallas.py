"""The GPU engine: a Pallas kernel for NVIDIA cards, float32, few coordinates.

A program keeps a small tile of queries by lanes of sources and walks over all sources; lanes are added only at the end of
a chunk, and chunks are added to the total, so that no sum runs over more than a thousand terms. Exponentials are powers of
two taken by the special function unit. Weights enter as factors of the sums rather than of the exponents: one operation
less for each pair.
"""

import functools
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from measureflow.sums.base import AbstractEngine, Attended
from measureflow.sums.blockwise import Blockwise

LOG2E = float(np.log2(np.e))
QUERIES, LANES, UNROLLED, CHUNK = 8, 32, 16, 2**14
"""The fastest tile on an H200 among a dozen tried: 8 queries by 32 lanes in one warp, 16 tiles of sources unrolled."""
MOST_COORDINATES = 8
SPAN = 60.0
"""Scores may spread over this much below their bound before exponentials vanish in float32; beyond, blocks take over."""


def available() -> bool:
    """Whether the default device is a GPU."""
    return jax.default_backend() == "gpu"


@final
class Pallas(AbstractEngine):
    """All pairs on an NVIDIA GPU in float32, for up to 8 coordinates; other sums go through blocks.

    Derivatives are those of the blockwise sum. `interpret` runs the kernel step by step on any device, for tests.
    """

    interpret: bool = eqx.field(static=True, default=False)

    def __check_init__(self):
        if not (self.interpret or available()):
            raise RuntimeError(
                "`Pallas` needs an NVIDIA GPU; the default device is a "
                f"{jax.default_backend()}. `Native` (if built), `Dense` and `Blockwise` work here."
            )

    def attend(
        self, covectors: Float[Array, "m d"], sources: Float[Array, "n d"], log_weights: Float[Array, " n"]
    ) -> Attended:
        """The log mass and tilted mean, by the kernel where it applies."""
        if covectors.dtype != np.float32 or covectors.shape[1] > MOST_COORDINATES:
            return Blockwise().attend(covectors, sources, log_weights)
        return Attended(*_attend(self.interpret, covectors, sources, log_weights))

    def rows(self, row, sources: int, *queries: PyTree[Array]) -> PyTree[Array]:
        """Other functions of a row go through the blocks of the JAX engine."""
        return Blockwise().rows(row, sources, *queries)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _attend(interpret: bool, a: Array, y: Array, w: Array) -> tuple[Array, Array]:
    reach = jnp.linalg.norm(a, axis=1) * jnp.sqrt(jnp.sum(y**2, 1).max())
    close = 2 * reach.max() + w.max() - w.min() < SPAN
    return jax.lax.cond(
        close, lambda: _by_kernel(interpret, a, y, w, reach), lambda: tuple(Blockwise().attend(a, y, w))
    )


@_attend.defjvp
def _attend_jvp(interpret: bool, primals, tangents):
    _, moved = jax.jvp(lambda *arrays: tuple(Blockwise().attend(*arrays)), primals, tangents)
    return _attend(interpret, *primals), moved


def _by_kernel(interpret: bool, a: Array, y: Array, w: Array, reach: Array) -> tuple[Array, Array]:
    m = len(a)
    top = w.max()
    chunk = min(CHUNK, _up(len(y), LANES * UNROLLED))
    queries = _padded(jnp.concatenate([LOG2E * a, -LOG2E * reach[:, None]], 1), QUERIES)
    sources = _padded(jnp.concatenate([y, jnp.exp(w - top)[:, None]], 1), chunk)  # padding has weight 0
    mass, *moment = _sums(interpret, chunk, tuple(queries.T), tuple(sources.T))
    mass = mass[:m]
    return top + reach + jnp.log(mass), jnp.stack(moment, 1)[:m] / mass[:, None]


def _up(n: int, multiple: int) -> int:
    return -(-n // multiple) * multiple


def _padded(rows: Array, multiple: int) -> Array:
    return jnp.pad(rows, ((0, _up(len(rows), multiple) - len(rows)), (0, 0)))


def _sums(interpret: bool, chunk: int, queries: tuple[Array, ...], sources: tuple[Array, ...]) -> tuple[Array, ...]:
    """The weighted mass and moments of each query: coordinates and shift of queries, coordinates and weight of sources."""
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton as plgpu

    m, n, d = len(queries[0]), len(sources[0]), len(queries) - 1

    def power_of_two(s):
        if interpret:
            return jnp.exp2(s)
        # The plain instruction: jnp.exp2 also guards denormal numbers, which costs more operations for each pair.
        asm = "ex2.approx.ftz.f32 $0, $1;"
        shape = [jax.ShapeDtypeStruct(s.shape, s.dtype)]
        return plgpu.elementwise_inline_asm(asm, args=[s], constraints="=f,f", pack=1, result_shape_dtypes=shape)[0]

    def kernel(*refs):
        *a, shift = (ref[...][:, None] for ref in refs[: d + 1])
        y, weight, out = refs[d + 1 : 2 * d + 1], refs[2 * d + 1], refs[2 * d + 2 :]

        def tile(first, sums):
            lanes = pl.ds(first, LANES)
            here, w = [ref[lanes][None] for ref in y], weight[lanes][None]
            s = shift
            for a_i, y_i in zip(a, here, strict=True):
                s = a_i * y_i + s
            e = power_of_two(s) * w
            return tuple(total + e * part for total, part in zip(sums, (1.0, *here), strict=True))

        def walk(k, totals):
            def step(j, sums):
                for u in range(UNROLLED):
                    sums = tile(k * chunk + (j * UNROLLED + u) * LANES, sums)
                return sums

            zero = tuple(jnp.zeros((QUERIES, LANES), jnp.float32) for _ in totals)
            sums = jax.lax.fori_loop(0, chunk // (LANES * UNROLLED), step, zero)
            return tuple(total + part.sum(1) for total, part in zip(totals, sums, strict=True))

        zero = tuple(jnp.zeros(QUERIES, jnp.float32) for _ in out)
        for ref, total in zip(out, jax.lax.fori_loop(0, n // chunk, walk, zero), strict=True):
            ref[...] = total

    block = pl.BlockSpec((QUERIES,), lambda i: (i,))
    whole = pl.BlockSpec((n,), lambda i: (0,))
    call = pl.pallas_call(
        kernel,
        grid=(m // QUERIES,),
        in_specs=[block] * (d + 1) + [whole] * (d + 1),
        out_specs=[block] * (d + 1),
        out_shape=[jax.ShapeDtypeStruct((m,), jnp.float32)] * (d + 1),
        compiler_params=None if interpret else plgpu.CompilerParams(num_warps=1, num_stages=2),
        interpret=interpret,
    )
    return tuple(call(*queries, *sources))

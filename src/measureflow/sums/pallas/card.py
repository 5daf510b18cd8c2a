"""What all kernels for NVIDIA cards share: single instructions, tiles and batches.

Fused multiply-adds and powers of two are written as single instructions, because the compiler neither fuses the one nor
leaves out the guards of the other. With `interpret` the same kernels run step by step on any device, for tests.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.custom_batching
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from measureflow.sums.native import constants

LOG2E = float(np.log2(np.e))
LEAST = -700.0
"""The smallest exponent in float64 whose exponential, or power of two, is not zero here."""


class Slopes(NamedTuple):
    """Rows and columns of which the first give scores, and the pairs of them whose products are the slope `q`."""

    rows: tuple[Array, ...]
    columns: tuple[Array, ...]
    pairs: tuple[tuple[int, int], ...]


def compiled(interpret: bool, warps: int, stages: int = 2) -> dict[str, Any]:
    """The options of a call."""
    from jax.experimental.pallas import triton

    return {
        "compiler_params": None if interpret else triton.CompilerParams(num_warps=warps, num_stages=stages),
        "interpret": interpret,
    }


def up(n: int, multiple: int) -> int:
    """The next multiple."""
    return -(-n // multiple) * multiple


def filled(x: Array, multiple: int, value: float = 0.0) -> Array:
    """The last axis filled up to a multiple."""
    extra = up(x.shape[-1], multiple) - x.shape[-1]
    return jnp.pad(x, (*((0, 0),) * (x.ndim - 1), (0, extra)), constant_values=value)


def batched(call: Callable[..., Any], ranks: tuple[int, ...]) -> Callable[..., Any]:
    """A function of arrays of one batch axis, for any number of batch axes of arrays that have these ranks without.

    Leading axes are full, or 1 where all members share an array; one more under `vmap` is one more leading axis.
    """

    @jax.custom_batching.custom_vmap
    def of(*arrays):
        leads = [x.shape[: x.ndim - rank] for x, rank in zip(arrays, ranks, strict=True)]
        lead = jnp.broadcast_shapes(*leads)
        whole = (
            jnp.broadcast_to(x, (*lead, *x.shape[x.ndim - rank :])).reshape(-1, *x.shape[x.ndim - rank :])
            for x, rank in zip(arrays, ranks, strict=True)
        )
        return jax.tree.map(lambda x: x.reshape(*lead, *x.shape[1:]), call(*whole))

    @of.def_vmap
    def _(_, own, *arrays):
        deeper = [x if mine else x[None] for mine, x in zip(own, arrays, strict=True)]
        out = of(*deeper)
        return out, jax.tree.map(lambda _: True, out)

    return of


def fma(interpret: bool, x: Array, y: Array, z: Array) -> Array:
    """The number `x y + z` with one rounding."""
    if interpret:
        return x * y + z
    return _instruction(f"fma.rn.f{8 * x.dtype.itemsize} $0, $1, $2, $3;", x, y, z)


def power_of_two(interpret: bool, x: Array) -> Array:
    """The number `2^x`; in float64 for `x` above -1022 alone."""
    if interpret:
        return jnp.exp2(x)
    if x.dtype == np.float32:
        return _instruction("ex2.approx.ftz.f32 $0, $1;", x)
    return _scaled_power(x, 1.0)


def exponential(interpret: bool, x: Array) -> Array:
    """The number `e^x`; in float64 for `x` above -708 alone."""
    if interpret or x.dtype == np.float32:
        return power_of_two(interpret, x * LOG2E)
    return _scaled_power(x, LOG2E)


def vanishing(x: Array, power: Array) -> Array:
    """A power, or zero where its exponent is too small for float64.

    The upper halves of numbers from `LEAST` down to minus infinity follow one another as integers. Comparing these leaves the
    units for float64 alone, which are what limits the kernels.
    """
    if x.dtype != np.float64:
        return power
    first, last = (int(np.float64(end).view(np.uint64) >> 32) for end in (LEAST, -np.inf))
    upper = (jax.lax.bitcast_convert_type(x, jnp.uint64) >> 32).astype(jnp.uint32)
    return jnp.where(upper - np.uint32(first) <= np.uint32(last - first), jnp.zeros_like(power), power)


def _scaled_power(x: Array, scale: float) -> Array:
    """The number `2^{scale x}` in float64, for which the card has no instruction.

    Adding 1.5 * 2^52 rounds to an integer, which the low bits then hold; it is added to the exponent bits.
    """
    magic, factor = (jnp.full_like(x, c) for c in (1.5 * 2**52, scale))
    shifted = fma(False, x, factor, magic)
    r = fma(False, x, factor, magic - shifted)
    p = jnp.full_like(x, constants.POWER_OF_TWO[0])
    for c in constants.POWER_OF_TWO[1:]:
        p = fma(False, p, r, jnp.full_like(x, c))
    bits = jax.lax.bitcast_convert_type(p, jnp.int64) + (jax.lax.bitcast_convert_type(shifted, jnp.int64) << 52)
    return jax.lax.bitcast_convert_type(bits, jnp.float64)


def _instruction(text: str, *arguments: Array) -> Array:
    """One instruction of the card for each element."""
    from jax.experimental.pallas import triton

    kind = "d" if arguments[0].dtype == np.float64 else "f"
    shape = jnp.broadcast_shapes(*(x.shape for x in arguments))
    whole = [jnp.broadcast_to(x, shape) for x in arguments]
    constraints = ",".join([f"={kind}"] + [kind] * len(whole))
    result = [jax.ShapeDtypeStruct(shape, arguments[0].dtype)]
    out = triton.elementwise_inline_asm(text, args=whole, constraints=constraints, pack=1, result_shape_dtypes=result)
    return out[0]

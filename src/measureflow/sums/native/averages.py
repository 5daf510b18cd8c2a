"""Averages by the native kernel, as a primitive of JAX that can be differentiated again and again in both modes.

`average(a, b, y, w, z) = sum_j e^{<a_i, y_j> + b_i + w_j} z_j`, where no exponent may be above zero but by rounding. It is
linear in `z`; its transpose is the same sum with queries and sources exchanged, and its derivative in the other arguments an
average of products. Arrays may have leading axes, a batch of sums: the full ones for `z`, and full or 1 for the others.
"""

import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from jaxtyping import Array, Float

from measureflow.sums.tangent import outer

_average = Primitive("measureflow_average")


def average(
    a: Float[Array, "m d"],
    b: Float[Array, " m"],
    y: Float[Array, "n d"],
    w: Float[Array, " n"],
    z: Float[Array, "n e"],
    *,
    threads: int,
    level: int,
) -> Float[Array, "m e"]:
    """The sums `sum_j e^{<a_i, y_j> + b_i + w_j} z_j`."""
    return _average.bind(a, b, y, w, z, threads=threads, level=level)


def _shape(a, b, y, w, z, **_):
    return jax.core.ShapedArray((*z.shape[:-2], a.shape[-2], z.shape[-1]), z.dtype)


def _call(a, b, y, w, z, *, threads, level):
    shape = jax.ShapeDtypeStruct((*z.shape[:-2], a.shape[-2], z.shape[-1]), z.dtype)
    return jax.ffi.ffi_call("measureflow_average", shape)(
        a, b, y, w, z, threads=np.int32(threads), level=np.int32(level)
    )


def _jvp(primals, tangents, **options):
    a, b, y, w, z = primals
    da, db, dy, dw, dz = tangents

    def of(values):
        return _average.bind(a, b, y, w, values, **options)

    def along(covectors, found):
        return jnp.einsum("...mk,...mke->...me", covectors, found.reshape(*found.shape[:-1], y.shape[-1], -1))

    out = of(z)
    moved = jnp.zeros_like(out)
    if type(dz) is not ad.Zero:
        moved += of(dz)
    if type(dw) is not ad.Zero:
        moved += of(dw[..., None] * z)
    if type(db) is not ad.Zero:
        moved += db[..., None] * out
    if type(da) is not ad.Zero:
        moved += along(da, of(outer(y, z)))
    if type(dy) is not ad.Zero:
        moved += along(a, of(outer(dy, z)))
    return out, moved


def _transpose(cotangent, a, b, y, w, z, **options):
    assert ad.is_undefined_primal(z)
    if type(cotangent) is ad.Zero:
        return None, None, None, None, ad.Zero(z.aval)
    return None, None, None, None, _average.bind(y, w, a, b, cotangent, **options)


def _batch(arguments, axes, **options):
    *others, z = arguments
    if all(axis is None for axis in axes[:-1]):
        # The exponentials are shared: values of all members side by side.
        z = jnp.moveaxis(z, axes[-1], -2)
        out = _average.bind(*others, z.reshape(*z.shape[:-2], -1), **options)
        return out.reshape(*out.shape[:-1], *z.shape[-2:]), out.ndim - 1
    size = next(x.shape[axis] for x, axis in zip(arguments, axes, strict=True) if axis is not None)
    others = [x[None] if axis is None else jnp.moveaxis(x, axis, 0) for x, axis in zip(others, axes, strict=False)]
    z = jnp.broadcast_to(z, (size, *z.shape)) if axes[-1] is None else jnp.moveaxis(z, axes[-1], 0)
    return _average.bind(*others, z, **options), 0


_average.def_abstract_eval(_shape)
_average.def_impl(jax.jit(_call, static_argnames=("threads", "level")))
mlir.register_lowering(_average, mlir.lower_fun(_call, multiple_results=False), platform="cpu")
ad.primitive_jvps[_average] = _jvp
ad.primitive_transposes[_average] = _transpose
batching.primitive_batchers[_average] = _batch

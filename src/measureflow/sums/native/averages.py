"""Averages by the native kernel, as a primitive of JAX that can be differentiated again and again in both modes.

`average(a, b, y, w, z) = sum_j e^{<a_i, y_j> + b_i + w_j} z_j`, where no exponent may be above zero but by rounding. It is
linear in `z`; its transpose is the same sum with queries and sources exchanged, and its derivative in the other arguments an
average of products.
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
    return jax.core.ShapedArray((a.shape[0], z.shape[1]), z.dtype)


def _call(a, b, y, w, z, *, threads, level):
    shape = jax.ShapeDtypeStruct((len(a), z.shape[1]), z.dtype)
    return jax.ffi.ffi_call("measureflow_average", shape)(
        a, b, y, w, z, threads=np.int32(threads), level=np.int32(level)
    )


def _jvp(primals, tangents, **options):
    a, b, y, w, z = primals
    da, db, dy, dw, dz = tangents

    def of(values):
        return average(a, b, y, w, values, **options)

    out, d = of(z), y.shape[1]
    moved = jnp.zeros_like(out)
    if type(dz) is not ad.Zero:
        moved += of(dz)
    if type(dw) is not ad.Zero:
        moved += of(dw[:, None] * z)
    if type(db) is not ad.Zero:
        moved += db[:, None] * out
    if type(da) is not ad.Zero:
        moved += jnp.einsum("mk,mke->me", da, of(outer(y, z)).reshape(len(a), d, -1))
    if type(dy) is not ad.Zero:
        moved += jnp.einsum("mk,mke->me", a, of(outer(dy, z)).reshape(len(a), d, -1))
    return out, moved


def _transpose(cotangent, a, b, y, w, z, **options):
    assert ad.is_undefined_primal(z)
    if type(cotangent) is ad.Zero:
        return None, None, None, None, ad.Zero(z.aval)
    return None, None, None, None, average(y, w, a, b, cotangent, **options)


def _batch(arguments, axes, **options):
    *others, z = arguments
    if all(axis is None for axis in axes[:-1]):
        # The exponentials are shared: values of all members side by side.
        z = jnp.moveaxis(z, axes[-1], 1)
        out = _average.bind(*others, z.reshape(len(z), -1), **options)
        return out.reshape(len(out), *z.shape[1:]), 1
    size = next(x.shape[axis] for x, axis in zip(arguments, axes, strict=True) if axis is not None)
    moved = [
        jnp.broadcast_to(x, (size, *x.shape)) if axis is None else jnp.moveaxis(x, axis, 0)
        for x, axis in zip(arguments, axes, strict=True)
    ]
    return jax.lax.map(lambda member: _average.bind(*member, **options), tuple(moved)), 0


_average.def_abstract_eval(_shape)
_average.def_impl(jax.jit(_call, static_argnames=("threads", "level")))
mlir.register_lowering(_average, mlir.lower_fun(_call, multiple_results=False), platform="cpu")
ad.primitive_jvps[_average] = _jvp
ad.primitive_transposes[_average] = _transpose
batching.primitive_batchers[_average] = _batch

"""Averages by a kernel, as a primitive of JAX that can be differentiated again and again in both modes.

`average(a, b, y, w, z) = sum_j e^{<a_i, y_j> + b_i + w_j} z_j`, where no exponent may be above zero but by rounding. It is
linear in `z`; its transpose is the same sum with queries and sources exchanged, and its derivative in the other arguments an
average of products. Arrays may have leading axes, a batch of sums: the full ones for `z`, and full or 1 for the others.

A kernel is what does the sum on a device, for such arrays. It is compared and hashed by value, since programs are kept by it.
"""

from typing import Protocol, runtime_checkable

import jax
import jax.core
import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from jaxtyping import Array, Float

from measureflow.sums.tangent import outer

_average = Primitive("measureflow_average")


@runtime_checkable
class Kernel(Protocol):
    """What does the sums of `average`; the first axis but two of each array is that of a batch."""

    def __call__(self, a: Array, b: Array, y: Array, w: Array, z: Array) -> Array:
        """The sums."""
        ...

    def exchanged(self) -> "Kernel":
        """The kernel with queries and sources exchanged: itself, unless it knows something of either."""
        ...


def average(
    a: Float[Array, "m d"],
    b: Float[Array, " m"],
    y: Float[Array, "n d"],
    w: Float[Array, " n"],
    z: Float[Array, "n e"],
    *,
    kernel: Kernel,
) -> Float[Array, "m e"]:
    """The sums `sum_j e^{<a_i, y_j> + b_i + w_j} z_j`, by a kernel."""
    return _average.bind(a, b, y, w, z, kernel=kernel)


def _shape(a, b, y, w, z, **_):
    return jax.core.ShapedArray((*z.shape[:-2], a.shape[-2], z.shape[-1]), z.dtype)


def _call(a, b, y, w, z, *, kernel):
    return kernel(a, b, y, w, z)


def _jvp(primals, tangents, *, kernel):
    a, b, y, w, z = primals
    da, db, dy, dw, dz = tangents

    def of(values):
        return _average.bind(a, b, y, w, values, kernel=kernel)

    def along(covectors, found):
        return jnp.sum(covectors[..., None] * found.reshape(*found.shape[:-1], y.shape[-1], -1), -2)

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


def _transpose(cotangent, a, b, y, w, z, *, kernel):
    assert ad.is_undefined_primal(z)
    if type(cotangent) is ad.Zero:
        return None, None, None, None, ad.Zero(z.aval)
    return None, None, None, None, _average.bind(y, w, a, b, cotangent, kernel=kernel.exchanged())


def _batch(arguments, axes, *, kernel):
    *others, z = arguments
    if all(axis is None for axis in axes[:-1]):
        # The exponentials are shared: values of all members side by side.
        z = jnp.moveaxis(z, axes[-1], -2)
        out = _average.bind(*others, z.reshape(*z.shape[:-2], -1), kernel=kernel)
        return out.reshape(*out.shape[:-1], *z.shape[-2:]), out.ndim - 1
    size = next(x.shape[axis] for x, axis in zip(arguments, axes, strict=True) if axis is not None)
    others = [x[None] if axis is None else jnp.moveaxis(x, axis, 0) for x, axis in zip(others, axes, strict=False)]
    z = jnp.broadcast_to(z, (size, *z.shape)) if axes[-1] is None else jnp.moveaxis(z, axes[-1], 0)
    return _average.bind(*others, z, kernel=kernel), 0


_average.def_abstract_eval(_shape)
_average.def_impl(jax.jit(_call, static_argnames="kernel"))
mlir.register_lowering(_average, mlir.lower_fun(_call, multiple_results=False))
ad.primitive_jvps[_average] = _jvp
ad.primitive_transposes[_average] = _transpose
batching.primitive_batchers[_average] = _batch

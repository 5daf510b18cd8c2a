"""Derivatives of sums of many coordinates: primitives of JAX, each the transpose of the other, by products on a card.

With `p_ij = e^{<a_i, y_j> + b_i + w_j}`, `push` takes tangents `da, dy, dw` to

    sum_j p_ij q_ij,    sum_j p_ij (q_ij y_j + dy_j),        q_ij = <da_i, y_j> + <a_i, dy_j> + dw_j,

and `pull` takes cotangents `g_i, h_i` of these to those of `a`, `y` and `w`, with `q_ij = g_i + <h_i, y_j>`:

    sum_j p_ij q_ij y_j,    sum_i p_ij (q_ij a_i + h_i),    sum_i p_ij q_ij.

Derivatives of higher order are those of the same sums in blocks.
"""

from typing import NamedTuple

import jax
import jax.core
import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from jaxtyping import Array

from measureflow.sums.blockwise import Blockwise
from measureflow.sums.pallas import products
from measureflow.sums.pallas.card import batched

RANKS = (2, 1, 2, 1)
"""Axes of `a, b, y, w` without those of a batch."""


class Way(NamedTuple):
    """How products are made."""

    interpret: bool
    tolerance: float


def push(way: Way, a: Array, b: Array, y: Array, w: Array, da: Array, dy: Array, dw: Array) -> tuple[Array, Array]:
    """What tangents of covectors, sources and log weights do to the sums."""
    total, out = _push.bind(a, b, y, w, da, dy, dw, way=way)
    return total, out


def _pushed(a, b, y, w, da, dy, dw, *, way: Way):
    def call(a, b, y, w, da, dy, dw):
        slopes = products.Slopes((a, da), (y, dy), ((1, 0), (0, 1)))
        return products.sloped(*way, slopes, b, w, jnp.zeros_like(b), dw)

    return batched(call, (*RANKS, 2, 2, 1))(a, b, y, w, da, dy, dw)


def _pulled(a, b, y, w, g, h, *, way: Way):
    def call(a, b, y, w, g, h):
        _, a_bar = products.sloped(*way, products.Slopes((a, h), (y,), ((1, 0),)), b, w, g, jnp.zeros_like(w))
        w_bar, y_bar = products.sloped(*way, products.Slopes((y,), (a, h), ((0, 1),)), w, b, jnp.zeros_like(w), g)
        return a_bar, y_bar, w_bar

    return batched(call, (*RANKS, 1, 2))(a, b, y, w, g, h)


def _times(x: Array, v: Array) -> Array:
    return jnp.matmul(x, v, precision=jax.lax.Precision.HIGHEST)


def _pushed_in_blocks(a, b, y, w, da, dy, dw):
    def row(a, b, da):
        p = jnp.exp(_times(y, a) + b + w)
        c = p * (_times(y, da) + _times(dy, a) + dw)
        return c.sum(), _times(c, y) + _times(p, dy)

    return Blockwise().rows(row, len(y), a, b, da)


def _pulled_in_blocks(a, b, y, w, g, h):
    def query(a, b, g, h):
        return _times(jnp.exp(_times(y, a) + b + w) * (g + _times(y, h)), y)

    def source(y, w):
        p = jnp.exp(_times(a, y) + b + w)
        c = p * (g + _times(h, y))
        return _times(c, a) + _times(p, h), c.sum()

    return Blockwise().rows(query, len(y), a, b, g, h), *Blockwise().rows(source, len(a), y, w)


def _made(name: str, call, in_blocks, shapes) -> Primitive:
    """A primitive whose last arguments, beyond four, are linear."""
    primitive = Primitive(name)
    primitive.multiple_results = True

    def jvp(primals, tangents, *, way):
        out = primitive.bind(*primals, way=way)
        moved = [ad.instantiate_zeros(t) for t in tangents]
        along = primitive.bind(*primals[:4], *moved[4:], way=way)
        if all(type(t) is ad.Zero for t in tangents[:4]):
            return out, along

        def of(*known):
            whole = in_blocks
            for _ in range(primals[0].ndim - 2):
                whole = jax.vmap(whole)
            return whole(*known, *primals[4:])

        bent = jax.jvp(of, tuple(primals[:4]), tuple(moved[:4]))[1]
        return out, [x + y for x, y in zip(along, bent, strict=True)]

    def batch(arguments, axes, *, way):
        size = next(x.shape[axis] for x, axis in zip(arguments, axes, strict=True) if axis is not None)
        full = [
            jnp.broadcast_to(x, (size, *x.shape)) if axis is None else jnp.moveaxis(x, axis, 0)
            for x, axis in zip(arguments, axes, strict=True)
        ]
        out = primitive.bind(*full, way=way)
        return out, [0] * len(out)

    primitive.def_abstract_eval(lambda *x, way: [jax.core.ShapedArray(s, x[0].dtype) for s in shapes(x[0], x[2])])
    primitive.def_impl(jax.jit(call, static_argnames="way"))
    mlir.register_lowering(primitive, mlir.lower_fun(call, multiple_results=True))
    ad.primitive_jvps[primitive] = jvp
    batching.primitive_batchers[primitive] = batch
    return primitive


_push = _made("measureflow_push", _pushed, _pushed_in_blocks, lambda a, y: (a.shape[:-1], a.shape))
_pull = _made("measureflow_pull", _pulled, _pulled_in_blocks, lambda a, y: (a.shape, y.shape, y.shape[:-1]))


def _push_transpose(cotangents, a, b, y, w, *tangents, way):
    g, h = (ad.instantiate_zeros(x) for x in cotangents)
    found = _pull.bind(a, b, y, w, g, h, way=way)
    return None, None, None, None, *(x if ad.is_undefined_primal(t) else None for x, t in zip(found, tangents, strict=True))


def _pull_transpose(cotangents, a, b, y, w, *arguments, way):
    found = _push.bind(a, b, y, w, *(ad.instantiate_zeros(x) for x in cotangents), way=way)
    kept = (x if ad.is_undefined_primal(t) else None for x, t in zip(found, arguments, strict=True))
    return None, None, None, None, *kept


ad.primitive_transposes[_push] = _push_transpose
ad.primitive_transposes[_pull] = _pull_transpose

"""Derivatives of sums on a card: two primitives of JAX, each the transpose of the other.

With `p_ij = e^{<a_i, y_j> + b_i + w_j}`, `push` takes tangents `da, dy, dw` to

    sum_j p_ij q_ij,    sum_j p_ij (q_ij y_j + dy_j),        q_ij = <da_i, y_j> + <a_i, dy_j> + dw_j,

and `pull` takes cotangents `g_i, h_i` of these to those of `a`, `y` and `w`, with `q_ij = g_i + <h_i, y_j>`:

    sum_j p_ij q_ij y_j,    sum_i p_ij (q_ij a_i + h_i),    sum_i p_ij q_ij.

Derivatives of higher order are those of averages for few coordinates, and for many those of the same sums in blocks.
"""

import functools
from typing import NamedTuple

import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from jaxtyping import Array

from measureflow.sums import averages
from measureflow.sums.blockwise import Blockwise
from measureflow.sums.pallas import lanes, products
from measureflow.sums.pallas.card import Slopes, batched
from measureflow.sums.tangent import outer

RANKS = (2, 1, 2, 1)
"""Axes of `a, b, y, w` without those of a batch."""


class Way(NamedTuple):
    """How sums are made: by lanes, or with a `tolerance` by products; `weighed` where log weights have cotangents."""

    interpret: bool
    tolerance: float | None = None
    weighed: bool = True

    def sloped(
        self, slopes: Slopes, b: Array, w: Array, by_row: Array | None, by_column: Array | None, totalled: bool = True
    ):
        """Sums with slopes, of arrays with one batch axis."""
        if self.tolerance is None:
            return lanes.sloped(self.interpret, slopes, b, w, by_row, by_column, totalled)
        by_row = jnp.zeros_like(b) if by_row is None else by_row
        by_column = jnp.zeros_like(w) if by_column is None else by_column
        return products.sloped(self.interpret, self.tolerance, slopes, b, w, by_row, by_column)


class AverageKernel(NamedTuple):
    """The lanes behind averages."""

    interpret: bool

    def __call__(self, a: Array, b: Array, y: Array, w: Array, z: Array) -> Array:
        """The sums, all members of a batch in one launch."""
        return lanes.average(self.interpret, a, b, y, w, z)

    def exchanged(self) -> "AverageKernel":
        """The same kernel: it treats queries and sources alike."""
        return self


def push(way: Way, a: Array, b: Array, y: Array, w: Array, da: Array, dy: Array, dw: Array) -> tuple[Array, Array]:
    """What tangents of covectors, sources and log weights do to the sums."""
    total, out = _push.bind(a, b, y, w, da, dy, dw, way=way)
    return total, out


def _pushed(a, b, y, w, da, dy, dw, *, way: Way):
    def call(a, b, y, w, da, dy, dw):
        return way.sloped(Slopes((a, da), (y, dy), ((1, 0), (0, 1))), b, w, None, dw)

    return batched(call, (*RANKS, 2, 2, 1))(a, b, y, w, da, dy, dw)


def _pulled(a, b, y, w, g, h, *, way: Way):
    def call(a, b, y, w, g, h):
        _, a_bar = way.sloped(Slopes((a, h), (y,), ((1, 0),)), b, w, g, None, totalled=False)
        w_bar, y_bar = way.sloped(Slopes((y,), (a, h), ((0, 1),)), w, b, None, g, totalled=way.weighed)
        return a_bar, y_bar, jnp.zeros_like(w) if w_bar is None else w_bar

    return batched(call, (*RANKS, 1, 2))(a, b, y, w, g, h)


def _pushed_by_averages(kernel, a, b, y, w, da, dy, dw):
    dw = dw[:, None]
    values = [y, outer(y, y), dy, outer(y, dy), dw, dw * y]
    found = averages.average(a, b, y, w, jnp.concatenate(values, 1), kernel=kernel)
    mean, second, moved, mixed, shift, slid = jnp.split(found, np.cumsum([v.shape[1] for v in values])[:-1], 1)
    total = jnp.sum(da * mean + a * moved, 1) + shift[:, 0]
    return total, _turned(second, da) + moved + _turned(mixed, a) + slid


def _pulled_by_averages(kernel, a, b, y, w, g, h):
    d, g = y.shape[1], g[:, None]
    seen = averages.average(a, b, y, w, jnp.concatenate([y, outer(y, y)], 1), kernel=kernel)
    values = [g, h, g * a + h, outer(a, h)]
    found = averages.average(y, w, a, b, jnp.concatenate(values, 1), kernel=kernel)
    mass, mean, moved, mixed = jnp.split(found, np.cumsum([v.shape[1] for v in values])[:-1], 1)
    a_bar = g * seen[:, :d] + _turned(seen[:, d:], h)
    return a_bar, moved + _turned(mixed, y), mass[:, 0] + jnp.sum(mean * y, 1)


def _turned(products: Array, v: Array) -> Array:
    """The matrices of products of two columns times a vector each."""
    return jnp.sum(products.reshape(*v.shape, -1) * v[:, None, :], 2)


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


def _made(name: str, call, by_averages, in_blocks, shapes) -> Primitive:
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
            few = functools.partial(by_averages, AverageKernel(way.interpret))
            whole = few if way.tolerance is None else in_blocks
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


_push = _made("measureflow_push", _pushed, _pushed_by_averages, _pushed_in_blocks, lambda a, y: (a.shape[:-1], a.shape))
_pull = _made(
    "measureflow_pull", _pulled, _pulled_by_averages, _pulled_in_blocks, lambda a, y: (a.shape, y.shape, y.shape[:-1])
)


def _push_transpose(cotangents, a, b, y, w, *tangents, way):
    g, h = (ad.instantiate_zeros(x) for x in cotangents)
    found = _pull.bind(a, b, y, w, g, h, way=way._replace(weighed=ad.is_undefined_primal(tangents[2])))
    return (
        None,
        None,
        None,
        None,
        *(x if ad.is_undefined_primal(t) else None for x, t in zip(found, tangents, strict=True)),
    )


def _pull_transpose(cotangents, a, b, y, w, *arguments, way):
    found = _push.bind(a, b, y, w, *(ad.instantiate_zeros(x) for x in cotangents), way=way)
    kept = (x if ad.is_undefined_primal(t) else None for x, t in zip(found, arguments, strict=True))
    return None, None, None, None, *kept


ad.primitive_transposes[_push] = _push_transpose
ad.primitive_transposes[_pull] = _pull_transpose

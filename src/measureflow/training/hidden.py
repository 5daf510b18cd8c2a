"""Many neurons on the same data: what they predict together, and the gradient of every one of them.

Neurons go through the data in blocks whose activations stay in a cache; value and gradient of a block are one pass. Derivatives
beyond the first are those of the plain formula, in both modes and to any order.
"""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero
from jaxtyping import Array, Float

from measureflow.precision import exactly, keep_all

WIDE = 2**24
"""Numbers that one block of data may hold at once where each datum is seen by itself: 128 MiB in float64."""

BLOCK = 2**20
"""Numbers of a block of neurons (parameters, activations and their derivatives): 4 MiB in float32, which stays in a cache."""


def total(
    neurons, points: Float[Array, "n D"], weights: Float[Array, " n"], inputs: Float[Array, "S d"]
) -> Float[Array, "S V"]:
    """What weighted neurons predict: `sum_i w_i a_i s(<w_i, x> + b_i)`."""
    size = _block(points, inputs)
    if size >= len(points):
        return _part(neurons, points, weights, inputs)
    packs = (_blocks(points, size), _blocks(weights[:, None], size)[..., 0])
    add = jax.checkpoint(lambda z, pack: (z + _part(neurons, *pack, inputs), None))
    first = jnp.zeros((len(inputs), neurons.outputs), points.dtype)
    return jax.lax.scan(add, first, packs)[0]


def pairing(
    neurons, points: Float[Array, "n D"], inputs: Float[Array, "S d"], cotangents: Float[Array, "S V"]
) -> Float[Array, " n"]:
    """What each neuron predicts, paired with given cotangents: `sum_s <a_i, c_s> s(<w_i, x_s> + b_i)`."""
    return _pairing(neurons, points, inputs, cotangents)


def by_data(f: Callable[[Array], Array], inputs: Float[Array, "S d"], width: int) -> Float[Array, "S V"]:
    """A function of inputs that needs so many numbers for each, on blocks of them."""
    size = max(1, WIDE // width)
    if size >= len(inputs):
        return f(inputs)
    found = jax.lax.map(jax.checkpoint(f), _blocks(inputs, size))
    return found.reshape(-1, found.shape[-1])[: len(inputs)]


@exactly
def _part(neurons, points, weights, inputs):
    return neurons.active(points, inputs).T @ (weights[:, None] * neurons.out(points))


@exactly
def _plain(neurons, points, inputs, cotangents):
    return jnp.sum((neurons.active(points, inputs) @ cotangents) * neurons.out(points), -1)


def _plain_slopes(neurons, points, inputs, cotangents):
    return jax.grad(lambda points: _plain(neurons, points, inputs, cotangents).sum())(points)


def _block(points: Array, inputs: Array) -> int:
    """How many neurons are a block: a divisor of their number where there is one of good size, so that none is filled up."""
    n, most = len(points), max(16, BLOCK // (2 * points.shape[1] + 3 * len(inputs)))
    return n if n <= most else next((size for size in range(most, most // 4, -1) if n % size == 0), most)


def _blocks(rows: Float[Array, "n k"], size: int) -> Float[Array, "b m k"]:
    """Rows in blocks; the last is filled up with zeros."""
    return jnp.pad(rows, ((0, -len(rows) % size), (0, 0))).reshape(-1, size, rows.shape[1])


def _both(neurons, points, inputs, cotangents) -> tuple[Float[Array, " n"], Float[Array, "n D"]]:
    """The pairing and its gradient, block by block."""

    def one(block):
        return jax.value_and_grad(lambda block: _sum(neurons, block, inputs, cotangents), has_aux=True)(block)

    size = _block(points, inputs)
    if size >= len(points):
        (_, values), slopes = one(points)
        return values, slopes
    (_, values), slopes = jax.lax.map(one, _blocks(points, size))
    return values.ravel()[: len(points)], slopes.reshape(-1, points.shape[1])[: len(points)]


def _sum(neurons, points, inputs, cotangents):
    values = _plain(neurons, points, inputs, cotangents)
    return values.sum(), values


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _slopes(neurons, points, inputs, cotangents):
    return _both(neurons, points, inputs, cotangents)


@_slopes.defjvp
def _(neurons, primals, tangents):
    plain = lambda *args: (_plain(neurons, *args), _plain_slopes(neurons, *args))  # noqa: E731
    return _slopes(neurons, *primals), jax.jvp(plain, primals, tangents)[1]


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _pairing(neurons, points, inputs, cotangents):
    size = _block(points, inputs)
    if size >= len(points):
        return _plain(neurons, points, inputs, cotangents)
    each = lambda block: _plain(neurons, block, inputs, cotangents)  # noqa: E731
    return jax.lax.map(each, _blocks(points, size)).ravel()[: len(points)]


def _pairing_jvp(neurons, primals, tangents):
    points, inputs, cotangents = primals
    along_points, along_inputs, along_cotangents = tangents
    values, slopes = _slopes(neurons, *primals)
    moved = jnp.zeros_like(values)
    if not isinstance(along_points, SymbolicZero):
        moved += jnp.sum(slopes * along_points, -1)
    if not isinstance(along_cotangents, SymbolicZero):
        moved += _plain(neurons, points, inputs, along_cotangents)
    if not isinstance(along_inputs, SymbolicZero):
        moved += jax.jvp(lambda x: _plain(neurons, points, x, cotangents), (inputs,), (along_inputs,))[1]
    return values, moved


_pairing.defjvp(_pairing_jvp, symbolic_zeros=True)


keep_all(globals())

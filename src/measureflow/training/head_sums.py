"""Many heads on the same sequences: what they add up to, and the gradient of every one of them.

Full heads go through kernels whose lanes hold heads, on a CPU in C++ and on a GPU in Pallas; other families and very large heads
through XLA, in blocks of sequences that keep memory linear in the number of heads. Derivatives beyond the first are those of
the XLA program, in both modes and to any order. Products are done in the precision of their factors, also on a GPU.
"""

import functools
from collections.abc import Callable
from types import ModuleType

import jax
import jax.custom_batching
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero
from jaxtyping import Array, Float

from measureflow.precision import exactly
from measureflow.sums import native, pallas
from measureflow.sums.native import heads as on_cpu
from measureflow.sums.pallas import heads as on_card
from measureflow.training.head_families import AbstractHeads, FullHeads

BLOCK = 2**25
"""Numbers that one block of sequences may hold at once: 256 MiB in float64."""
LARGEST = 2**13
"""The kernel in C++ takes heads of at most that many parameters, so that one for each lane fits into the cache."""


def total(
    heads: AbstractHeads, points: Float[Array, "n D"], weights: Float[Array, " n"], tokens: Float[Array, "S T d"]
) -> Float[Array, "S T d"]:
    """What weighted heads add to each position together: `sum_i w_i A_i x U_i`."""
    if isinstance(heads, FullHeads) and _kernel(heads, points) is not None:
        return _total(heads, points, weights, tokens)
    return _plain_total(heads, points, weights, tokens)


def pairing(
    heads: AbstractHeads, points: Float[Array, "n D"], tokens: Float[Array, "S T d"], cotangents: Float[Array, "S T d"]
) -> Float[Array, " n"]:
    """What each head computes, paired with given cotangents: `sum_st <(A_i x U_i)_st, c_st>`."""
    if isinstance(heads, FullHeads) and _kernel(heads, points) is not None:
        return _pairing(heads, points, tokens, cotangents)
    return _plain_pairing(heads, points, tokens, cotangents)


def _kernel(heads: FullHeads, points: Float[Array, "n D"]) -> ModuleType | None:
    """What has the functions `total` and `gradient` of such heads on the default device."""
    if pallas.available():
        return on_card if on_card.suits(points.dtype, heads.key_dim, heads.value_dim) else None
    known = points.dtype in (jnp.float32, jnp.float64) and points.shape[1] <= LARGEST
    return on_cpu if known and native.on_cpu() else None


@exactly
def _plain_total(heads, points, weights, tokens):
    def one(x):
        return jnp.tensordot(weights, jax.vmap(lambda theta: heads.mix(theta, x))(points), 1)

    return _by_sequence(one, len(points), tokens)


@exactly
def _plain_pairing(heads, points, tokens, cotangents):
    def one(x, c):
        return jax.vmap(lambda theta: jnp.vdot(heads.mix(theta, x), c))(points)

    return _by_sequence(one, len(points), tokens, cotangents).sum(0)


def _plain_slopes(heads, points, tokens, cotangents):
    return jax.grad(lambda points: _plain_pairing(heads, points, tokens, cotangents).sum())(points)


def _by_sequence(f: Callable[..., Array], heads: int, tokens: Array, *others: Array) -> Array:
    """A function of one sequence on all of them, in blocks that keep memory linear in the number of heads."""
    S, T, d = tokens.shape
    size = max(1, BLOCK // (heads * T * (T + 2 * d)))
    if size >= S:
        return jax.vmap(f)(tokens, *others)
    return jax.lax.map(jax.checkpoint(lambda pack: f(*pack)), (tokens, *others), batch_size=size)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _total(heads: FullHeads, points, weights, tokens):
    kernel = _kernel(heads, points)
    assert kernel is not None
    return kernel.total(points, weights, tokens, key_dim=heads.key_dim, value_dim=heads.value_dim)


@_total.defjvp
def _(heads: FullHeads, primals, tangents):
    return _total(heads, *primals), jax.jvp(functools.partial(_plain_total, heads), primals, tangents)[1]


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _slopes(heads: FullHeads, points, tokens, cotangents):
    kernel = _kernel(heads, points)
    assert kernel is not None

    @jax.custom_batching.custom_vmap
    def of(points, tokens, cotangents):
        return kernel.gradient(points, tokens, cotangents, key_dim=heads.key_dim, value_dim=heads.value_dim)

    @of.def_vmap
    def _(size, batched, points, tokens, cotangents):
        if batched == [True, False, False]:  # a batch of heads is more heads
            return of(points.reshape(-1, points.shape[-1]), tokens, cotangents).reshape(points.shape), True
        whole = zip(batched, (points, tokens, cotangents), strict=True)
        members = tuple(x if own else jnp.broadcast_to(x, (size, *x.shape)) for own, x in whole)
        return jax.lax.map(lambda member: of(*member), members), True

    return of(points, tokens, cotangents)


@_slopes.defjvp
def _(heads: FullHeads, primals, tangents):
    return _slopes(heads, *primals), jax.jvp(functools.partial(_plain_slopes, heads), primals, tangents)[1]


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _pairing(heads: FullHeads, points, tokens, cotangents):
    return _value(heads, points, _slopes(heads, points, tokens, cotangents))


def _value(heads: FullHeads, points, slopes):
    """The pairing itself, which is linear in the output matrix: the inner product of that block with its slope."""
    output = heads.size - heads.value_dim * heads.dim
    return jnp.sum(points[:, output:] * slopes[:, output:], -1)


def _pairing_jvp(heads: FullHeads, primals, tangents):
    points, tokens, cotangents = primals
    along_points, along_tokens, along_cotangents = tangents
    slopes = _slopes(heads, *primals)
    moved = jnp.zeros_like(points[:, 0])
    if not isinstance(along_points, SymbolicZero):
        moved += jnp.sum(slopes * along_points, -1)
    if not isinstance(along_cotangents, SymbolicZero):
        moved += _plain_pairing(heads, points, tokens, along_cotangents)
    if not isinstance(along_tokens, SymbolicZero):
        moved += jax.jvp(lambda x: _plain_pairing(heads, points, x, cotangents), (tokens,), (along_tokens,))[1]
    return _value(heads, points, slopes), moved


_pairing.defjvp(_pairing_jvp, symbolic_zeros=True)

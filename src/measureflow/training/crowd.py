"""Many heads on the same sequences: what they add up to, and the gradient of every one of them.

Full heads go through kernels whose lanes hold heads, on a CPU in C++ and on a GPU in Pallas; other families and very large heads
through XLA (`XLAHeadKernel`), in blocks of sequences that keep memory linear in the number of heads. Derivatives beyond the
first are those of the XLA program, in both modes and to any order. Products are done in the precision of their factors, also
on a GPU.
"""

import functools
from collections.abc import Callable
from typing import final

import jax
import jax.custom_batching
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero
from jaxtyping import Array, Float

from measureflow.precision import exactly, keep_all
from measureflow.sums import native, pallas
from measureflow.sums.kernels import AbstractHeadKernel
from measureflow.sums.native.heads import NativeHeadKernel
from measureflow.sums.pallas.heads import PallasHeadKernel
from measureflow.training.heads import AbstractHeads, FullHeads

BLOCK = 2**25
"""Numbers that one block of sequences may hold at once: 256 MiB in float64."""


@final
class XLAHeadKernel(AbstractHeadKernel):
    """Heads of any family by the XLA program, whose derivatives are those of JAX."""

    heads: AbstractHeads

    def suits(self, points: Array) -> bool:
        """Any heads."""
        return True

    @exactly
    def total(self, points: Array, weights: Array, tokens: Array) -> Array:
        """What weighted heads add to each position together."""

        def one(x):
            return jnp.tensordot(weights, jax.vmap(lambda theta: self.heads.mix(theta, x))(points), 1)

        return _by_sequence(one, len(points), tokens)

    @exactly
    def pairing(self, points: Array, tokens: Array, cotangents: Array) -> Array:
        """What each head computes, paired with given cotangents."""

        def one(x, c):
            return jax.vmap(lambda theta: jnp.vdot(self.heads.mix(theta, x), c))(points)

        return _by_sequence(one, len(points), tokens, cotangents).sum(0)

    def gradient(self, points: Array, tokens: Array, cotangents: Array) -> Array:
        """The gradient of every head."""
        return jax.grad(lambda points: self.pairing(points, tokens, cotangents).sum())(points)


def kernel_for(heads: AbstractHeads, points: Float[Array, "n D"]) -> AbstractHeadKernel:
    """The kernel that does such heads on the default device."""
    if isinstance(heads, FullHeads) and (pallas.available() or native.on_cpu()):
        kind = PallasHeadKernel if pallas.available() else NativeHeadKernel
        kernel = kind(heads.key_dim, heads.value_dim)
        return kernel if kernel.suits(points) else XLAHeadKernel(heads)
    return XLAHeadKernel(heads)


def total(
    heads: AbstractHeads, points: Float[Array, "n D"], weights: Float[Array, " n"], tokens: Float[Array, "S T d"]
) -> Float[Array, "S T d"]:
    """What weighted heads add to each position together: `sum_i w_i A_i x U_i`."""
    kernel = kernel_for(heads, points)
    if isinstance(kernel, XLAHeadKernel):
        return kernel.total(points, weights, tokens)
    return _total(heads, points, weights, tokens)


def pairing(
    heads: AbstractHeads, points: Float[Array, "n D"], tokens: Float[Array, "S T d"], cotangents: Float[Array, "S T d"]
) -> Float[Array, " n"]:
    """What each head computes, paired with given cotangents: `sum_st <(A_i x U_i)_st, c_st>`."""
    kernel = kernel_for(heads, points)
    if isinstance(kernel, XLAHeadKernel):
        return kernel.pairing(points, tokens, cotangents)
    return _pairing(heads, points, tokens, cotangents)


def _by_sequence(f: Callable[..., Array], heads: int, tokens: Array, *others: Array) -> Array:
    """A function of one sequence on all of them, in blocks that keep memory linear in the number of heads."""
    S, T, d = tokens.shape
    size = max(1, BLOCK // (heads * T * (T + 2 * d)))
    if size >= S:
        return jax.vmap(f)(tokens, *others)
    return jax.lax.map(jax.checkpoint(lambda pack: f(*pack)), (tokens, *others), batch_size=size)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _total(heads: FullHeads, points, weights, tokens):
    return kernel_for(heads, points).total(points, weights, tokens)


@_total.defjvp
def _(heads: FullHeads, primals, tangents):
    return _total(heads, *primals), jax.jvp(XLAHeadKernel(heads).total, primals, tangents)[1]


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _slopes(heads: FullHeads, points, tokens, cotangents):
    kernel = kernel_for(heads, points)

    @jax.custom_batching.custom_vmap
    def of(points, tokens, cotangents):
        return kernel.gradient(points, tokens, cotangents)

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
    return _slopes(heads, *primals), jax.jvp(XLAHeadKernel(heads).gradient, primals, tangents)[1]


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
    slopes, plain = _slopes(heads, *primals), XLAHeadKernel(heads)
    moved = jnp.zeros_like(points[:, 0])
    if not isinstance(along_points, SymbolicZero):
        moved += jnp.sum(slopes * along_points, -1)
    if not isinstance(along_cotangents, SymbolicZero):
        moved += plain.pairing(points, tokens, along_cotangents)
    if not isinstance(along_tokens, SymbolicZero):
        moved += jax.jvp(lambda x: plain.pairing(points, x, cotangents), (tokens,), (along_tokens,))[1]
    return _value(heads, points, slopes), moved


_pairing.defjvp(_pairing_jvp, symbolic_zeros=True)


keep_all(globals())

"""Kernel sums over the past: token `i` sees the tokens up to itself.

The pairs below the diagonal of an `n x n` square are squares again: half of the tokens see all of the other half, and so on
within each half. Squares go through an engine for all pairs, half as many in total, and only the smallest triangles are
masked. Derivatives for few coordinates are sums of other values over the same past (`sums.tangent`), so that the backward pass
keeps nothing of the squares.
"""

import functools
from collections.abc import Callable
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from measureflow.sums.base import AbstractEngine, Attended, KernelSum, attend_one
from measureflow.sums.tangent import FEW_COORDINATES, attend_tangent

BLOCK = 128
"""The size of the triangles that are masked."""
AT_ONCE = 2**20
"""Small squares are summed together as long as they have at most so many pairs."""


@final
class Past(eqx.Module):
    """What attends to the past of tokens, through an engine for all pairs.

    It takes the place of an engine where exponentials are all that is summed. It is none: a row of any other function looks at
    all sources.
    """

    engine: AbstractEngine

    def attend(
        self, covectors: Float[Array, "n d"], sources: Float[Array, "n d"], log_weights: Float[Array, " n"]
    ) -> Attended:
        """The log mass and tilted mean of the past of each token: covector `i` belongs to source `i`."""
        n = len(sources)
        # A last block with a single token is computed wrongly by XLA on a CPU (jaxlib 0.10), so there is none.
        size = block = BLOCK - 2 * (n % BLOCK == 1 and n > 1)
        while size < n:
            size *= 2
        # What only fills the last blocks comes after all tokens, so that none sees it.
        arrays = (jnp.pad(x, ((0, size - n), *((0, 0),) * (x.ndim - 1))) for x in (covectors, sources, log_weights))
        attend = _attend_by_sums if sources.shape[1] <= FEW_COORDINATES else _attend
        return Attended(*(x[:n] for x in attend(self.engine, block, *arrays)))


def _attend(engine: AbstractEngine, block: int, a: Array, y: Array, w: Array) -> tuple[Array, Array]:
    seen = _triangles(*(x.reshape(-1, block, *x.shape[1:]) for x in (a, y, w)))
    for half in _halves(block, len(a)):
        # The backward pass computes a level again instead of keeping it.
        seen = jax.checkpoint(_squares, static_argnums=(0, 1))(engine, half, a, y, w, seen)
    return seen.log_mass, seen.mean


_attend_by_sums = jax.custom_jvp(_attend, nondiff_argnums=(0, 1))


def _attend_jvp(engine: AbstractEngine, block: int, primals, tangents):
    a, y, w = primals
    log_mass, mean = _attend_by_sums(engine, block, *primals)
    average = functools.partial(_average, engine, block, a, -log_mass, y, w)
    return (log_mass, mean), attend_tangent(average, a, y, log_mass, mean, tangents)


_attend_by_sums.defjvp(_attend_jvp, symbolic_zeros=True)


def _halves(block: int, size: int) -> list[int]:
    """The sides of the squares, from the smallest on."""
    return [half for half in (block * 2**k for k in range(size.bit_length())) if half < size]


def _over_squares(
    engine: AbstractEngine, sum: Callable[..., Any], half: int, queries: tuple[Array, ...], sources: tuple[Array, ...]
) -> Any:
    """A sum of an engine over all squares of a side: every second stretch of tokens and the stretch before it.

    All at once if memory stays linear, else so many together that their pairs are few.
    """
    queries, sources = (tuple(x.reshape(-1, 2, half, *x.shape[1:]) for x in arrays) for arrays in (queries, sources))
    squares = (*(x[:, 1] for x in queries), *(x[:, 0] for x in sources))
    count, _, d = squares[0].shape
    batches = engine.pick(KernelSum(half, half, d, squares[0].dtype.name)).batches
    together = count if batches else min(count, max(1, AT_ONCE // half**2))
    if together == count:
        return jax.vmap(sum)(*squares)
    return jax.lax.map(lambda square: sum(*square), squares, batch_size=together)


def _squares(engine: AbstractEngine, half: int, a: Array, y: Array, w: Array, seen: Attended) -> Attended:
    """Add to every second stretch of `half` tokens what it sees of the stretch before."""
    before = _over_squares(engine, engine.attend, half, (a,), (y, w))
    log_mass, mean = (x.reshape(-1, 2, half, *x.shape[1:]) for x in seen)
    total = jnp.logaddexp(log_mass[:, 1], before.log_mass)
    old, new = (jnp.exp(x - total)[..., None] for x in (log_mass[:, 1], before.log_mass))
    later = total, old * mean[:, 1] + new * before.mean
    pairs = zip((log_mass, mean), later, seen, strict=True)
    return Attended(*(jnp.stack([both[:, 0], one], 1).reshape(flat.shape) for both, one, flat in pairs))


def _average(engine: AbstractEngine, block: int, a: Array, b: Array, y: Array, w: Array, z: Array) -> Array:
    """The sums `sum_{j <= i} e^{<a_i, y_j> + b_i + w_j} z_j`, by the same triangles and squares."""
    past = jnp.tri(block, dtype=bool)

    @jax.checkpoint
    def triangle(x):
        a, b, y, w, z = x
        scores = jnp.matmul(a, y.T, precision=jax.lax.Precision.HIGHEST) + b[:, None] + w[None]
        return jnp.matmul(jnp.exp(jnp.where(past, scores, -jnp.inf)), z, precision=jax.lax.Precision.HIGHEST)

    cut = tuple(x.reshape(-1, block, *x.shape[1:]) for x in (a, b, y, w, z))
    total = jax.lax.map(triangle, cut, batch_size=16).reshape(len(a), -1)
    for half in _halves(block, len(a)):
        before = _over_squares(engine, engine.average, half, (a, b), (y, w, z))
        total = total + jnp.pad(before, ((0, 0), (half, 0), (0, 0))).reshape(total.shape)
    return total


def _triangles(a: Array, y: Array, w: Array) -> Attended:
    past = jnp.tri(a.shape[1], dtype=bool)

    def block(a, y, w):
        return jax.vmap(lambda a, mask: attend_one(a, y, jnp.where(mask, w, -jnp.inf)))(a, past)

    # The backward pass computes a triangle again instead of keeping it.
    log_mass, mean = jax.lax.map(jax.checkpoint(lambda x: block(*x)), (a, y, w), batch_size=16)
    return Attended(log_mass.reshape(-1), mean.reshape(-1, mean.shape[-1]))

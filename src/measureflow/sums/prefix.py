"""Kernel sums over the past: token `i` sees the tokens up to itself.

The pairs below the diagonal of an `n x n` square are squares again: half of the tokens see all of the other half, and so on
within each half. Squares go through the engine for all pairs, half as many in total, and only the smallest triangles are
masked.
"""

from typing import final

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from measureflow.sums.base import AbstractEngine, Attended, attend_one

BLOCK = 128
"""The size of the triangles that are masked."""


@final
class Prefix(AbstractEngine):
    """Sums in which covector `i` belongs to source `i` and sees the sources up to it, through another engine."""

    engine: AbstractEngine

    def attend(
        self, covectors: Float[Array, "n d"], sources: Float[Array, "n d"], log_weights: Float[Array, " n"]
    ) -> Attended:
        """The log mass and tilted mean of the past of each token."""
        n = len(sources)
        # A last block with a single token is computed wrongly by XLA on a CPU (jaxlib 0.10), so there is none.
        size = block = BLOCK - 2 * (n % BLOCK == 1 and n > 1)
        while size < n:
            size *= 2
        # What only fills the last blocks comes after all tokens, so that none sees it.
        a, y, w = (jnp.pad(x, ((0, size - n), *((0, 0),) * (x.ndim - 1))) for x in (covectors, sources, log_weights))
        seen = _triangles(*(x.reshape(-1, block, *x.shape[1:]) for x in (a, y, w)))
        half = block
        while half < size:
            seen = self._squares(half, a, y, w, seen)
            half *= 2
        return Attended(*(x[:n] for x in seen))

    def _squares(self, half: int, a: Array, y: Array, w: Array, seen: Attended) -> Attended:
        """Add to every second stretch of `half` tokens what it sees of the stretch before."""
        cut = [x.reshape(-1, 2, half, *x.shape[1:]) for x in (a, y, w, *seen)]
        before = jax.lax.map(lambda x: self.engine.attend(*x), (cut[0][:, 1], cut[1][:, 0], cut[2][:, 0]))
        log_mass, mean = (x[:, 1] for x in cut[3:])
        total = jnp.logaddexp(log_mass, before.log_mass)
        old, new = (jnp.exp(x - total)[..., None] for x in (log_mass, before.log_mass))
        later = total, old * mean + new * before.mean
        pairs = zip(cut[3:], later, seen, strict=True)
        return Attended(*(jnp.stack([whole[:, 0], new], 1).reshape(old.shape) for whole, new, old in pairs))

    def rows(self, row, sources: int, *queries: PyTree[Array]) -> PyTree[Array]:
        """Not there: a row looks at all sources."""
        raise NotImplementedError("`Prefix` sums exponentials of the past; other functions of a row see all sources.")


def _triangles(a: Array, y: Array, w: Array) -> Attended:
    past = jnp.tri(a.shape[1], dtype=bool)

    def block(a, y, w):
        return jax.vmap(lambda a, mask: attend_one(a, y, jnp.where(mask, w, -jnp.inf)))(a, past)

    # The backward pass computes a triangle again instead of keeping it.
    log_mass, mean = jax.lax.map(jax.checkpoint(lambda x: block(*x)), (a, y, w), batch_size=16)
    return Attended(log_mass.reshape(-1), mean.reshape(-1, mean.shape[-1]))

"""Kernel sums over the past: token `i` sees the tokens up to itself.

The pairs below the diagonal of an `n x n` square are squares again: half of the tokens see all of the other half, and so on
within each half. Squares go through an engine for all pairs, half as many in total, and only the smallest triangles are
masked. The backward pass computes each level again, so that it keeps what was seen so far and nothing else.
"""

from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from measureflow.sums.base import AbstractEngine, Attended, attend_one

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
        size = half = BLOCK - 2 * (n % BLOCK == 1 and n > 1)
        while size < n:
            size *= 2
        # What only fills the last blocks comes after all tokens, so that none sees it.
        a, y, w = (jnp.pad(x, ((0, size - n), *((0, 0),) * (x.ndim - 1))) for x in (covectors, sources, log_weights))
        seen = _triangles(*(x.reshape(-1, half, *x.shape[1:]) for x in (a, y, w)))
        while half < size:
            seen = jax.checkpoint(_squares, static_argnums=(0, 1))(self.engine, half, a, y, w, seen)
            half *= 2
        return Attended(*(x[:n] for x in seen))


def _squares(engine: AbstractEngine, half: int, a: Array, y: Array, w: Array, seen: Attended) -> Attended:
    """Add to every second stretch of `half` tokens what it sees of the stretch before."""
    a, y, w, log_mass, mean = (x.reshape(-1, 2, half, *x.shape[1:]) for x in (a, y, w, *seen))
    together = max(1, min(len(a), AT_ONCE // half**2))
    before = jax.lax.map(lambda x: engine.attend(*x), (a[:, 1], y[:, 0], w[:, 0]), batch_size=together)
    total = jnp.logaddexp(log_mass[:, 1], before.log_mass)
    old, new = (jnp.exp(x - total)[..., None] for x in (log_mass[:, 1], before.log_mass))
    later = total, old * mean[:, 1] + new * before.mean
    pairs = zip((log_mass, mean), later, seen, strict=True)
    return Attended(*(jnp.stack([both[:, 0], one], 1).reshape(flat.shape) for both, one, flat in pairs))


def _triangles(a: Array, y: Array, w: Array) -> Attended:
    past = jnp.tri(a.shape[1], dtype=bool)

    def block(a, y, w):
        return jax.vmap(lambda a, mask: attend_one(a, y, jnp.where(mask, w, -jnp.inf)))(a, past)

    # The backward pass computes a triangle again instead of keeping it.
    log_mass, mean = jax.lax.map(jax.checkpoint(lambda x: block(*x)), (a, y, w), batch_size=16)
    return Attended(log_mass.reshape(-1), mean.reshape(-1, mean.shape[-1]))

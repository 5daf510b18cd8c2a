"""Kernel sums over all pairs: at once for small clouds, block by block when the pairs would not fit in memory."""

from collections.abc import Callable
from typing import final

import equinox as eqx
import jax
from jaxtyping import Array, Float, PyTree

from measureflow.sums.base import AbstractEngine, Attended, attend_one


@final
class Dense(AbstractEngine):
    """All pairs at once: fastest for small clouds, memory `m n`."""

    def attend(
        self, covectors: Float[Array, "m d"], sources: Float[Array, "n d"], log_weights: Float[Array, " n"]
    ) -> Attended:
        """The log mass and tilted mean, through one `m x n` array."""
        return Attended(*jax.vmap(attend_one, in_axes=(0, None, None))(covectors, sources, log_weights))

    def rows(self, row: Callable[..., PyTree[Array]], sources: int, *queries: PyTree[Array]) -> PyTree[Array]:
        """All rows at once."""
        return jax.vmap(row)(*queries)


@final
class Blockwise(AbstractEngine):
    """Blocks of covectors against all sources, recomputed in the backward pass: at most `pairs` scores exist at once."""

    pairs: int = eqx.field(static=True, default=2**20)

    def attend(
        self, covectors: Float[Array, "m d"], sources: Float[Array, "n d"], log_weights: Float[Array, " n"]
    ) -> Attended:
        """The log mass and tilted mean, through blocks of bounded size."""
        return Attended(*self.rows(lambda a: attend_one(a, sources, log_weights), len(sources), covectors))

    def rows(self, row: Callable[..., PyTree[Array]], sources: int, *queries: PyTree[Array]) -> PyTree[Array]:
        """Rows in blocks; the backward pass computes each block again instead of keeping it."""
        size = max(1, self.pairs // sources)
        if len(jax.tree.leaves(queries)[0]) <= size:
            return jax.vmap(row)(*queries)
        return jax.lax.map(jax.checkpoint(lambda query: row(*query)), queries, batch_size=size)

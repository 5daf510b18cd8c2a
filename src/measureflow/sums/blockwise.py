"""Kernel sums over all pairs: at once for small clouds, block by block when the pairs would not fit in memory."""

from typing import final

import equinox as eqx
import jax
from jaxtyping import Array, Float

from measureflow.sums.base import AbstractEngine, Attended, attend_one


@final
class Dense(AbstractEngine):
    """All pairs at once: fastest for small clouds, memory `m n`."""

    def attend(
        self, covectors: Float[Array, "m d"], sources: Float[Array, "n d"], log_weights: Float[Array, " n"]
    ) -> Attended:
        """The log mass and tilted mean, through one `m x n` array."""
        return Attended(*jax.vmap(attend_one, in_axes=(0, None, None))(covectors, sources, log_weights))


@final
class Blockwise(AbstractEngine):
    """Blocks of covectors against all sources, recomputed in the backward pass: at most `pairs` scores exist at once."""

    pairs: int = eqx.field(static=True, default=2**20)

    def attend(
        self, covectors: Float[Array, "m d"], sources: Float[Array, "n d"], log_weights: Float[Array, " n"]
    ) -> Attended:
        """The log mass and tilted mean, through blocks of bounded size."""
        rows = max(1, self.pairs // len(sources))
        if len(covectors) <= rows:
            return Dense().attend(covectors, sources, log_weights)
        one = jax.checkpoint(lambda a: attend_one(a, sources, log_weights))
        return Attended(*jax.lax.map(one, covectors, batch_size=rows))

"""Kernel sums over all pairs: at once for small clouds, block by block when the pairs would not fit in memory."""

from collections.abc import Callable
from typing import ClassVar, final

import equinox as eqx
import jax
from jaxtyping import Array, Float, PyTree

from measureflow.sums.base import AbstractEngine, Attended, KernelSum, attend_one, in_blocks
from measureflow.sums.costs import Cost
from measureflow.sums.registry import register

MANY_PAIRS = 2**22
"""Beyond so many, holding all pairs at once is not worth its memory."""
MOST_PAIRS = 2**28
"""Beyond so many, holding all pairs at once is not possible on many machines."""


@register
@final
class Blockwise(AbstractEngine):
    """Blocks of covectors against all sources, recomputed in the backward pass: at most `pairs` scores exist at once.

    By default they are a million, which stay in the cache of a processor, and sixteen times as many on a GPU.
    """

    exact: ClassVar[bool] = True
    batches: ClassVar[bool] = False
    costs: ClassVar[dict[str, Cost]] = {
        "cpu float32": Cost(6e-5, 8e-10, 3e-11),
        "cpu float64": Cost(6e-5, 1.5e-9, 1e-10),
        "gpu float32": Cost(1e-4, 5.5e-12, 8e-14),
        "gpu float64": Cost(1e-4, 8e-12, 3e-13),
    }
    pairs: int | None = eqx.field(static=True, default=None)

    @classmethod
    def serving(cls, sum: KernelSum) -> "Blockwise":
        """Any sum, on any device."""
        return cls()

    def attend(
        self, covectors: Float[Array, "m d"], sources: Float[Array, "n d"], log_weights: Float[Array, " n"]
    ) -> Attended:
        """The log mass and tilted mean, through blocks of bounded size."""
        return Attended(*self.rows(lambda a: attend_one(a, sources, log_weights), len(sources), covectors))

    def rows(self, row: Callable[..., PyTree[Array]], sources: int, *queries: PyTree[Array]) -> PyTree[Array]:
        """Rows in blocks of the size of this engine."""
        return in_blocks(row, sources, queries, self.pairs)


@register
@final
class Dense(AbstractEngine):
    """All pairs at once: fastest for small clouds, memory `m n`."""

    exact: ClassVar[bool] = True
    batches: ClassVar[bool] = False
    costs: ClassVar[dict[str, Cost]] = {
        "cpu float32": Cost(2e-6, 2.4e-9, 3e-11),
        "cpu float64": Cost(2e-6, 3.4e-9, 1e-10),
        "gpu float32": Cost(1e-5, 6e-12, 1e-13),
        "gpu float64": Cost(1e-5, 1e-11, 2e-13),
    }
    sizes: ClassVar[tuple[int, ...]] = (128, 512, 1024)

    @classmethod
    def serving(cls, sum: KernelSum) -> "Dense | None":
        """Any sum whose pairs fit."""
        return cls() if sum.pairs <= MOST_PAIRS else None

    @classmethod
    def worth(cls, sum: KernelSum) -> bool:
        """Up to many pairs."""
        return sum.pairs <= MANY_PAIRS

    def attend(
        self, covectors: Float[Array, "m d"], sources: Float[Array, "n d"], log_weights: Float[Array, " n"]
    ) -> Attended:
        """The log mass and tilted mean, through one `m x n` array."""
        return Attended(*jax.vmap(attend_one, in_axes=(0, None, None))(covectors, sources, log_weights))

    def rows(self, row: Callable[..., PyTree[Array]], sources: int, *queries: PyTree[Array]) -> PyTree[Array]:
        """All rows at once."""
        return jax.vmap(row)(*queries)

"""Which engine for which sum: decided from shapes while tracing, so that it costs nothing when running."""

import functools
import warnings
from typing import final

import jax
import numpy as np
from jaxtyping import Array, Float, PyTree

from measureflow.sums import native, pallas
from measureflow.sums.base import AbstractEngine, Attended
from measureflow.sums.blockwise import Blockwise, Dense

FEW_PAIRS = 2**14
"""Below this many pairs a foreign call or a loop over blocks costs more than it saves."""


def choose(m: int, n: int, dtype) -> AbstractEngine:
    """The fastest exact engine for `m` covectors and `n` sources on the default device."""
    if m * n <= FEW_PAIRS:
        return Dense()
    if pallas.available() and np.dtype(dtype) == np.float32:
        return pallas.Pallas()
    if jax.default_backend() == "cpu" and np.dtype(dtype) in (np.float32, np.float64):
        if native.available():
            return native.Native()
        _say_once()
    return Blockwise()


@functools.cache
def _say_once() -> None:
    warnings.warn(
        "measureflow: the native kernel is not built, so kernel sums use JAX, which is several times slower on a CPU. "
        "Install again with a C++ compiler on the path to get it.",
        stacklevel=2,
    )


@final
class Auto(AbstractEngine):
    """The engine that `choose` picks for each sum: the default of every measure."""

    def attend(
        self, covectors: Float[Array, "m d"], sources: Float[Array, "n d"], log_weights: Float[Array, " n"]
    ) -> Attended:
        """The log mass and tilted mean, by the chosen engine."""
        return choose(len(covectors), len(sources), covectors.dtype).attend(covectors, sources, log_weights)

    def average(
        self,
        covectors: Float[Array, "m d"],
        offsets: Float[Array, " m"],
        sources: Float[Array, "n d"],
        log_weights: Float[Array, " n"],
        values: Float[Array, "n e"],
    ) -> Float[Array, "m e"]:
        """Averages of other values, by the chosen engine."""
        engine = choose(len(covectors), len(sources), covectors.dtype)
        return engine.average(covectors, offsets, sources, log_weights, values)

    def rows(self, row, sources: int, *queries: PyTree[Array]) -> PyTree[Array]:
        """Other functions of a row, in blocks."""
        return Blockwise().rows(row, sources, *queries)


def name(engine: AbstractEngine, n: int, dtype) -> str:
    """The name of the engine that does the sums of `n` tokens among themselves."""
    return type(choose(n, n, dtype) if isinstance(engine, Auto) else engine).__name__.lower()

"""Which engine for which sum: decided from shapes, space and tolerance while tracing, so that it costs nothing when running."""

import functools
import warnings
from typing import final

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float, PyTree

from measureflow.spaces import AbstractSpace, Sphere
from measureflow.sums import native, pallas
from measureflow.sums.base import AbstractEngine, Attended
from measureflow.sums.blockwise import Blockwise, Dense
from measureflow.sums.costs import costs
from measureflow.sums.fourier import Fourier
from measureflow.sums.harmonics import Harmonics

BELOW_PAIRS = ("fourier", "harmonics")
"""Engines whose work grows more slowly than the pairs, and whose sums have an error of their own."""
FEW_PAIRS, MOST_PAIRS = 2**14, 2**22
"""Up to the first, pairs are held at once unless the native kernel keeps all in registers; beyond the second, never."""
FEWEST_PAIRS = 2**6
"""Up to so many, pairs are always held at once: no kernel is worth its call."""
TOLERANCE, TIGHTEST = 1e-10, 1e-13
"""The error that sums below all pairs may have unless another is asked for, a hundredth of what flows in float64 keep; and
the least that they can have."""


def choose(m: int, n: int, d: int, dtype, spherical: bool = False, tolerance: float | None = None) -> AbstractEngine:
    """The engine with the least predicted time for `m` covectors and `n` sources of `d` coordinates on the default device.

    Engines below all pairs are considered where sources lie on the unit sphere and a tolerance is given.
    """
    in_registers = jax.default_backend() == "cpu" and native.available() and d <= native.IN_REGISTERS
    if m * n <= (FEWEST_PAIRS if in_registers else FEW_PAIRS):
        return Dense()
    if jax.default_backend() == "cpu" and not native.available():
        _say_once()
    known = costs(f"{jax.default_backend()} {np.dtype(dtype).name}")
    ready = applicable(m, n, d, dtype, spherical, tolerance)
    measured = [name for name in ready if name in known]
    return ready[min(measured, key=lambda name: known[name].seconds(m, n, d), default="blockwise")]


def applicable(
    m: int, n: int, d: int, dtype, spherical: bool = False, tolerance: float | None = None
) -> dict[str, AbstractEngine]:
    """The engines that can do a sum on the default device, by name."""
    name, backend = np.dtype(dtype).name, jax.default_backend()
    engines: dict[str, AbstractEngine] = {"blockwise": Blockwise()}
    if m * n <= MOST_PAIRS:
        engines["dense"] = Dense()
    if backend == "cpu" and native.available() and name in ("float32", "float64"):
        engines["native"] = native.Native()
        if spherical and tolerance is not None and d in (2, 3):
            engines |= {"fourier": Fourier(tolerance)} if d == 2 else {"harmonics": Harmonics(tolerance)}
    if pallas.available() and d <= pallas.MOST.get(name, 0):
        engines["pallas"] = pallas.Pallas()
    return engines


@functools.cache
def _say_once() -> None:
    warnings.warn(
        "measureflow: the native kernel is not built, so kernel sums use JAX, which is several times slower on a CPU. "
        "Install again with a C++ compiler on the path to get it.",
        stacklevel=2,
    )


@final
class Auto(AbstractEngine):
    """The engine that `choose` picks for each sum: the default of every measure.

    It knows the error that a sum may have, and whether tokens lie on a unit sphere; with `tolerance` None all sums are over
    all pairs.
    """

    tolerance: float | None = eqx.field(static=True, default=TOLERANCE)
    spherical: bool = eqx.field(static=True, default=False)

    def on(self, space: AbstractSpace) -> "Auto":
        """The same choice for tokens of a space."""
        return Auto(self.tolerance, isinstance(space, Sphere))

    def within(self, tolerance: float | None) -> "Auto":
        """The same choice with sums at least as exact as a tolerance; None, or one that no fast sum keeps, asks for all pairs."""
        if tolerance is None or self.tolerance is None or tolerance < TIGHTEST:
            return Auto(None, self.spherical)
        return self if self.tolerance <= tolerance else Auto(float(10 ** np.floor(np.log10(tolerance))), self.spherical)

    def pick(self, m: int, n: int, d: int, dtype) -> AbstractEngine:
        """The engine of a sum."""
        return choose(m, n, d, dtype, self.spherical, self.tolerance)

    def attend(
        self, covectors: Float[Array, "m d"], sources: Float[Array, "n d"], log_weights: Float[Array, " n"]
    ) -> Attended:
        """The log mass and tilted mean, by the chosen engine."""
        n, d = sources.shape
        engine = self.pick(len(covectors), n, d, covectors.dtype)
        return engine.attend(covectors, sources, log_weights)

    def average(
        self,
        covectors: Float[Array, "m d"],
        offsets: Float[Array, " m"],
        sources: Float[Array, "n d"],
        log_weights: Float[Array, " n"],
        values: Float[Array, "n e"],
    ) -> Float[Array, "m e"]:
        """Averages of other values, by the exact engine that is chosen."""
        n, d = sources.shape
        engine = choose(len(covectors), n, d, covectors.dtype)
        return engine.average(covectors, offsets, sources, log_weights, values)

    def rows(self, row, sources: int, *queries: PyTree[Array]) -> PyTree[Array]:
        """Other functions of a row, in blocks."""
        return Blockwise().rows(row, sources, *queries)


def name(engine: AbstractEngine, n: int, d: int, dtype) -> str:
    """The name of the engine that does the sums of `n` tokens among themselves."""
    return type(engine.pick(n, n, d, dtype) if isinstance(engine, Auto) else engine).__name__.lower()

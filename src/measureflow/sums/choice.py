"""Which engine for which sum: decided from shapes, space and tolerance while tracing, so that it costs nothing when running."""

import functools
import warnings
from typing import ClassVar, final

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float

from measureflow.spaces import AbstractSpace
from measureflow.sums import native
from measureflow.sums.base import FEW_PAIRS, AbstractEngine, Attended, KernelSum
from measureflow.sums.registry import engines, register

TOLERANCE = 1e-10
"""The error that sums below all pairs may have unless another is asked for: a hundredth of what flows in float64 keep."""
TIGHTEST = 1e-13
"""The least error that sums below all pairs can have."""


def choose(sum: KernelSum) -> AbstractEngine:
    """The engine with the least predicted time for a sum on the default device.

    Engines below all pairs are considered where sources lie on the unit sphere and a tolerance is given. Where no cost is
    known, the first engine that does such sums is taken.
    """
    if sum.pairs > FEW_PAIRS and jax.default_backend() == "cpu" and not native.available():
        _say_once()
    ready = [engine for engine in applicable(sum) if engine.worth(sum)]
    known = [
        (cost.seconds(sum.m, sum.n, sum.d), engine)
        for engine in ready
        if (cost := engine.cost(device(sum.dtype))) is not None
    ]
    return min(known, key=lambda pair: pair[0], default=(0.0, ready[0]))[1]


def applicable(sum: KernelSum) -> list[AbstractEngine]:
    """The engines that can do a sum on the default device, worth it or not."""
    made = [kind.serving(sum) for kind in engines() if kind.available()]
    return [engine for engine in made if engine is not None]


def device(dtype) -> str:
    """The kind of the default device in a precision, as costs know it."""
    return f"{jax.default_backend()} {np.dtype(dtype).name}"


@functools.cache
def _say_once() -> None:
    warnings.warn(
        "measureflow: the native kernel is not built, so kernel sums use JAX, which is several times slower on a CPU. "
        "Install again with a C++ compiler on the path to get it.",
        stacklevel=2,
    )


@register
@final
class Auto(AbstractEngine):
    """The engine that `choose` picks for each sum: the default of every measure.

    It knows the error that a sum may have, and whether tokens lie on a unit sphere; with `tolerance` None all sums are over
    all pairs.
    """

    batches: ClassVar[bool] = False
    tolerance: float | None = eqx.field(static=True, default=TOLERANCE)
    spherical: bool = eqx.field(static=True, default=False)

    @property
    def exact(self) -> bool:
        """Whether it chooses among exact engines alone."""
        return self.tolerance is None

    def on(self, space: AbstractSpace) -> "Auto":
        """The same choice for tokens of a space."""
        return Auto(self.tolerance, space.spherical)

    def within(self, tolerance: float | None) -> "Auto":
        """The same choice with sums at least as exact as a tolerance; None, or one that no fast sum keeps, asks for all pairs."""
        if tolerance is None or self.tolerance is None or tolerance < TIGHTEST:
            return Auto(None, self.spherical)
        return self if self.tolerance <= tolerance else Auto(float(10 ** np.floor(np.log10(tolerance))), self.spherical)

    def coarser(self) -> "Auto | None":
        """The same choice with a tenfold error."""
        return None if self.tolerance is None else Auto(10 * self.tolerance, self.spherical)

    def pick(self, sum: KernelSum) -> AbstractEngine:
        """The engine that is chosen for a sum."""
        return choose(sum._replace(spherical=self.spherical, tolerance=self.tolerance))

    def attend(
        self, covectors: Float[Array, "m d"], sources: Float[Array, "n d"], log_weights: Float[Array, " n"]
    ) -> Attended:
        """The log mass and tilted mean, by the chosen engine."""
        return self.pick(KernelSum.of(covectors, sources)).attend(covectors, sources, log_weights)

    def average(
        self,
        covectors: Float[Array, "m d"],
        offsets: Float[Array, " m"],
        sources: Float[Array, "n d"],
        log_weights: Float[Array, " n"],
        values: Float[Array, "n e"],
    ) -> Float[Array, "m e"]:
        """Averages of other values, by the exact engine that is chosen."""
        engine = choose(KernelSum.of(covectors, sources))
        return engine.average(covectors, offsets, sources, log_weights, values)

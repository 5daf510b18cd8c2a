"""Engines whose work grows more slowly than the pairs.

Their sums have an error of their own, relative to the largest mass that a covector could see. Each covector has a bound on
it; those for which it exceeds the tolerance are summed again exactly (`sums.isolated`).
"""

import abc
import dataclasses
from typing import ClassVar

import equinox as eqx
from jaxtyping import Array, Float

from measureflow.sums.base import AbstractEngine, Attended
from measureflow.sums.devices import ALONE, Devices
from measureflow.sums.isolated import resummed


class AbstractFast(AbstractEngine):
    """An engine that approximates sums within a `tolerance`."""

    exact: ClassVar[bool] = False
    batches: ClassVar[bool] = False
    tolerance: eqx.AbstractVar[float]

    @abc.abstractmethod
    def check(self, sources: Float[Array, "n d"]) -> None:
        """Refuse sources that it cannot sum over, and say which engines can."""

    @abc.abstractmethod
    def approximate(
        self, devices: Devices, a: Float[Array, "m d"], y: Float[Array, "n d"], w: Float[Array, " n"]
    ) -> tuple[Array, Array, Array]:
        """Log mass, mean and which covectors miss the tolerance, over the sources of all devices."""

    def coarser(self) -> "AbstractFast | None":
        """The same sums with a tenfold error, while that is small."""
        return dataclasses.replace(self, tolerance=10 * self.tolerance) if self.tolerance < 0.1 else None

    def attend(
        self, covectors: Float[Array, "m d"], sources: Float[Array, "n d"], log_weights: Float[Array, " n"]
    ) -> Attended:
        """The log mass and tilted mean, approximated, and exact where that does not suffice."""
        return self.attend_across(ALONE, covectors, sources, log_weights)

    def attend_across(
        self,
        devices: Devices,
        covectors: Float[Array, "m d"],
        sources: Float[Array, "n d"],
        log_weights: Float[Array, " n"],
    ) -> Attended:
        """The same over the sources of all devices, which send each other sums alone."""
        self.check(sources)
        log_mass, mean, missed = self.approximate(devices, covectors, sources, log_weights)
        return resummed(missed, Attended(log_mass, mean), covectors, sources, log_weights, devices)

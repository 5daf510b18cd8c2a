"""The numbers of an inspected model, read from its run folder alone: arrays by name, intervals, exponents and collapse depths.

Intervals are of 95 percent, by bootstrap over windows of text: windows are what was drawn, and tokens of one window depend on
each other.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy.stats import bootstrap

from measureflow.models.extended_depth import depths_of, settling_depth
from measureflow.models.lipschitz import lengths_of
from measureflow.models.quantities import KINDS, QUANTITIES
from measureflow.models.synthetic_clouds import SYNTHETIC_CLOUDS
from measureflow.models.token_geometry import regrouped
from measureflow.runs.reader import Run
from measureflow.theory.context import critical_sharpness

CROWDED = 0.9
"""A layer that is continued has brought tokens together when their mean overlap stays above this."""


class Interval(NamedTuple):
    """A mean with the ends of its interval."""

    value: float
    low: float
    high: float

    def __format__(self, format: str) -> str:
        return "{:{form}} [{:{form}}, {:{form}}]".format(*self, form=format or ".3g")

    def __str__(self) -> str:
        return f"{self}"


def interval(values: np.ndarray, seed: int = 0) -> Interval:
    """The mean of numbers, one for each window, with its interval; that of a single one is the number itself."""
    good = np.asarray(values, float)[np.isfinite(values)]
    if len(good) < 2 or np.ptp(good) == 0:
        mean = float(good.mean()) if len(good) else float("nan")
        return Interval(mean, mean, mean)
    rng = np.random.default_rng(seed)
    found = bootstrap((good,), np.mean, n_resamples=1000, method="percentile", rng=rng).confidence_interval
    return Interval(float(good.mean()), float(found.low), float(found.high))


@dataclass(frozen=True)
class Inspected:
    """A run of `inspect` as numbers: the quantities of the layers that were reached, as arrays `(layer, ...)` by name."""

    run: Run

    def __getitem__(self, name: str) -> np.ndarray:
        return self.run.data[name].values.astype(float)

    def __contains__(self, name: str) -> bool:
        return name in self.run.data

    @property
    def depth(self) -> int:
        """The number of layers of the model."""
        return self.run.info["frames"] - 1

    @property
    def layers(self) -> np.ndarray:
        """The layers whose attention was looked at."""
        return np.arange(min(self.run.frames, self.depth))

    @property
    def chosen(self) -> np.ndarray:
        """Those whose slopes were measured."""
        return np.flatnonzero(np.isfinite(self["slope"][:, 0, 0]))

    @property
    def lengths(self) -> np.ndarray:
        """Numbers of tokens at which slopes were measured."""
        return lengths_of(self.run.data.sizes["place"])

    @property
    def depths(self) -> np.ndarray:
        """Depths at which a layer that is continued was looked at."""
        return depths_of(self.depth)

    @property
    def tempted(self) -> np.ndarray:
        """`R^2 gamma` of each layer and head, `gamma = max(-l, l/8)` over the real eigenvalues of `A`."""
        gamma = np.maximum(-self["lowest"], self["highest"] / 8)
        return (self["radius"][:, None] ** 2 * gamma)[self.layers]

    @cached_property
    def labels(self) -> dict[str, tuple[str, str]]:
        """The label and format of each quantity that has them: those declared here first, then those of the folder alone."""
        stored = {str(name): array.attrs for name, array in self.run.data.items() if "label" in array.attrs}
        found = {name: one.attributes() for name, one in QUANTITIES.items() if one.label and name in self.run.data}
        every = found | {name: dict(attributes) for name, attributes in stored.items()}
        return {name: (one["label"], one["format"]) for name, one in every.items() if name not in self.run.series}

    def by_kind(self, name: str) -> dict[str, Interval]:
        """A quantity at the last layer where it was measured, for the text, and for the null models where it has the kind.

        It is averaged over all dimensions but the windows.
        """
        array = self.run.data[name].astype(float)
        array = array.mean([dim for dim in array.dims if dim not in ("time", "kind", "window")])
        rows = array.transpose("time", ..., "window", missing_dims="ignore").values.reshape(array.sizes["time"], -1)
        measured = np.flatnonzero(np.isfinite(rows).any(1))
        last = rows[measured[-1] if len(measured) else -1].reshape(array.sizes.get("kind", 1), -1)
        return {kind: interval(row) for kind, row in zip(KINDS, last, strict=False)}

    def exponents(self, name: str) -> np.ndarray:
        """The powers of the number of tokens with which slopes grow, `(layer, window)`; from 16 tokens on if there are enough."""
        lengths = self.lengths
        some = slice(1 if len(lengths) > 3 else 0, None)
        values = np.log(self[name][self.chosen][..., some])
        x = np.log(lengths[some]) - np.log(lengths[some]).mean()
        return (values * x).sum(-1) / (x**2).sum()

    @cached_property
    def growth(self) -> dict[str, Interval]:
        """The exponents of text, of tokens at fixed places, of imitations and of the worst cloud."""
        text = {"as the text grows": "slope_growing", "at fixed places": "slope_placed"}
        found = {word: interval(self.exponents(name).mean(0)) for word, name in text.items()}
        imitated = self.exponents("slope_imitation").mean(0)
        found |= {name: interval(row) for name, row in zip(SYNTHETIC_CLOUDS, imitated, strict=True)}
        return found | {"adversarial": interval(self.exponents("slope_worst"))}

    @cached_property
    def energy_rises(self) -> np.ndarray:
        """Whether the energy rises from layer to layer, `(layer, window)`, beyond rounding."""
        energy = self["energy"][:, 0]
        return np.diff(energy, axis=0) > 1e-6 * energy[:-1]

    @cached_property
    def regrouped(self) -> tuple[np.ndarray, np.ndarray]:
        """The parts of the pairs of tokens that joined and that parted, `(layer, window)`."""
        labels = self["labels"].astype(int)
        each = [regrouped(before, after) for before, after in pairwise(labels)]
        return np.array([one.joined for one in each]), np.array([one.parted for one in each])

    @property
    def sharpness(self) -> tuple[np.ndarray, np.ndarray]:
        """`gamma = beta / log n` of each layer and head, and at each layer the one at which attention turns sharp."""
        n = self.run.data.sizes["place"]
        beta = np.median(self["beta"][self.layers, 0], axis=1)
        overlap = self["overlap"][self.layers, 0].mean(1)
        return beta / np.log(n), np.asarray(critical_sharpness(overlap))

    @cached_property
    def collapses(self) -> np.ndarray:
        """The depth at which tokens have come together under each layer that is continued; infinite where they do not."""
        return np.array([settling_depth(self.depths, row, CROWDED) for row in self["continued"][self.chosen]])

"""What runs know of densities on the circle and on spheres."""

from typing import TYPE_CHECKING, Any

import numpy as np

from measureflow.words.measures.base import AbstractMeasureWord, Arrays, Look, Rules
from measureflow.words.table import Option

if TYPE_CHECKING:
    from measureflow.plotting import Recorded
    from measureflow.words.series import Series
    from measureflow.words.settings import Settings


FOLLOW = {"follow": Option(bool, True, "a density goes on in another form where its moments no longer resolve it")}


class AbstractDensityWord(AbstractMeasureWord):
    """A word for a density on a sphere."""

    def rules(self, config: "Settings") -> Rules:
        """Densities live on spheres."""
        return [(config.space != "sphere", f"`measure` {config.measure} is a density on a sphere: drop `space`")]

    def series(self, look: Look) -> "tuple[Series, ...]":
        """The energy, the length of the mean, and the mass below zero, which tells whether the numbers suffice."""
        from measureflow.diagnostics import order_parameter
        from measureflow.words.series import Series

        watched = () if look.energy is None else (Series("energy", look.energy, look.label),)
        return (
            *watched,
            Series("order", order_parameter, "length of the mean", telling=True),
            Series("negative_mass", lambda mu: mu.negative_mass, "negative mass", drawn=False),
        )


class AbstractRing(AbstractDensityWord):
    """A word for a density on the circle, stored at equally spaced angles."""

    dimensions = {"density": ("angle",)}
    overlay = "circle"
    sizes = ("modes", "cells", "frames_per_leg")

    def numbers(self, config: "Settings") -> float:
        """Stages of a step and the frames of two legs."""
        count = max(config.modes or 0, config.cells or 0)
        return 3.0 * count * (400 + 4 * config.frames_per_leg)

    def rules(self, config: "Settings") -> Rules:
        """The circle has two coordinates."""
        other = (config.dim != 2, f"`measure` {config.measure} has `dim` 2: drop `dim`, or choose `measure` sphere")
        return [*super().rules(config), other]

    def arrays(self, mu: Any) -> Arrays:
        """The density at the nodes."""
        return {"density": mu.values}

    def fixed(self, mu: Any) -> dict[str, tuple[str, np.ndarray]]:
        """The angles."""
        return {"angle": ("angle", mu.grid.angles)}

    def series(self, look: Look) -> "tuple[Series, ...]":
        """Also the number of peaks."""
        from measureflow.words.series import Series

        count = Series("peaks", lambda mu: peaks(np.asarray(mu.values)), "peaks", host=True, counts=True, drawn=False)
        return (*super().series(look), count)

    def figure(self, run: "Recorded", figure: Any = None) -> Any:
        """Rings at four key frames, and the density over time."""
        from measureflow.plotting.density import circle_figure

        return circle_figure(run, figure=figure)

    def draw(self, ax: Any, run: "Recorded", i: int) -> Any:
        """The ring of a frame."""
        from measureflow.plotting.density import draw_ring_with_peak

        return draw_ring_with_peak(ax, run.at(i).values)


def values_in(config: "Settings") -> np.ndarray:
    """The density in the file of the start, as one row."""
    from measureflow.words.files import numbers_in
    from measureflow.words.initial_laws import named

    found = numbers_in(config.init, "init")
    return np.ravel(named(config, "density")["density"] if isinstance(found, dict) else found)


def peaks(values: np.ndarray) -> int:
    """How many maxima a density on a circle has above the uniform one, and above their surroundings by a twentieth."""
    from scipy.signal import find_peaks

    turned = np.roll(values, -int(values.argmin()))  # from the lowest angle, so that no peak lies across the ends
    return len(find_peaks(np.append(turned, turned[0]), height=1 / (2 * np.pi), prominence=values.max() / 20)[0])

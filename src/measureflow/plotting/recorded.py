"""What a figure asks of a run: its times, its measures one by one, what was watched, and a title.

Run folders have all of it, and so may anything else that wants a figure.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from measureflow.annotations import Numbers
from measureflow.flows import Trajectory
from measureflow.plotting.curves import draw_series, draw_steps, mark_blow_up
from measureflow.plotting.marks import INK, PALETTE
from measureflow.plotting.words import wrapped


@runtime_checkable
class Recorded(Protocol):
    """A run as figures see it; a series has `values`, a `label`, and says whether it `counts` and is `drawn`."""

    @property
    def times(self) -> np.ndarray:
        """The times of the frames."""
        ...

    @property
    def series(self) -> Mapping[str, Any]:
        """What was watched, by name."""
        ...

    @property
    def title(self) -> str:
        """The run in a line."""
        ...

    def at(self, i: int) -> Any:
        """The measure of a frame."""
        ...


@dataclass(frozen=True)
class Along:
    """A number along a path, as figures want it."""

    values: Numbers
    label: str
    counts: bool = False
    drawn: bool = True


@dataclass(frozen=True)
class Shown:
    """A path as figures see it, with the curves that go below it."""

    path: Trajectory
    series: Mapping[str, Along]
    title: str = ""

    @property
    def times(self) -> np.ndarray:
        """The times of the frames."""
        return np.asarray(self.path.times)

    def at(self, i: int) -> Any:
        """The measure of a frame."""
        return self.path.at(i)


def drawn_series(run: Recorded) -> list[str]:
    """The names of the series that a figure shows."""
    return [name for name, series in run.series.items() if series.drawn]


def draw_watched(ax: Axes, run: Recorded, name: str, *, marked: tuple[int, ...] = ()) -> Axes:
    """Draw a series of a run over time, whole numbers as steps, and return the axes."""
    series = run.series[name]
    draw = draw_steps if series.counts else draw_series
    return draw(ax, run.times, series.values, series.label, marked=marked, gid=name)


def draw_below(
    figure: Any, run: Recorded, *, marked: tuple[int, ...] = (), blow_up_time: float | None = None
) -> list[Axes]:
    """Draw all series of a run side by side, with a line where it blew up, and return their axes."""
    names = drawn_series(run)
    row = figure.subplots(1, len(names), squeeze=False)[0] if names else []
    axes = [draw_watched(ax, run, name, marked=marked) for ax, name in zip(row, names, strict=True)]
    if blow_up_time is not None and axes:
        axes = [mark_blow_up(ax, blow_up_time) for ax in axes]
        axes[0].set_title(f"blow-up at t = {blow_up_time:.8g}", fontsize=12, color=PALETTE[1])
    return axes


def watched_figure(run: Recorded) -> Figure:
    """A run of which only numbers are known: its series side by side."""
    if not drawn_series(run):
        raise ValueError("There is nothing to draw: no frames were kept, and nothing that was observed is one number.")
    figure = Figure(figsize=(12, 4), dpi=150, layout="constrained")
    draw_below(figure, run)
    figure.suptitle(wrapped(run.title), fontsize=15, color=INK, parse_math=False)
    return figure

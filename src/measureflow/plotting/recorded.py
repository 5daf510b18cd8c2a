"""What tables and figures ask of a run (`Recorded`), and anything else in that shape (`Record`)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from measureflow.annotations import Numbers
from measureflow.plotting.curves import draw_series, draw_steps, mark_blow_up
from measureflow.plotting.marks import INK, PALETTE
from measureflow.plotting.words import wrapped


@runtime_checkable
class Recorded(Protocol):
    """Measures over time as tables and pictures see them: those of a run folder, or of a path in memory.

    A series has `values`, a `label`, and says whether it `counts` and is `drawn`. `look` says how measures are looked at, `stats`
    has the numbers that the flow told, and `word_name` is the word for the measure.
    """

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

    @property
    def stats(self) -> dict[str, Any]:
        """What the flow told beside its frames: steps, error, blow-up time."""
        ...

    @property
    def look(self) -> Any:
        """How the measures are looked at."""
        ...

    @property
    def word_name(self) -> str:
        """The word for the measure."""
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
class Record:
    """A path or a run as tables and pictures see it, with the curves, the title and the frame of reference that are asked for.

    `seen` is what is shown of a measure at a time: the measure itself unless given.
    """

    source: Any
    series: Mapping[str, Any]
    title: str = ""
    look: Any = None
    word_name: str = ""
    seen: Callable[[Any, float], Any] = lambda mu, t: mu

    @property
    def times(self) -> np.ndarray:
        """The times of the frames."""
        return np.asarray(self.source.times)

    @property
    def stats(self) -> dict[str, Any]:
        """What the flow told beside its frames."""
        return self.source.stats

    def at(self, i: int) -> Any:
        """The measure of a frame, as it is shown."""
        return self.seen(self.source.at(i), float(self.times[i]))


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

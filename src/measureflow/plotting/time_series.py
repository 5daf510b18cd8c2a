"""Numbers over time: curves, steps, and the frames between which most of the change happens."""

from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator, ScalarFormatter

from measureflow import checks
from measureflow.annotations import Numbers
from measureflow.plotting.captions import write_title
from measureflow.plotting.colours import FAINT, INK, PALETTE
from measureflow.plotting.layout import AnyFigure, page
from measureflow.plotting.record import Recorded, drawn_series
from measureflow.plotting.scales import is_wide, log_scale

LABEL_LETTERS = 30
"""Letters of a label that fit beside a curve in one line."""


@dataclass(frozen=True)
class TimeSeries:
    """A number at each frame of a path, with the label of its axis; `counts` says that it is a whole number, drawn as steps."""

    values: Numbers
    label: str
    counts: bool = False
    drawn: bool = True


def key_frames(series: Numbers) -> tuple[int, ...]:
    """The first and last frame and two between: where a third and two thirds of the change have happened.

    The change is the way the series (an energy, or a number of clusters) has travelled up and down, in logarithms
    where `draw_series` draws logarithms. Indices increase strictly; with fewer than four frames they are all of them.
    For `[0, 1, 2, 3, 3, 3]` they are 0, 1, 2 and 5.
    """
    checks.shaped("series", series, ("k",), "One number for each frame.")
    k = np.size(series)
    if k < 4:
        return tuple(range(k))
    steps = np.abs(np.diff(_as_drawn(series), prepend=np.nan))
    way = np.cumsum(np.where(np.isfinite(steps), steps, 0.0))
    way = way / way[-1] if way[-1] > 0 else np.linspace(0, 1, k)
    second = min(max(int(np.argmax(way >= 1 / 3 - 1e-12)), 1), k - 3)
    third = min(max(int(np.argmax(way >= 2 / 3 - 1e-12)), second + 1), k - 2)
    return 0, second, third, k - 1


def run_key_frames(run: Recorded) -> tuple[int, ...]:
    """The key frames of the first series of a run that is drawn; evenly spaced frames where none is."""
    names = drawn_series(run)
    return key_frames(run.series[names[0]].values if names else np.arange(len(run.times)))


def draw_energy(ax: Axes, times: Numbers, energy: Numbers, *, marked: tuple[int, ...] = ()) -> Axes:
    """Draw the interaction energy against time, with thin lines at the marked frames, and return the axes."""
    return draw_series(ax, times, energy, "interaction energy E", marked=marked, gid="energy")


def draw_series(
    ax: Axes, times: Numbers, series: Numbers, name: str, *, marked: tuple[int, ...] = (), gid: str = "series"
) -> Axes:
    """Draw a number against time and return the axes: in logarithms if it spans decades, with thin lines at the marked frames.

    `name` is the label of the vertical axis, and `gid` the name by which matplotlib finds the curve again.
    """
    times, series = np.asarray(times, float), np.asarray(series, float)
    ax.plot(times, series, color=INK, linewidth=2.2, marker="o" if len(times) == 1 else None, gid=gid)
    if is_wide(series):
        log_scale(ax, series)
    else:
        ax.yaxis.set_major_formatter(ScalarFormatter(useMathText=True))
    label_time_axes(ax, times, name, marked)
    ax.plot(times[list(marked)], series[list(marked)], "o", color=INK, markersize=6, markeredgecolor="white")
    return ax


def draw_steps(
    ax: Axes, times: Numbers, counts: Numbers, name: str, *, marked: tuple[int, ...] = (), gid: str = "counts"
) -> Axes:
    """Draw a whole number against time as steps, with thin lines at the marked frames, and return the axes."""
    times, counts = np.asarray(times, float), np.asarray(counts, float)
    ax.step(times, counts, where="post", color=INK, linewidth=2.2, gid=gid)
    if is_wide(counts):
        ax.set_yscale("log")
        ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if np.nanmax(counts) < 2000 else (1.0,)))
        ax.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
        ax.yaxis.set_minor_locator(NullLocator())
        ax.set_ylim(0.8 * np.nanmin(counts), 1.3 * np.nanmax(counts))
    else:
        ax.yaxis.set_major_locator(MaxNLocator(6, integer=True))
        top = 1.1 * max(np.nanmax(counts), 1.0) + 0.5
        ax.set_ylim(-0.04 * top, top)  # a dot at zero is not cut
    label_time_axes(ax, times, name, marked)
    ax.plot(times[list(marked)], counts[list(marked)], "o", color=INK, markersize=6, markeredgecolor="white")
    ax.annotate(
        f"{counts[-1]:g}", (times[-1], counts[-1]), xytext=(9, 0), textcoords="offset points", va="center",
        fontsize=12, color=INK, annotation_clip=False,
    )  # fmt: skip
    return ax


def label_time_axes(ax: Axes, times: np.ndarray, name: str, marked: tuple[int, ...] = ()) -> None:
    """Label the axes of a curve over time, with thin lines at the marked frames."""
    ax.set_xlabel("time t", fontsize=13, color=INK)
    # What stands in brackets goes on a line of its own: a curve is lower than a long name.
    ax.set_ylabel(name if len(name) <= LABEL_LETTERS else name.replace(" (", "\n("), fontsize=13, color=INK)
    ax.tick_params(labelsize=11, colors=INK)
    ax.yaxis.get_offset_text().set(fontsize=11, color=INK)
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color(FAINT)
    ax.grid(axis="y", color="#E8EAEE", linewidth=0.8)
    ax.set_axisbelow(True)
    room = 0.015 * (times[-1] - times[0]) or 1.0
    ax.set_xlim(times[0] - room, times[-1] + room)
    for i in marked:
        ax.axvline(times[i], color=FAINT, linewidth=0.9, linestyle=(0, (4, 3)), zorder=1, gid="marked")


def mark_blow_up(ax: Axes, time: float) -> Axes:
    """Draw a dashed line at the time at which a flow blows up, and return the axes."""
    first, last = ax.get_xlim()
    ax.set_xlim(first, max(last, time + 0.03 * (time - first)))
    ax.axvline(time, color=PALETTE[1], linestyle="--", linewidth=1.6, gid="blow-up")
    return ax


def draw_run_series(ax: Axes, run: Recorded, name: str, *, marked: tuple[int, ...] = ()) -> Axes:
    """Draw one series of a run over time, whole numbers as steps, and return the axes."""
    series = run.series[name]
    draw = draw_steps if series.counts else draw_series
    return draw(ax, run.times, series.values, series.label, marked=marked, gid=name)


def draw_series_row(
    figure: FigureBase, run: Recorded, *, marked: tuple[int, ...] = (), blow_up_time: float | None = None
) -> list[Axes]:
    """Draw all series of a run side by side, with a line where it blew up, and return their axes."""
    names = drawn_series(run)
    row = figure.subplots(1, len(names), squeeze=False)[0] if names else []
    axes = [draw_run_series(ax, run, name, marked=marked) for ax, name in zip(row, names, strict=True)]
    if blow_up_time is not None and axes:
        axes = [mark_blow_up(ax, blow_up_time) for ax in axes]
        axes[0].set_title(f"blow-up at t = {blow_up_time:.8g}", fontsize=12, color=PALETTE[1])
    return axes


def series_figure(run: Recorded, *, figure: AnyFigure | None = None) -> AnyFigure:
    """Draw the series of a run side by side, for a run that kept no frames."""
    if not drawn_series(run):
        raise ValueError("There is nothing to draw: no frames were kept, and nothing that was observed is one number.")
    figure = page(figure, 12, 4)
    draw_series_row(figure, run)
    write_title(figure, run.title)
    return figure


def _as_drawn(series: Numbers) -> np.ndarray:
    """A series in the units of its axis, up to a factor; what cannot be drawn is not a number."""
    values = np.where(np.isfinite(series), series, np.nan)
    if is_wide(values):
        return np.log10(values)
    size = np.abs(values[np.isfinite(values)]).max(initial=0.0)
    return values / size if size > 0 else values

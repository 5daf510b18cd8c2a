"""Numbers over time: curves, steps, and the frames at which most happens."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator, ScalarFormatter

from measureflow import checks
from measureflow.annotations import Numbers
from measureflow.plotting.marks import FAINT, INK, PALETTE

DECADES = 1.3
"""A positive series that spans more powers of ten than this is drawn, and its progress measured, in logarithms."""


LETTERS = 30
"""Letters of a name that fit beside a curve."""

LINEAR, TICKS = 1.0, 9
"""Of a scale that is linear about zero: the width of that part, in powers of ten, and most ticks."""


def telling_frames(series: Numbers) -> tuple[int, ...]:
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


def draw_energy(ax: Axes, times: Numbers, energy: Numbers, *, marked: tuple[int, ...] = ()) -> Axes:
    """Draw the interaction energy against time, with thin lines at the marked frames, and return the axes."""
    return draw_series(ax, times, energy, "interaction energy E", marked=marked, gid="energy")


def draw_series(
    ax: Axes, times: Numbers, series: Numbers, name: str, *, marked: tuple[int, ...] = (), gid: str = "series"
) -> Axes:
    """Draw a number against time, in logarithms if it spans decades; thin lines at the marked frames. Return the axes."""
    times, series = np.asarray(times, float), np.asarray(series, float)
    ax.plot(times, series, color=INK, linewidth=2.2, marker="o" if len(times) == 1 else None, gid=gid)
    if is_wide(series):
        log_scale(ax, series)
    else:
        ax.yaxis.set_major_formatter(ScalarFormatter(useMathText=True))
    dress(ax, times, name, marked)
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
    dress(ax, times, name, marked)
    ax.plot(times[list(marked)], counts[list(marked)], "o", color=INK, markersize=6, markeredgecolor="white")
    ax.annotate(
        f"{counts[-1]:g}", (times[-1], counts[-1]), xytext=(9, 0), textcoords="offset points", va="center",
        fontsize=12, color=INK, annotation_clip=False,
    )  # fmt: skip
    return ax


def dress(ax: Axes, times: np.ndarray, name: str, marked: tuple[int, ...]) -> None:
    """Give a curve over time its axes, with thin lines at the marked frames."""
    ax.set_xlabel("time t", fontsize=13, color=INK)
    # What stands in brackets goes on a line of its own: a curve is lower than a long name.
    ax.set_ylabel(name if len(name) <= LETTERS else name.replace(" (", "\n("), fontsize=13, color=INK)
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
    """Draw a dashed line where a flow over time ends because it blows up, and return the axes."""
    first, last = ax.get_xlim()
    ax.set_xlim(first, max(last, time + 0.03 * (time - first)))
    ax.axvline(time, color=PALETTE[1], linestyle="--", linewidth=1.6, gid="blow-up")
    return ax


def is_wide(series: Numbers) -> bool:
    """Whether a series is positive and spans so many powers of ten that it needs logarithms."""
    seen = np.asarray(series, float)
    seen = seen[np.isfinite(seen)]
    return bool(seen.size and seen.min() > 0 and np.log10(seen.max()) - np.log10(seen.min()) > DECADES)


def log_scale(ax: Axes, series: np.ndarray) -> None:
    """A logarithmic axis with limits and ticks of our own, since matplotlib's overflow where energies nearly do."""
    logs = np.log10(series[np.isfinite(series)])
    room = 0.05 * np.ptp(logs)
    low, high = np.clip([logs.min() - room, logs.max() + room], -300, 300)
    ax.set_ylim(10.0**low, 10.0**high)  # before the scale, which would otherwise look for limits
    ax.set_yscale("log")
    if high - low > 3:
        powers = MaxNLocator(6, integer=True, steps=[1, 2, 3, 5, 10]).tick_values(low, high)
        ax.yaxis.set_major_locator(FixedLocator(10.0 ** powers[(low <= powers) & (powers <= high)]))
    else:
        ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        ax.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
    ax.yaxis.set_minor_locator(NullLocator())


def symmetric_scale(ax: Axes, across: str, values: Numbers, linear: float) -> None:
    """Make a direction, `x` or `y`, linear up to a size and logarithmic beyond, with ticks that leave room for their words."""
    seen = np.append(np.asarray(values, float), 0.0)
    below, above = _along(-seen.min(), linear), _along(seen.max(), linear)
    room = (below + above) / TICKS
    ticks = [0.0, *_powers(above, linear, room), *(-power for power in _powers(below, linear, room))]
    getattr(ax, f"set_{across}scale")("symlog", linthresh=linear, linscale=LINEAR)
    getattr(ax, f"set_{across}lim")(-_size(below + room / 3, linear), _size(above + room / 3, linear))
    axis = ax.xaxis if across == "x" else ax.yaxis
    axis.set_major_locator(FixedLocator(ticks))
    axis.set_minor_locator(NullLocator())


def _along(size: float, linear: float) -> float:
    """How far from zero a size is drawn on a symmetric scale, in powers of ten."""
    part = size / linear
    return float(LINEAR * part if part <= 1 else LINEAR + np.log10(part))


def _size(along: float, linear: float) -> float:
    """The size at a place of a symmetric scale."""
    return linear * (along / LINEAR if along <= LINEAR else 10.0 ** min(along - LINEAR, 300.0))


def _powers(end: float, linear: float, room: float) -> list[float]:
    """The powers of ten up to an end of a symmetric scale that have room between them and zero."""
    found, free = [], room
    for power in 10.0 ** np.arange(np.ceil(np.log10(linear)), np.log10(_size(end, linear) + linear)):
        if free <= (place := _along(power, linear)) <= end:
            found, free = [*found, float(power)], place + room
    return found


def _as_drawn(series: Numbers) -> np.ndarray:
    """A series in the units of its axis, up to a factor; what cannot be drawn is not a number."""
    values = np.where(np.isfinite(series), series, np.nan)
    if is_wide(values):
        return np.log10(values)
    size = np.abs(values[np.isfinite(values)]).max(initial=0.0)
    return values / size if size > 0 else values

"""Logarithmic and symmetric axes, with ticks that leave room for their numbers."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator

from measureflow.annotations import Numbers

LINEAR_DECADES = 1.3
"""Positive numbers that span more powers of ten than this are drawn in logarithms."""

LINEAR_WIDTH = 1.0
"""The width of the linear part of a symmetric scale, in powers of ten."""

MOST_TICKS = 9
"""The most ticks of a symmetric scale."""


def is_wide(series: Numbers) -> bool:
    """Whether a series is positive and spans so many powers of ten that it needs logarithms."""
    seen = np.asarray(series, float)
    seen = seen[np.isfinite(seen)]
    return bool(seen.size and seen.min() > 0 and np.log10(seen.max()) - np.log10(seen.min()) > LINEAR_DECADES)


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
    """Make a direction, `x` or `y`, linear up to a size and logarithmic beyond, with ticks that leave room for their numbers."""
    seen = np.append(np.asarray(values, float), 0.0)
    below, above = _along(-seen.min(), linear), _along(seen.max(), linear)
    room = (below + above) / MOST_TICKS
    ticks = [0.0, *_powers(above, linear, room), *(-power for power in _powers(below, linear, room))]
    getattr(ax, f"set_{across}scale")("symlog", linthresh=linear, linscale=LINEAR_WIDTH)
    getattr(ax, f"set_{across}lim")(-_size(below + room / 3, linear), _size(above + room / 3, linear))
    axis = ax.xaxis if across == "x" else ax.yaxis
    axis.set_major_locator(FixedLocator(ticks))
    axis.set_minor_locator(NullLocator())


def _along(size: float, linear: float) -> float:
    """How far from zero a size is drawn on a symmetric scale, in powers of ten."""
    part = size / linear
    return float(LINEAR_WIDTH * part if part <= 1 else LINEAR_WIDTH + np.log10(part))


def _size(along: float, linear: float) -> float:
    """The size at a place of a symmetric scale."""
    return linear * (along / LINEAR_WIDTH if along <= LINEAR_WIDTH else 10.0 ** min(along - LINEAR_WIDTH, 300.0))


def _powers(end: float, linear: float, room: float) -> list[float]:
    """The powers of ten up to an end of a symmetric scale that have room between them and zero."""
    found, free = [], room
    for power in 10.0 ** np.arange(np.ceil(np.log10(linear)), np.log10(_size(end, linear) + linear)):
        if free <= (place := _along(power, linear)) <= end:
            found, free = [*found, float(power)], place + room
    return found


def plain_ticks(axis: Axis) -> None:
    """Write plain numbers along a logarithmic direction that spans less than two powers of ten."""
    low, high = axis.get_view_interval()
    if high < 100 * low:
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high > 6 * low else (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_locator(NullLocator())

"""Matrices as tables of colours, and counts as bars."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from measureflow import checks
from measureflow.annotations import Numbers
from measureflow.plotting.colours import FAINT, INK, PALETTE
from measureflow.plotting.layout import label_axes

MOST_WRITTEN_ROWS = 8
"""Tables with at most so many rows and columns have their numbers written in."""


def draw_table(
    ax: Axes, values: Numbers, title: str = "", *, top: float | None = None, names: tuple[str, str] = ("", "")
) -> Axes:
    """Draw a matrix of numbers, from white at zero to dark at `top` or the largest, and return the axes.

    `names` are those of columns and rows. Entries that are not numbers stay empty; small tables show their numbers.
    """
    values = np.asarray(values, float)
    checks.shaped("values", values, ("rows", "columns"), "A table has two directions.")
    top = float(np.nanmax(values)) if top is None else top
    ax.imshow(np.ma.masked_invalid(values), cmap="Blues", vmin=0.0, vmax=top or 1.0, aspect="equal", gid="table")
    if max(values.shape) <= MOST_WRITTEN_ROWS:
        for (i, j), value in np.ndenumerate(values):
            if np.isfinite(value):
                colour = "white" if value > 0.6 * top else INK
                ax.text(j, i, f"{value:.2f}", ha="center", va="center", fontsize=9, color=colour)
    ax.set(xticks=[], yticks=[])
    label_axes(ax, *names, title)
    ax.spines[:].set(visible=True, color=FAINT)
    return ax


def draw_counts(ax: Axes, places: Sequence[int], counts: Mapping[str, Numbers], across: str, title: str = "") -> Axes:
    """Draw counts at whole numbers as groups of bars, one for each name, and return the axes."""
    width = 0.8 / len(counts)
    for i, (name, values) in enumerate(counts.items()):
        offset = (i - (len(counts) - 1) / 2) * width
        values = np.asarray(values)
        bars = ax.bar(np.asarray(places) + offset, values, 0.92 * width, color=PALETTE[i], label=name, gid="bar")
        ax.bar_label(bars, [f"{count}" if count else "" for count in values], fontsize=9, color=INK)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.margins(y=0.4)  # room for the legend
    ax.legend(frameon=False, fontsize=10, labelcolor=INK, loc="upper left")
    return label_axes(ax, across, "draws", title)

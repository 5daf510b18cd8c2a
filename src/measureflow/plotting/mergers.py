"""Groups of tokens that become one, as a tree over time."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import NullLocator

from measureflow.plotting.colours import INK, PALETTE
from measureflow.plotting.layout import AnyFigure, label_axes, panels


def draw_mergers(ax: Axes, times: np.ndarray, pairs: np.ndarray, groups: int, end: float, *, log: bool = False) -> Axes:
    """Draw the tree of mergers over time and return the axes: each group is a line until it becomes part of another.

    The arguments are those parts of a `diagnostics.Mergers`; groups that are left at the end have a colour each.
    """
    made = dict(enumerate(pairs.tolist(), groups))
    roots = sorted(set(range(groups + len(pairs))) - {part for pair in pairs.tolist() for part in pair})
    first = float(times[0]) if len(times) else end
    left = min(first, end) / 3 if log else 0.0
    place = 0

    def draw(group: int, until: float, colour: str) -> float:
        nonlocal place
        if group not in made:
            height, since = float(place), left
            place += 1
        else:
            since = float(times[group - groups])
            ends = [draw(part, since, colour) for part in made[group]]
            ax.plot([since, since], ends, color=colour, linewidth=1.4)
            height = float(np.mean(ends))
        ax.plot([since, until], [height, height], color=colour, linewidth=1.4)
        return height

    for i, root in enumerate(roots):
        draw(root, end, PALETTE[i % len(PALETTE)] if len(roots) > 1 else INK)
    if log:
        ax.set_xscale("log")
    ax.set_xlim(left, end)
    ax.yaxis.set_major_locator(NullLocator())
    return label_axes(ax, "time t", "tokens")


def mergers_figure(
    times: np.ndarray,
    pairs: np.ndarray,
    groups: int,
    end: float,
    *,
    log: bool = False,
    figure: AnyFigure | None = None,
) -> AnyFigure:
    """Draw the tree of mergers on a figure; the arguments are those of `draw_mergers`."""
    figure, (ax,) = panels(width=6.4, height=4.4, figure=figure)
    draw_mergers(ax, times, pairs, groups, end, log=log)
    return figure

"""The paths of tokens in the plane and over time, convex hulls, and regions of the plane."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgb
from matplotlib.patches import Polygon
from scipy.spatial import ConvexHull

from measureflow import checks
from measureflow.annotations import Numbers
from measureflow.plotting.colours import FAINT, INK, PALETTE, cluster_colours
from measureflow.plotting.layout import label_axes
from measureflow.plotting.scales import symmetric_scale
from measureflow.plotting.time_series import label_time_axes

LARGEST_LINEAR_GROWTH = 20.0
"""A cloud that grows by more than this factor is drawn in logarithms."""

THIN_LINES = {"color": FAINT, "linewidths": 0.8, "alpha": 0.7}


def draw_paths(ax: Axes, paths: Numbers, *, title: str = "", names: tuple[str, str] = ("x₁", "x₂")) -> Axes:
    """Draw the paths of tokens, `(times, tokens, 2)`, as grey lines from an open marker to a full one, and return the axes."""
    paths = np.asarray(paths, float)
    checks.shaped("paths", paths, ("k", "n", 2), "Times, tokens, coordinates.")
    ax.add_collection(LineCollection(list(paths.transpose(1, 0, 2)), zorder=1.5, gid="paths", **THIN_LINES))
    ax.scatter(*paths[0].T, s=16, facecolors="white", edgecolors=FAINT, linewidths=0.9, zorder=2, gid="starts")
    ax.scatter(*paths[-1].T, s=34, color=PALETTE[1], edgecolors="white", linewidths=0.6, zorder=3, gid="ends")
    ax.set_aspect("equal", adjustable="datalim")
    ax.autoscale_view()
    ax.margins(0.08)
    return label_axes(ax, *names, title)


def draw_over_time(
    ax: Axes, times: Numbers, places: Numbers, *, labels: Numbers | None = None, letter: str = "x"
) -> Axes:
    """Draw tokens on a line over time, `places` of shape `(times, tokens)`, coloured by cluster, and return the axes.

    Where the cloud grows far beyond its first width, the axis is logarithmic outside that width.
    """
    times, places = np.asarray(times, float), np.asarray(places, float)
    checks.shaped("places", places, (len(times), "n"), "One place of each token for each time.")
    n = places.shape[1]
    colours = cluster_colours(np.zeros(n, int) if labels is None else labels)
    ways = [np.stack([times, way], -1) for way in places.T]
    width = float(np.clip(60 / n, 0.6, 1.6))
    ax.add_collection(LineCollection(ways, colors=list(colours), linewidths=width, alpha=0.85, zorder=2, gid="ways"))
    first, last = np.abs(places[0]).max(), np.abs(places).max()
    low, high = places.min(), places.max()
    if last > LARGEST_LINEAR_GROWTH * first > 0:
        symmetric_scale(ax, "y", [low, high], float(first))
    else:
        room = 0.06 * ((high - low) or 1.0)
        ax.set_ylim(low - room, high + room)
    label_time_axes(ax, times, letter)
    return ax


def draw_hull(ax: Axes, points: Numbers, *, filled: bool = False) -> Axes:
    """Draw the convex hull of points `(n, 2)`, dashed or filled, and return the axes."""
    points = np.asarray(points, float)
    corners = points[ConvexHull(points).vertices]
    look = (
        {"facecolor": "#DCE9F4", "edgecolor": PALETTE[0], "linewidth": 1.6}
        if filled
        else {"fill": False, "edgecolor": INK, "linewidth": 1.0, "linestyle": (0, (4, 3))}
    )
    ax.add_patch(Polygon(corners, zorder=1, gid="hull", **look))
    return ax


def draw_regions(
    ax: Axes, across: Numbers, up: Numbers, regions: Numbers, *, points: Numbers, labels: Numbers, title: str = ""
) -> Axes:
    """Colour regions of the plane, and points `(n, 2)` by the regions that their labels `(n,)` name. Return the axes.

    `regions` `(len(up), len(across))` are the numbers of the regions on a grid, with -1 where there is none.
    """
    across, up, regions, points = (np.asarray(part) for part in (across, up, regions, points))
    checks.shaped("regions", regions, (len(up), len(across)), "One region for each place of the grid.")
    checks.shaped("labels", labels, (len(points),), "One region for each point.")
    palette = np.array([to_rgb(colour) for colour in PALETTE])
    of = lambda numbers: palette[np.asarray(numbers) % len(PALETTE)]  # noqa: E731
    pale = np.where(regions[..., None] < 0, 1.0, 0.8 + 0.2 * of(regions))
    extent = (across[0], across[-1], up[0], up[-1])
    ax.imshow(pale, origin="lower", extent=extent, aspect="equal", zorder=0, interpolation="nearest", gid="regions")
    ax.scatter(*points.T, s=22, c=of(labels), edgecolors="white", linewidths=0.4, zorder=2, gid="points")
    return label_axes(ax, "x₁", "x₂", title)

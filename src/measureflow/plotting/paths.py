"""The ways of tokens in the plane, with the hulls that hold them."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgb
from matplotlib.patches import Polygon
from scipy.spatial import ConvexHull

from measureflow import checks
from measureflow.annotations import Numbers
from measureflow.plotting.curves import dress as dress_over_time
from measureflow.plotting.curves import symmetric_scale
from measureflow.plotting.laws import dress
from measureflow.plotting.marks import FAINT, INK, PALETTE, cluster_colours

WIDE = 20.0
"""A cloud that grows by more than this factor is drawn in logarithms."""

THIN = {"color": FAINT, "linewidths": 0.8, "alpha": 0.7}


def draw_paths(ax: Axes, paths: Numbers, *, title: str = "", names: tuple[str, str] = ("x₁", "x₂")) -> Axes:
    """Draw the ways of tokens, `paths` of shape `(times, tokens, 2)`: grey from open marks to full ones. Return the axes."""
    paths = np.asarray(paths, float)
    checks.shaped("paths", paths, ("k", "n", 2), "Times, tokens, coordinates.")
    ax.add_collection(LineCollection(list(paths.transpose(1, 0, 2)), zorder=1.5, gid="paths", **THIN))
    ax.scatter(*paths[0].T, s=16, facecolors="white", edgecolors=FAINT, linewidths=0.9, zorder=2, gid="starts")
    ax.scatter(*paths[-1].T, s=34, color=PALETTE[1], edgecolors="white", linewidths=0.6, zorder=3, gid="ends")
    ax.set_aspect("equal", adjustable="datalim")
    ax.autoscale_view()
    ax.margins(0.08)
    return dress(ax, *names, title)


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
    if last > WIDE * first > 0:
        symmetric_scale(ax, "y", [low, high], float(first))
    else:
        room = 0.06 * ((high - low) or 1.0)
        ax.set_ylim(low - room, high + room)
    dress_over_time(ax, times, letter, ())
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


def draw_cells(
    ax: Axes, across: Numbers, up: Numbers, cells: Numbers, *, points: Numbers, labels: Numbers, title: str = ""
) -> Axes:
    """Colour the plane by cells, and points `(n, 2)` by the cells that their labels `(n,)` name. Return the axes.

    `cells` `(len(up), len(across))` are numbers on a grid, with -1 where there is none.
    """
    across, up, cells, points = (np.asarray(part) for part in (across, up, cells, points))
    checks.shaped("cells", cells, (len(up), len(across)), "One cell for each place of the grid.")
    checks.shaped("labels", labels, (len(points),), "One cell for each point.")
    palette = np.array([to_rgb(colour) for colour in PALETTE])
    of = lambda numbers: palette[np.asarray(numbers) % len(PALETTE)]  # noqa: E731
    pale = np.where(cells[..., None] < 0, 1.0, 0.8 + 0.2 * of(cells))
    extent = (across[0], across[-1], up[0], up[-1])
    ax.imshow(pale, origin="lower", extent=extent, aspect="equal", zorder=0, interpolation="nearest", gid="cells")
    ax.scatter(*points.T, s=22, c=of(labels), edgecolors="white", linewidths=0.4, zorder=2, gid="points")
    return dress(ax, "x₁", "x₂", title)

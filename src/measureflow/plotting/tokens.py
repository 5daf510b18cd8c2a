"""A cloud of tokens, drawn in the way of its space.

Everything is drawn on ordinary axes by our own orthogonal projection, three dimensions included: then the layout knows
how large a picture is, front and back are ours to draw, and any axes will do.
"""

import numpy as np
from matplotlib.axes import Axes

from measureflow import checks
from measureflow.annotations import Numbers
from measureflow.plotting.backdrops import BACK, FRONT, GLASS_TONE, backdrop
from measureflow.plotting.colours import cluster_colours
from measureflow.plotting.markers import areas, smallest_area
from measureflow.plotting.view import View, cloud, view_of
from measureflow.spaces import AbstractSpace

GOLDEN_RATIO = (np.sqrt(5) - 1) / 2
"""Multiples of the golden ratio spread evenly over an interval, however many there are."""


def draw_tokens(
    ax: Axes,
    points: Numbers,
    space: AbstractSpace,
    *,
    labels: Numbers | None = None,
    colours: Numbers | None = None,
    weights: Numbers | None = None,
    view: View | None = None,
    scale: float | int = 1,
) -> Axes:
    """Draw one frame of tokens `(n, dim)` on the axes and return them.

    Colours go by cluster label unless given, `(n, 3)`. The area of a mark grows with the mass of the tokens that lie
    together, so a cluster of coinciding tokens stays visible; `scale` is the width of the picture in units of three
    inches. Pass the `view` of the whole run (`view_of`) to compare frames.
    """
    if ax.name == "3d":
        raise ValueError("`ax` must be ordinary axes: `draw_tokens` projects by itself. Leave out `projection='3d'`.")
    points = cloud(points, space.dim)
    n = len(points)
    view = view_of(points, space) if view is None else view
    places = view.place(points)
    area = areas(places, view.reach, _column("weights", weights, n))
    if space.dim == 1:  # a line has no second direction: tokens are spread over the height, and clusters are bars
        places[:, 1] = 0.5 if n == 1 else (0.5 + GOLDEN_RATIO * np.arange(n)) % 1.0
        area = np.full(n, smallest_area(n))
    backdrop(ax, space, view, scale)
    depth = (places[:, 2] - view.middle[2]) / view.reach if space.dim == 3 else np.zeros(n)
    edge = 0.35 * scale if n <= (100 if space.spherical and space.dim == 2 else 1000) else 0.0
    _marks(ax, places[:, :2], depth >= 0, scale**2 * area, _veiled(_colours(labels, colours, n), depth, space), edge)
    return ax


def _column(name: str, values: Numbers | None, n: int) -> np.ndarray | None:
    if values is not None:
        checks.shaped(name, values, (n,), "There is one for each token.")
    return None if values is None else np.asarray(values)


def _colours(labels: Numbers | None, colours: Numbers | None, n: int) -> np.ndarray:
    if colours is not None:
        checks.shaped("colours", colours, (n, 3), "Red, green and blue between 0 and 1 for each token.")
        return np.asarray(colours, float)
    labels = _column("labels", labels, n)
    return cluster_colours(np.zeros(n, int) if labels is None else labels)


def _veiled(colour: np.ndarray, depth: np.ndarray, space: AbstractSpace) -> np.ndarray:
    """Colours of tokens further away, mixed with the backdrop: a haze that does not add up when tokens coincide."""
    if space.dim != 3:
        return colour
    if space.spherical:
        clear = np.interp(depth, [-1.0, -0.15, 0.0], [0.3, 0.38, 1.0])[:, None]
        return clear * colour + (1 - clear) * np.array(GLASS_TONE)
    clear = np.interp(depth, [-1.2, 0.8], [0.4, 1.0])[:, None]
    return clear * colour + (1 - clear)


def _marks(ax: Axes, places: np.ndarray, before: np.ndarray, area: np.ndarray, colour: np.ndarray, edge: float) -> None:
    """Two layers of marks, before and behind the middle; in each the small ones come last, so that none is hidden."""
    for layer, chosen in ((BACK, ~before), (FRONT, before)):
        which = np.flatnonzero(chosen)
        which = which[np.argsort(-area[which], kind="stable")]
        ax.scatter(
            *places[which].T, s=area[which], c=colour[which], edgecolors="white", linewidths=edge, alpha=0.92,
            zorder=layer, gid="tokens", clip_on=False,
        )  # fmt: skip

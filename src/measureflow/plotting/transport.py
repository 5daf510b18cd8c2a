"""From one measure to another along the geodesic, where mass moves, and along the mixture, where it fades out and in."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb

from measureflow import checks
from measureflow.annotations import Numbers
from measureflow.measures import Particles
from measureflow.plotting.backdrops import BACK, FRONT, backdrop
from measureflow.plotting.captions import short_times
from measureflow.plotting.colours import PALETTE
from measureflow.plotting.layout import AnyFigure, page
from measureflow.plotting.predictions import Curve, draw_curves
from measureflow.plotting.view import View, view_of

START = np.array(to_rgb(PALETTE[0]))
"""The colour of the first measure; mass that moves changes from this colour to the other."""

END = np.array(to_rgb(PALETTE[1]))
"""The colour of the second measure."""

INK_AREA = 2600.0
"""The area of all marks together, in points squared for a picture three inches wide."""


def draw_geodesic_and_mixture(
    axes: Numbers,
    geodesic: Sequence[Particles],
    mixture: Sequence[Particles],
    times: Numbers,
    *,
    scale: float | int = 1,
) -> np.ndarray:
    """Draw `k` frames of a geodesic above `k` frames of a mixture on axes of shape `(2, k)`, and return the axes.

    The area of a mark is its mass, so each picture has the same amount of ink. Frames are those of `Coupling.geodesic` and
    of `transport.mixture` at the same times, from 0 to 1; on a sphere, marks behind it are paler.
    """
    axes, times = np.asarray(axes, dtype=object), np.asarray(times, float)
    checks.shaped("times", times, ("k",), "One time for each frame.")
    checks.shaped(
        "axes", axes, (2, len(times)), "A row for the geodesic and one for the mixture, a column for each time."
    )
    for name, frames in (("geodesic", geodesic), ("mixture", mixture)):
        if len(frames) != len(times):
            raise ValueError(f"`{name}` has {len(frames)} frames for {len(times)} times; it needs one for each.")
    space = geodesic[0].space
    if space.dim == 1:
        raise ValueError("`geodesic` is on a line, where marks of mass cannot be seen; put it into `Euclidean(2)`.")
    view = view_of(np.concatenate([np.asarray(mu.points) for mu in (*geodesic, *mixture)]), space)
    for top, bottom, moved, mixed, t, name in zip(*axes, geodesic, mixture, times, short_times(times), strict=True):
        _marks(top, moved, view, np.tile((1 - t) * START + t * END, (len(moved.points), 1)), scale)
        _marks(bottom, mixed, view, _origins(mixed, mixture[0], t), scale)
        top.set_title(f"geodesic, t = {name}", fontsize=9 * scale)
        bottom.set_title(f"mixture, t = {name}", fontsize=9 * scale)
    return axes


def geodesic_and_mixture_figure(
    geodesic: Sequence[Particles],
    mixture: Sequence[Particles],
    times: Numbers,
    curves: Sequence[Curve],
    name: str,
    *,
    figure: AnyFigure | None = None,
) -> AnyFigure:
    """Draw frames of a geodesic above those of a mixture, and beside them `curves` of an energy along each, with its `name`."""
    count = np.size(times)
    figure = page(figure, 2.4 * count + 5.2, 5.2)
    left, right = figure.subfigures(1, 2, squeeze=False, width_ratios=(2.4 * count, 5.2))[0]
    draw_geodesic_and_mixture(left.subplots(2, count), geodesic, mixture, times)
    draw_curves(right.subplots(), curves, "share of the way t", name)
    return figure


def _origins(mu: Particles, first: Particles, t: float) -> np.ndarray:
    """One colour for each point of a mixture: those of the first measure come first while it is there."""
    own = len(first.points) if t < 1 else 0
    return np.where(np.arange(len(mu.points))[:, None] < own, START, END)


def _marks(ax: Axes, mu: Particles, view: View, colours: np.ndarray, scale: float | int) -> None:
    backdrop(ax, mu.space, view, scale)
    places, area = view.place(np.asarray(mu.points, float)), INK_AREA * scale**2 * np.asarray(mu.weights)
    behind = (places[:, 2] < 0) & (mu.space.spherical and mu.space.dim == 3)
    for layer, chosen, alpha in ((BACK, behind, 0.25), (FRONT, ~behind, 0.75)):
        ax.scatter(
            *places[chosen, :2].T,
            s=area[chosen],
            c=colours[chosen],
            alpha=alpha,
            linewidths=0,
            zorder=layer,
            gid="mass",
        )

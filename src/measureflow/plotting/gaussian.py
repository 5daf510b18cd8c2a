"""Gaussians in motion: ellipses in the plane, and covariances as points of a cone.

A covariance `[[a, c], [c, b]]` is the point `(a - b, 2c, a + b)` of the cone `z >= |(x, y)|`: round ones on its axis,
flat ones on its boundary. Divided by its trace it is a point of the unit disc. Colours run from pale to full with time.
"""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgb
from matplotlib.patches import Circle, Ellipse, Polygon
from scipy.spatial import ConvexHull

from measureflow import checks
from measureflow.annotations import Numbers
from measureflow.plotting.backdrops import BACK, FRONT, GLASS, GLASS_TONE
from measureflow.plotting.marks import FAINT, INK, PALETTE

AZIMUTH, ELEVATION = np.deg2rad(-55), np.deg2rad(22)
"""Where the cone is seen from: a little from above, so that its mouth shows."""
PALE = 0.72
"""How far the first colour of a run is towards white."""
MARK = 16.0
"""The area of the dots at the ends of paths, in square points."""


def draw_ellipses(
    ax: Axes, means: Numbers, covs: Numbers, *, deviations: float | int = 1, most: int = 12, scale: float | int = 1
) -> Axes:
    """Draw a flow of Gaussians in the plane: ellipses at some standard deviations, and the paths of the means.

    `means` are `(k, 2)` and `covs` `(k, 2, 2)` for `k` frames; a mixture has components between, `(k, c, 2)` and
    `(k, c, 2, 2)`, each with its own colour. At most `most` frames are drawn, the first and last among them.
    """
    means, covs = np.asarray(means, float), np.asarray(covs, float)
    if means.ndim == 2:
        means, covs = means[:, None], covs[:, None]
    k, c = means.shape[:2]
    checks.shaped("means", means, (k, c, 2), "Ellipses are of the plane: choose two coordinates.")
    checks.shaped("covs", covs, (k, c, 2, 2), "One covariance for each mean.")
    shown = np.unique(np.linspace(0, k - 1, min(k, most)).round().astype(int))
    for j in range(c):
        colours = _shades(PALETTE[j % len(PALETTE)], k)
        for i in shown:
            ax.add_patch(_ellipse(means[i, j], covs[i, j], deviations, colours[i], scale))
        ax.add_collection(_path(means[:, j], colours, scale))
        ax.scatter(*means[-1, j], s=MARK * scale**2, color=[colours[-1]], zorder=FRONT, gid="ends")
    reach = deviations * np.sqrt(covs[..., [0, 1], [0, 1]])[shown]
    low, high = (means[shown] - reach).min((0, 1)), (means[shown] + reach).max((0, 1))
    middle, half = (low + high) / 2, 0.55 * max((high - low).max(), 1e-12)
    ax.set(xlim=middle[0] + half * np.array([-1, 1]), ylim=middle[1] + half * np.array([-1, 1]), aspect="equal")
    _name(ax, "x₁", "x₂", scale)
    return ax


def draw_cone(ax: Axes, covs: Numbers, *, scale: float | int = 1) -> Axes:
    """Draw paths of 2 x 2 covariances in their cone; `covs` is `(k, 2, 2)`, or `(n, k, 2, 2)` for `n` paths.

    The axes are ordinary ones: the cone is projected by ourselves. Paths are pale where they start and end in a dot.
    """
    paths = _covariances(ax, covs)
    points = np.stack(
        [paths[..., 0, 0] - paths[..., 1, 1], 2 * paths[..., 0, 1], paths[..., 0, 0] + paths[..., 1, 1]], -1
    )
    top = max(points[..., 2].max(), 1e-12)
    _mouth(ax, top, scale)
    _draw_paths(ax, _project(points), scale)
    return ax


def draw_disc(ax: Axes, covs: Numbers, *, scale: float | int = 1) -> Axes:
    """Draw paths of 2 x 2 covariances by their shape alone: `((a - b), 2c) / (a + b)` in the unit disc.

    The centre is a round covariance, the rim a flat one; sizes, which may grow without bound, are left out.
    """
    paths = _covariances(ax, covs)
    trace = np.maximum(paths[..., 0, 0] + paths[..., 1, 1], np.finfo(float).tiny)
    points = np.stack([paths[..., 0, 0] - paths[..., 1, 1], 2 * paths[..., 0, 1]], -1) / trace[..., None]
    ax.add_patch(Circle((0, 0), 1.0, facecolor="#F3F5F8", edgecolor=FAINT, linewidth=scale, zorder=GLASS))
    ax.set(xlim=(-1.1, 1.1), ylim=(-1.1, 1.1), aspect="equal", xticks=[-1, 0, 1], yticks=[-1, 0, 1])
    ax.spines[:].set_visible(False)
    _draw_paths(ax, points, scale)
    _name(ax, "(a - b) / (a + b)", "2c / (a + b)", scale)
    return ax


def _covariances(ax: Axes, covs: Numbers) -> np.ndarray:
    if ax.name == "3d":
        raise ValueError("`ax` must be ordinary axes: the cone is projected by itself. Leave out `projection='3d'`.")
    covs = np.asarray(covs, float)
    covs = covs[None] if covs.ndim == 3 else covs
    checks.shaped("covs", covs, ("n", "k", 2, 2), "The cone is that of 2 x 2 covariances.")
    checks.finite("covs", covs)
    return covs


def _ellipse(mean, cov, deviations, colour, scale) -> Ellipse:
    values, vectors = np.linalg.eigh(cov)
    width, height = 2 * deviations * np.sqrt(np.maximum(values[::-1], 0))
    angle = np.rad2deg(np.arctan2(vectors[1, 1], vectors[0, 1]))
    return Ellipse(
        mean, width, height, angle=angle, facecolor=(*colour, 0.06), edgecolor=colour, linewidth=1.2 * scale, zorder=BACK
    )  # fmt: skip


def _shades(colour: str, k: int) -> np.ndarray:
    """Colours of `k` frames from pale to full."""
    veil = PALE * (1 - np.linspace(0, 1, k) if k > 1 else np.zeros(1))[:, None]
    return veil + (1 - veil) * np.array(to_rgb(colour))


def _path(places: np.ndarray, colours: np.ndarray, scale: float | int) -> LineCollection:
    pieces = np.stack([places[:-1], places[1:]], 1)
    return LineCollection(list(pieces), colors=colours[1:], linewidths=1.1 * scale, zorder=FRONT, gid="path")


def _draw_paths(ax: Axes, places: np.ndarray, scale: float | int) -> None:
    colours = _shades(PALETTE[0], places.shape[1])
    for path in places:
        ax.add_collection(_path(path, colours, scale))
    ax.scatter(*places[:, 0].T, s=MARK * scale**2 / 2, color=[colours[0]], zorder=FRONT, gid="starts")
    ax.scatter(*places[:, -1].T, s=MARK * scale**2, color=PALETTE[1], zorder=FRONT + 1, gid="ends")


def _project(points: np.ndarray) -> np.ndarray:
    """The orthogonal projection of points `(..., 3)` to the picture."""
    x, y, z = np.moveaxis(points, -1, 0)
    right = -np.sin(AZIMUTH) * x + np.cos(AZIMUTH) * y
    towards = np.cos(AZIMUTH) * x + np.sin(AZIMUTH) * y
    return np.stack([right, np.cos(ELEVATION) * z - np.sin(ELEVATION) * towards], -1)


def _mouth(ax: Axes, top: float, scale: float | int) -> None:
    """The cone up to a height: its outline, its mouth and the three axes."""
    angle = np.linspace(0, 2 * np.pi, 181)
    rim = _project(top * np.stack([np.cos(angle), np.sin(angle), np.ones_like(angle)], -1))
    body = np.concatenate([rim, [[0.0, 0.0]]])
    ax.add_patch(
        Polygon(body[ConvexHull(body).vertices], facecolor=GLASS_TONE, edgecolor=FAINT, linewidth=scale, zorder=GLASS)
    )
    ax.add_patch(Polygon(rim, facecolor="#F7F8FB", edgecolor=FAINT, linewidth=scale, zorder=GLASS))
    ends = top * np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0], [0.0, 0.0, 1.6]])
    starts = top * np.array([[-1.0, 0.0, 1.0], [0.0, -1.0, 1.0], [0.0, 0.0, 0.0]])
    centre = _project(top * np.array([0.0, 0.0, 1.0]))
    for start, end, name in zip(_project(starts), _project(ends), ("a - b", "2c", "a + b"), strict=True):
        ax.plot([start[0], end[0]], [start[1], end[1]], color=FAINT, linewidth=0.7 * scale, zorder=GLASS)
        x, y = centre + 1.2 * (end - centre)
        ax.text(x, y, name, ha="center", va="center", fontsize=10.5 * scale**0.5, color=INK)
    low, high = body.min(0), body.max(0)
    high = np.maximum(high, _project(ends).max(0))
    pad = 0.12 * (high - low).max()
    ax.set(xlim=(low[0] - pad, high[0] + pad), ylim=(low[1] - pad, high[1] + pad), aspect="equal", xticks=[], yticks=[])
    ax.spines[:].set_visible(False)


def _name(ax: Axes, horizontal: str, vertical: str, scale: float | int) -> None:
    ax.set_xlabel(horizontal, fontsize=10.5 * scale**0.5, color=INK)
    ax.set_ylabel(vertical, fontsize=10.5 * scale**0.5, color=INK)

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
from measureflow.measures import Gaussian, GaussianMixture
from measureflow.plotting.backdrops import BACK, FRONT, GLASS, GLASS_TONE
from measureflow.plotting.colours import FAINT, INK, PALETTE
from measureflow.plotting.layout import AnyFigure, label_large_axes, two_rows
from measureflow.plotting.record import Recorded
from measureflow.plotting.time_series import draw_series_row

AZIMUTH = np.deg2rad(-55)
"""The direction around its axis from which the cone is seen."""

ELEVATION = np.deg2rad(22)
"""How far from above the cone is seen: a little, so that its mouth shows."""

PALENESS = 0.72
"""How far the first colour of a run is towards white."""

DOT_AREA = 16.0
"""The area of the dots at the ends of paths, in square points."""

MOST_GROWTH = 6.0
"""Gaussians are drawn until they are this many times as wide as at the start: beyond, all before would be a dot."""


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
        ax.scatter(*means[-1, j], s=DOT_AREA * scale**2, color=[colours[-1]], zorder=FRONT, gid="ends")
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


def draw_gaussian(ax: Axes, mu: Gaussian | GaussianMixture, plane: Numbers | None = None) -> Axes:
    """Draw a Gaussian or a mixture and return the axes: ellipses at one standard deviation, or the density on the line.

    Components have the colours that `gaussian_figure` gives them. In more than two dimensions `plane` `(d, 2)` has the
    directions that are drawn; the widest ones unless given.
    """
    means, covs = _components(mu)
    if means.shape[-1] == 1:
        weights = np.asarray(mu.weights) if isinstance(mu, GaussianMixture) else np.ones(1)
        return _draw_bells(ax, weights, means[:, 0], covs[:, 0, 0])
    return _draw_in_plane(ax, means[None], covs[None], widest_plane(mu) if plane is None else np.asarray(plane))


def widest_plane(mu: Gaussian | GaussianMixture) -> np.ndarray:
    """The two directions `(d, 2)` in which the components are widest on average; both directions of a plane."""
    covs = _components(mu)[1]
    return np.eye(2) if covs.shape[-1] == 2 else np.linalg.eigh(covs.mean(0))[1][:, :-3:-1]


def gaussian_figure(run: Recorded, *, blow_up_time: float | None = None, figure: AnyFigure | None = None) -> AnyFigure:
    """Draw a run of Gaussians or of mixtures.

    Ellipses are above, in the plane of the widest directions. Beside them is the cone of covariances in two dimensions, and
    the standard deviations along principal axes in others. The series are below.
    """
    times, spread = np.asarray(run.times, float), np.asarray(run.series["spread"].values, float)
    components = [_components(run.at(i)) for i in range(len(times))]
    means, covs = (np.stack(parts) for parts in zip(*components, strict=True))
    k, d = len(means), means.shape[-1]
    last = _drawn_frames(spread)
    figure, above, below = two_rows(figure, run.title, (1.5, 1.0))
    left, right = above.subplots(1, 2, width_ratios=(1.15, 1.0))
    if d == 1:
        _draw_bands(left, times[:last], means[:last, :, 0], covs[:last, :, 0, 0])
    else:
        _draw_in_plane(left, means[:last], covs[:last], widest_plane(run.at(last - 1)))
    if last < k:
        left.set_title(f"until t = {times[last - 1]:.3g}", fontsize=13, color=INK)
    if d == 2:
        draw_cone(right, np.swapaxes(covs[:last], 0, 1), scale=1.2)
        right.set_title("covariances [[a, c], [c, b]]\nin their cone", fontsize=13, color=INK)
    else:
        _draw_deviations(right, times, covs)
    row = draw_series_row(below, run, blow_up_time=blow_up_time)
    row[1].set_ylim(0.9, d + 0.15)
    return figure


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
    veil = PALENESS * (1 - np.linspace(0, 1, k) if k > 1 else np.zeros(1))[:, None]
    return veil + (1 - veil) * np.array(to_rgb(colour))


def _path(places: np.ndarray, colours: np.ndarray, scale: float | int) -> LineCollection:
    pieces = np.stack([places[:-1], places[1:]], 1)
    return LineCollection(list(pieces), colors=colours[1:], linewidths=1.1 * scale, zorder=FRONT, gid="path")


def _draw_paths(ax: Axes, places: np.ndarray, scale: float | int) -> None:
    colours = _shades(PALETTE[0], places.shape[1])
    for path in places:
        ax.add_collection(_path(path, colours, scale))
    ax.scatter(*places[:, 0].T, s=DOT_AREA * scale**2 / 2, color=[colours[0]], zorder=FRONT, gid="starts")
    ax.scatter(*places[:, -1].T, s=DOT_AREA * scale**2, color=PALETTE[1], zorder=FRONT + 1, gid="ends")


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


def _components(mu: Gaussian | GaussianMixture) -> tuple[np.ndarray, np.ndarray]:
    """The means `(c, d)` and covariances `(c, d, d)` of a measure; a Gaussian is one component."""
    if isinstance(mu, Gaussian):
        return np.asarray(mu.mean)[None], np.asarray(mu.cov)[None]
    return np.asarray(mu.means), np.asarray(mu.covs)


def _drawn_frames(spread: np.ndarray) -> int:
    """How many frames to draw: those before the measure has grown beyond what one picture shows."""
    wide = spread > MOST_GROWTH * max(spread[0], np.finfo(float).tiny)
    return max(int(np.argmax(wide)), 2) if wide.any() else len(spread)


def _draw_in_plane(ax: Axes, means: np.ndarray, covs: np.ndarray, plane: np.ndarray) -> Axes:
    """Ellipses of several frames, `(k, c, d)` and `(k, c, d, d)`, in the plane of two directions `(d, 2)`."""
    draw_ellipses(ax, means @ plane, plane.T @ covs @ plane, scale=1.2)
    many = means.shape[-1] > 2
    return label_large_axes(ax, *(("widest direction", "second direction") if many else ("x₁", "x₂")))


def _draw_bands(ax: Axes, times: np.ndarray, means: np.ndarray, variances: np.ndarray) -> None:
    """Means and one and two standard deviations of Gaussians on the line, against time."""
    deviations = np.sqrt(np.maximum(variances, 0.0))
    for j in range(means.shape[1]):
        colour = PALETTE[j % len(PALETTE)]
        for many in (1, 2):
            low, high = means[:, j] - many * deviations[:, j], means[:, j] + many * deviations[:, j]
            ax.fill_between(times, low, high, color=colour, alpha=0.22, linewidth=0, gid="band")
        ax.plot(times, means[:, j], color=colour, linewidth=2, gid="mean")
    label_large_axes(ax, "time t", "mean, one and two standard deviations")


def _draw_deviations(ax: Axes, times: np.ndarray, covs: np.ndarray) -> None:
    deviations = np.sqrt(np.maximum(np.linalg.eigvalsh(covs), 0.0))
    for j in range(covs.shape[1]):
        ax.plot(times, deviations[:, j], color=PALETTE[j % len(PALETTE)], linewidth=1.8, gid="deviations")
    if deviations.min() > 0 and deviations.max() > 20 * deviations.min():
        ax.set_yscale("log")
    label_large_axes(ax, "time t", "standard deviations along principal axes")


def _draw_bells(ax: Axes, weights: np.ndarray, means: np.ndarray, variances: np.ndarray) -> Axes:
    """The densities of Gaussians on the line, each as high as its weight makes it."""
    deviations = np.maximum(np.sqrt(np.maximum(variances, 0.0)), 1e-9 * (1 + np.abs(means)))
    x = np.linspace((means - 4 * deviations).min(), (means + 4 * deviations).max(), 400)
    for j, (weight, mean, deviation) in enumerate(zip(weights, means, deviations, strict=True)):
        density = weight * np.exp(-(((x - mean) / deviation) ** 2) / 2) / (np.sqrt(2 * np.pi) * deviation)
        colour = PALETTE[j % len(PALETTE)]
        ax.fill_between(x, density, color=colour, alpha=0.22, linewidth=0)
        ax.plot(x, density, color=colour, linewidth=2, gid="density")
    ax.set_ylim(bottom=0.0)
    return label_large_axes(ax, "x", "density")

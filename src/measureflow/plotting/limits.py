"""A run of a limit on one page: what moves above, its numbers over time below."""

from collections.abc import Callable, Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from measureflow.measures import Gaussian
from measureflow.plotting.curves import telling_frames
from measureflow.plotting.density import draw_density_over_time, draw_height_over_time, draw_ring, draw_sphere_map
from measureflow.plotting.gaussian import draw_cone, draw_ellipses
from measureflow.plotting.marks import FAINT, INK, PALETTE
from measureflow.plotting.recorded import Recorded, draw_below, drawn_series
from measureflow.plotting.words import short_times, wrapped

GROWTH = 6.0
"""Gaussians are drawn until they are this many times as wide as at the start: beyond, all before would be a dot."""
LOW = 2.5
"""The density drawn at full height or tone is at least this many times the uniform one, so that early frames are low."""


def gaussian_figure(run: Recorded, *, blow_up_time: float | None = None) -> Figure:
    """Draw a run of Gaussians or of mixtures.

    Ellipses above, in the plane of the widest directions; beside them the cone of covariances in the plane, and the
    standard deviations along principal axes otherwise. What was watched below.
    """
    times, spread = np.asarray(run.times, float), np.asarray(run.series["spread"].values, float)
    means, covs = _components(run)
    k, d = len(means), means.shape[-1]
    last = _drawn(spread)
    figure, above, below = _page(run.title, (1.5, 1.0))
    left, right = above.subplots(1, 2, width_ratios=(1.15, 1.0))
    _draw_gaussians(left, times[:last], means[:last], covs[:last])
    if last < k:
        left.set_title(f"until t = {times[last - 1]:.3g}", fontsize=13, color=INK)
    if d == 2:
        draw_cone(right, np.swapaxes(covs[:last], 0, 1), scale=1.2)
        right.set_title("covariances [[a, c], [c, b]] in their cone", fontsize=13, color=INK)
    else:
        _draw_deviations(right, times, covs)
    row = draw_below(below, run, blow_up_time=blow_up_time)
    row[1].set_ylim(0.9, d + 0.15)
    return figure


def circle_figure(run: Recorded) -> Figure:
    """Draw a density on the circle: rings at four telling times above, the density and what was watched over time below."""
    times = np.asarray(run.times, float)
    density = np.stack([np.asarray(run.at(i).values) for i in range(len(times))])
    shown = _telling(run)
    figure, above, below = _page(run.title, (1.1, 1.0))
    row = above.subplots(1, len(shown), squeeze=False)[0]
    for ax, i, name in zip(row, shown, short_times(times[list(shown)]), strict=True):
        # A wall of its own height for each: clusters are hundreds of times as high as the first ripples.
        draw_ring(ax, np.maximum(density[i], 0.0), peak=max(density[i].max(), LOW / (2 * np.pi)))
        ax.set_title(f"t = {name}", fontsize=14, color=INK)
        ax.text(0, 0, f"peak {density[i].max():.3g}", ha="center", va="center", fontsize=11, color="#606060")
    left, right = below.subfigures(1, 2, width_ratios=(1, len(drawn_series(run))))
    ax = left.subplots()
    if len(times) > 1:
        draw_density_over_time(ax, times, np.maximum(density, 0.0))
        _letters(ax)
    draw_below(right, run, marked=shown)
    return figure


def sphere_figure(run: Recorded, drawn: Callable[[int], Mapping[str, np.ndarray]]) -> Figure:
    """Draw a density on the sphere as four maps, and what was watched below; `drawn` has `density` and `height` of a frame."""
    times = np.asarray(run.times, float)
    shown = _telling(run)
    figure, above, below = _page(run.title, (2.2, 1.0), height=9.0)
    axes = above.subplots(2, 2).ravel()
    for ax, i, name in zip(axes, shown, short_times(times[list(shown)]), strict=False):
        frame = drawn(i)
        density = frame["density"]
        draw_sphere_map(ax, np.maximum(density, 0.0), frame["height"], peak=max(density.max(), LOW / (4 * np.pi)))
        ax.set_title(f"t = {name},  peak {density.max():.3g}", fontsize=13, color=INK)
    for ax in axes[len(shown) :]:
        ax.set_axis_off()
    draw_below(below, run, marked=shown)
    return figure


def axial_figure(run: Recorded) -> Figure:
    """Draw a density about an axis: over the height at four telling times and through time, and what was watched below."""
    times = np.asarray(run.times, float)
    shown = _telling(run)
    figure, above, below = _page(run.title, (1.2, 1.0))
    left, right = above.subplots(1, 2)
    for k, (i, name) in enumerate(zip(shown, short_times(times[list(shown)]), strict=True)):
        mu = run.at(i)
        left.plot(mu.grid.z, np.asarray(mu.values), color=PALETTE[k], linewidth=2, label=f"t = {name}", gid="density")
    left.set(xlabel="height z along the axis", ylabel="density over the uniform law", xlim=(-1, 1))
    left.set_xticks([-1.0, -0.5, 0.0, 0.5, 1.0])
    left.set_ylim(bottom=0.0)
    left.legend(frameon=False, fontsize=11)
    values = np.stack([np.asarray(run.at(i).values) for i in range(len(times))])
    if len(times) > 1:
        draw_height_over_time(right, times, run.at(0).grid.z, np.maximum(values, 0.0))
    for ax in (left, right):
        _letters(ax)
    draw_below(below, run, marked=shown)
    return figure


def _telling(run: Recorded) -> tuple[int, ...]:
    names = drawn_series(run)
    return telling_frames(run.series[names[0]].values if names else np.arange(len(run.times)))


def _components(run: Recorded) -> tuple[np.ndarray, np.ndarray]:
    """Means `(k, c, d)` and covariances `(k, c, d, d)` of all frames; a Gaussian is one component."""
    frames = [run.at(i) for i in range(len(run.times))]
    if isinstance(frames[0], Gaussian):
        return np.stack([mu.mean[None] for mu in frames]), np.stack([mu.cov[None] for mu in frames])
    return np.stack([np.asarray(mu.means) for mu in frames]), np.stack([np.asarray(mu.covs) for mu in frames])


def _page(title: str, ratios: tuple[float, float], height: float = 7.5):
    figure = Figure(figsize=(12, height), dpi=150, layout=ConstrainedLayoutEngine(h_pad=0.08, w_pad=0.1, hspace=0.02))
    above, below = figure.subfigures(2, 1, squeeze=False, height_ratios=ratios)[:, 0]
    figure.suptitle(wrapped(title), fontsize=15 if len(title) <= 100 else 12.5, color=INK, parse_math=False)
    return figure, above, below


def _drawn(spread: np.ndarray) -> int:
    """How many frames to draw: those before the measure has grown beyond what one picture shows."""
    wide = spread > GROWTH * max(spread[0], np.finfo(float).tiny)
    return max(int(np.argmax(wide)), 2) if wide.any() else len(spread)


def _draw_gaussians(ax: Axes, times: np.ndarray, means: np.ndarray, covs: np.ndarray) -> None:
    d = means.shape[-1]
    if d == 1:
        _draw_bands(ax, times, means[..., 0], covs[..., 0, 0])
        return
    axes = np.eye(2) if d == 2 else np.linalg.eigh(covs[-1].mean(0))[1][:, :-3:-1]
    draw_ellipses(ax, means @ axes, axes.T @ covs @ axes, scale=1.2)
    if d > 2:
        ax.set(xlabel="widest direction", ylabel="second direction")
    _letters(ax)


def _draw_bands(ax: Axes, times: np.ndarray, means: np.ndarray, variances: np.ndarray) -> None:
    """Means and one and two standard deviations of Gaussians on the line, against time."""
    deviations = np.sqrt(np.maximum(variances, 0.0))
    for j in range(means.shape[1]):
        colour = PALETTE[j % len(PALETTE)]
        for many in (1, 2):
            low, high = means[:, j] - many * deviations[:, j], means[:, j] + many * deviations[:, j]
            ax.fill_between(times, low, high, color=colour, alpha=0.22, linewidth=0, gid="band")
        ax.plot(times, means[:, j], color=colour, linewidth=2, gid="mean")
    ax.set(xlabel="time t", ylabel="mean, one and two standard deviations")
    _letters(ax)


def _draw_deviations(ax: Axes, times: np.ndarray, covs: np.ndarray) -> None:
    deviations = np.sqrt(np.maximum(np.linalg.eigvalsh(covs), 0.0))
    for j in range(covs.shape[1]):
        ax.plot(times, deviations[:, j], color=PALETTE[j % len(PALETTE)], linewidth=1.8, gid="deviations")
    if deviations.min() > 0 and deviations.max() > 20 * deviations.min():
        ax.set_yscale("log")
    ax.set(xlabel="time t", ylabel="standard deviations along principal axes")
    _letters(ax)


def _letters(ax: Axes) -> None:
    ax.xaxis.label.set(fontsize=13, color=INK)
    ax.yaxis.label.set(fontsize=13, color=INK)
    ax.tick_params(labelsize=11, colors=INK)
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color(FAINT)

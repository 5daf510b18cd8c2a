"""Densities: a ring around the circle, a density through time, a map of the sphere, and the figures of their runs."""

from collections.abc import Callable, Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.colors import LinearSegmentedColormap, PowerNorm
from matplotlib.patches import Circle, Polygon
from matplotlib.ticker import FixedLocator, FuncFormatter

from measureflow import checks
from measureflow.annotations import Numbers
from measureflow.plotting.captions import CAPTION_COLOUR, short_times
from measureflow.plotting.colours import FAINT, INK, PALETTE
from measureflow.plotting.layout import AnyFigure, label_large_axes, two_rows
from measureflow.plotting.record import Recorded, drawn_series
from measureflow.plotting.time_series import draw_series_row, run_key_frames

HEIGHT = 0.9
"""How far the largest density stands out of the unit circle."""

LEAST_PEAK = 2.5
"""The density drawn at full height or tone is at least this many times the uniform one, so that early frames are low."""

TONES = LinearSegmentedColormap.from_list("density", ["#FFFFFF", "#BBD6E8", "#56A0CC", "#0072B2", "#1B2A49"])
"""From no mass to most: lightness falls evenly, so the map reads in grey as well."""


def draw_ring(
    ax: Axes, values: Numbers, *, peak: float | None = None, colour: str = PALETTE[0], label: str | None = None
) -> Axes:
    """Draw a density on the circle, `(n,)` values at equally spaced angles from zero, as a wall around it.

    The wall is as high as the density; `peak` is the density that stands `0.9` high, the largest unless given. Pass one
    `peak` to compare frames. Several densities may be drawn on the same axes.
    """
    values = _values(values, ("n",))
    top = float(values.max()) if peak is None else peak
    checks.positive("peak", top)
    angles = np.append(2 * np.pi * np.arange(len(values)) / len(values), 2 * np.pi)
    radius = 1 + HEIGHT * np.append(values, values[0]) / top
    ring = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    wall = np.concatenate([radius[:, None] * ring, ring[::-1]])
    ax.add_patch(Polygon(wall, closed=True, facecolor=colour, alpha=0.3, edgecolor="none", gid="density"))
    ax.plot(*(radius[:, None] * ring).T, color=colour, linewidth=1.4, label=label, gid="density")
    ax.add_patch(Circle((0, 0), 1.0, fill=False, edgecolor=FAINT, linewidth=1.0))
    reach = max(1.13, *(1.03 * np.abs(line.get_xydata()).max() for line in ax.lines))  # pyright: ignore[reportArgumentType, reportCallIssue]
    ax.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal", xticks=[], yticks=[])
    ax.spines[:].set_visible(False)
    return ax


def draw_density_over_time(ax: Axes, times: Numbers, values: Numbers) -> Axes:
    """Draw a density on the circle through time: `times` `(k,)` to the right, angles from 0 to 2π upwards, `values` `(k, n)`.

    Tones go by a root of the density, so that the first ripples are seen as well as the clusters they become.
    """
    values = _values(values, ("k", "n"))
    half = np.pi / values.shape[1]
    _draw_through_time(ax, times, np.linspace(-half, 2 * np.pi - half, values.shape[1] + 1), values, "angle")
    ax.yaxis.set_major_locator(FixedLocator([0.0, np.pi, 2 * np.pi - half]))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda _, i: ("0", "π", "2π")[i or 0]))
    return ax


def draw_height_over_time(ax: Axes, times: Numbers, heights: Numbers, values: Numbers) -> Axes:
    """Draw a density about an axis through time: heights `(n,)` from -1 to 1 upwards, `values` `(k, n)`."""
    heights = np.asarray(heights, float)
    edges = np.concatenate([[-1.0], (heights[1:] + heights[:-1]) / 2, [1.0]])
    return _draw_through_time(ax, times, edges, _values(values, ("k", len(heights))), "height z")


def _draw_through_time(ax: Axes, times: Numbers, edges: np.ndarray, values: np.ndarray, name: str) -> Axes:
    times = np.asarray(times, float)
    checks.shaped("times", times, (len(values),), "One for each frame.")
    checks.increasing("times", times)
    if len(times) < 2:
        raise ValueError("`times` has one frame; a density over time needs at least two.")
    moments = np.concatenate([times[:1], (times[1:] + times[:-1]) / 2, times[-1:]])
    tones = PowerNorm(0.4, vmin=0.0, vmax=max(float(values.max()), 1e-300))
    ax.pcolormesh(moments, edges, values.T, cmap=TONES, norm=tones, rasterized=True, gid="density")
    ax.set(xlabel="time t", ylabel=name, xlim=(times[0], times[-1]), ylim=(edges[0], edges[-1]))
    return ax


def draw_sphere_map(ax: Axes, values: Numbers, heights: Numbers, *, peak: float | None = None) -> Axes:
    """Draw a density on the sphere as an equal-area map (Mollweide), the third axis upwards, the first in the middle.

    `values` `(i, j)` at heights `z` `(i,)`, which increase, and equally spaced angles from zero about the axis. Pass one
    `peak` to compare frames.
    """
    values, heights = _values(values, ("i", "j")), np.asarray(heights, float)
    checks.shaped("heights", heights, (len(values),), "One for each circle of latitude.")
    checks.increasing("heights", heights)
    if np.abs(heights).max() > 1:
        raise ValueError(f"`heights` must lie in [-1, 1]; got {heights[np.abs(heights).argmax()]:g}.")
    count = values.shape[1]
    # The column at the seam is seen at both ends, half at each.
    turned = np.roll(values, count // 2, axis=1)[:, [*range(count), 0]]
    longitudes = np.clip(2 * np.pi * (np.arange(count + 2) - 0.5 - count // 2) / count, -np.pi, np.pi)
    latitudes = np.concatenate([[-1.0], (heights[1:] + heights[:-1]) / 2, [1.0]])
    x, y = mollweide(longitudes[None], np.arcsin(latitudes)[:, None])
    ax.pcolormesh(x, y, turned, cmap=TONES, vmin=0.0, vmax=peak, rasterized=True, gid="density")
    rim = np.linspace(0, 2 * np.pi, 181)
    ax.plot(2 * np.cos(rim), np.sin(rim), color=INK, linewidth=1.0)
    for longitude in np.deg2rad([-120, -60, 0, 60, 120]):
        ax.plot(*mollweide(np.full(91, longitude), np.linspace(-np.pi / 2, np.pi / 2, 91)), color=FAINT, linewidth=0.5)
    ax.set(xlim=(-2.05, 2.05), ylim=(-1.05, 1.05), aspect="equal", xticks=[], yticks=[])
    ax.spines[:].set_visible(False)
    return ax


def draw_ring_with_peak(ax: Axes, values: Numbers) -> Axes:
    """Draw a density on the circle as a ring of its own height with its largest value in the middle, and return the axes.

    Clusters are hundreds of times as high as the first ripples, so rings of several frames cannot share one height.
    """
    values = np.asarray(values, float)
    draw_ring(ax, np.maximum(values, 0.0), peak=max(float(values.max()), LEAST_PEAK / (2 * np.pi)))
    ax.text(0, 0, f"peak {values.max():.3g}", ha="center", va="center", fontsize=11, color=CAPTION_COLOUR)
    return ax


def draw_globe_map(ax: Axes, values: Numbers, heights: Numbers) -> Axes:
    """Draw a density on the sphere as a map with tones of its own, negative values as zero, and return the axes."""
    values = np.asarray(values, float)
    peak = max(float(values.max()), LEAST_PEAK / (4 * np.pi))
    return draw_sphere_map(ax, np.maximum(values, 0.0), heights, peak=peak)


def draw_density_over_height(
    ax: Axes, heights: Numbers, values: Numbers, *, colour: str = PALETTE[0], label: str | None = None
) -> Axes:
    """Draw a density about an axis against the height, `(n,)` values at heights `(n,)` from -1 to 1, and return the axes."""
    ax.plot(np.asarray(heights), np.asarray(values), color=colour, linewidth=2, label=label, gid="density")
    ax.set(xlim=(-1, 1), xticks=[-1.0, -0.5, 0.0, 0.5, 1.0])
    ax.set_ylim(bottom=0.0)
    return label_large_axes(ax, "height z along the axis", "density over the uniform law")


def circle_figure(run: Recorded, *, figure: AnyFigure | None = None) -> AnyFigure:
    """Draw a run of a density on the circle: rings at four key frames above, the density over time and the series below."""
    times = np.asarray(run.times, float)
    density = np.stack([np.asarray(run.at(i).values) for i in range(len(times))])
    shown = run_key_frames(run)
    figure, above, below = two_rows(figure, run.title, (1.1, 1.0))
    row = above.subplots(1, len(shown), squeeze=False)[0]
    for ax, i, name in zip(row, shown, short_times(times[list(shown)]), strict=True):
        draw_ring_with_peak(ax, density[i])
        ax.set_title(f"t = {name}", fontsize=14, color=INK)
    left, right = below.subfigures(1, 2, squeeze=False, width_ratios=(1, len(drawn_series(run))))[0]
    ax = left.subplots()
    if len(times) > 1:
        draw_density_over_time(ax, times, np.maximum(density, 0.0))
        label_large_axes(ax, "time t", "angle")
    draw_series_row(right, run, marked=shown)
    return figure


def sphere_figure(
    run: Recorded, drawn: Callable[[int], Mapping[str, np.ndarray]], *, figure: AnyFigure | None = None
) -> AnyFigure:
    """Draw a run of a density on the sphere: maps of four key frames above, the series below.

    `drawn` gives the `density` of a frame, by its index, on a grid, and the `height` of each row of the grid.
    """
    times = np.asarray(run.times, float)
    shown = run_key_frames(run)
    figure, above, below = two_rows(figure, run.title, (2.2, 1.0), height=9.0)
    axes = above.subplots(2, 2).ravel()
    for ax, i, name in zip(axes, shown, short_times(times[list(shown)]), strict=False):
        frame = drawn(i)
        draw_globe_map(ax, frame["density"], frame["height"])
        ax.set_title(f"t = {name},  peak {frame['density'].max():.3g}", fontsize=13, color=INK)
    for ax in axes[len(shown) :]:
        ax.set_axis_off()
    draw_series_row(below, run, marked=shown)
    return figure


def axial_figure(run: Recorded, *, figure: AnyFigure | None = None) -> AnyFigure:
    """Draw a run of a density about an axis: over the height at four key frames and through time, and the series below."""
    times = np.asarray(run.times, float)
    shown = run_key_frames(run)
    figure, above, below = two_rows(figure, run.title, (1.2, 1.0))
    left, right = above.subplots(1, 2)
    for k, (i, name) in enumerate(zip(shown, short_times(times[list(shown)]), strict=True)):
        mu = run.at(i)
        draw_density_over_height(left, mu.grid.z, mu.values, colour=PALETTE[k], label=f"t = {name}")
    left.legend(frameon=False, fontsize=11)
    values = np.stack([np.asarray(run.at(i).values) for i in range(len(times))])
    if len(times) > 1:
        draw_height_over_time(right, times, run.at(0).grid.z, np.maximum(values, 0.0))
    label_large_axes(right, "time t", "height z")
    draw_series_row(below, run, marked=shown)
    return figure


def mollweide(longitude: np.ndarray, latitude: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The equal-area projection to an ellipse of half axes 2 and 1: `2t + sin 2t = π sin(latitude)`."""
    t = np.arcsin(2 * np.asarray(latitude) / np.pi)  # a start from which Newton's steps converge up to the poles
    for _ in range(60):
        slope = np.maximum(2 + 2 * np.cos(2 * t), 1e-9)
        t = np.clip(t - (2 * t + np.sin(2 * t) - np.pi * np.sin(latitude)) / slope, -np.pi / 2, np.pi / 2)
    x, y = np.broadcast_arrays(2 * np.asarray(longitude) / np.pi * np.cos(t), np.sin(t))
    return x, y


def mesh(ax: Axes) -> QuadMesh:
    """The coloured cells of a drawn density, for a colour bar."""
    return next(item for item in ax.collections if isinstance(item, QuadMesh))


def _values(values: Numbers, shape: tuple[str | int, ...]) -> np.ndarray:
    values = np.asarray(values, float)
    checks.shaped("values", values, shape, "They are densities at the nodes.")
    if values.size == 0:
        raise ValueError("`values` is empty: there is no density to draw.")
    checks.finite("values", values)
    return values

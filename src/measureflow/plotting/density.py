"""Densities: a ring around the circle, a density through time, a map of the sphere."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.colors import LinearSegmentedColormap, PowerNorm
from matplotlib.patches import Circle, Polygon
from matplotlib.ticker import FixedLocator, FuncFormatter

from measureflow import checks
from measureflow.annotations import Numbers
from measureflow.plotting.marks import FAINT, INK, PALETTE

HEIGHT = 0.9
"""How far the tallest density stands out of the unit circle."""

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

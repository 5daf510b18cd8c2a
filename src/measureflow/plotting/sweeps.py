"""Sweeps: a map over two axes, or curves over one with bands over seeds, and a curve of theory on top where there is one."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from measureflow.annotations import Numbers
from measureflow.plotting.captions import write_title
from measureflow.plotting.colours import INK, PALETTE
from measureflow.plotting.layout import AnyFigure, label_axes, panels
from measureflow.plotting.scales import is_wide

MAP_COLOURS = "viridis"

LEAST_LOGARITHMIC_RATIO = 4.0
"""The ratio of the largest to the smallest value from which an axis may be logarithmic."""

STANDARD_ERRORS = 1.96
"""Half the width of a 95% band, in standard errors of a mean."""


class Axis(NamedTuple):
    """The values of an axis, and its name."""

    name: str
    values: Numbers

    @property
    def logarithmic(self) -> bool:
        """Whether the values are spaced by factors rather than by steps."""
        values = np.asarray(self.values, float)
        if len(values) < 3 or values.min() <= 0 or values.max() < LEAST_LOGARITHMIC_RATIO * values.min():
            return False
        uneven, by_factors = (
            np.std(steps) / abs(np.mean(steps)) for steps in (np.diff(values), np.diff(np.log(values)))
        )
        return bool(by_factors < uneven)

    @property
    def edges(self) -> np.ndarray:
        """The borders between values, half way from each to the next."""
        values = np.asarray(self.values, float)
        values = np.log(values) if self.logarithmic else values
        if len(values) == 1:
            values = np.array([values[0] - 0.5, values[0] + 0.5])
            return np.exp(values) if self.logarithmic else values
        middles = (values[1:] + values[:-1]) / 2
        edges = np.concatenate([[2 * values[0] - middles[0]], middles, [2 * values[-1] - middles[-1]]])
        return np.exp(edges) if self.logarithmic else edges


class TheoryCurve(NamedTuple):
    """A curve of theory: its points, and what it is."""

    label: str
    x: Numbers
    y: Numbers


class Band(NamedTuple):
    """One curve: its name, and its values for every place and seed, `(places, seeds)`."""

    name: str
    samples: Numbers


def draw_map(ax: Axes, x: Axis, y: Axis, values: Numbers, label: str, law: TheoryCurve | None = None) -> Axes:
    """Draw values `(x, y)` as colours over two axes, and a curve of theory on top; missing values stay white. Return the axes."""
    seen = np.ma.masked_invalid(np.asarray(values, float).T)
    mesh = ax.pcolormesh(x.edges, y.edges, seen, cmap=MAP_COLOURS, shading="flat", rasterized=True, gid="map")
    scale(ax, "x", x)
    scale(ax, "y", y)
    bar = ax.figure.colorbar(mesh, ax=ax, pad=0.02)
    bar.set_label(label, fontsize=12, color=INK)
    bar.ax.tick_params(labelsize=10, colors=INK)
    bar.outline.set_visible(False)  # pyright: ignore[reportCallIssue]
    if law is not None:
        ends = ax.get_xlim(), ax.get_ylim()
        ax.plot(law.x, law.y, color="white", linewidth=4.0, solid_capstyle="butt")
        ax.plot(law.x, law.y, color=PALETTE[1], linewidth=2.2, label=law.label, gid="law")
        ax.set(xlim=ends[0], ylim=ends[1])
    label_axes(ax, x.name, y.name)
    ax.grid(False)
    return ax


def draw_bands(ax: Axes, x: Axis, bands: Sequence[Band], label: str, law: TheoryCurve | None = None) -> Axes:
    """Draw means over seeds with 95% bands of the mean against one axis; return the axes."""
    places = np.asarray(x.values, float)
    for k, band in enumerate(bands):
        mean, half = mean_and_half(band.samples)
        colour = PALETTE[k % len(PALETTE)]
        if np.isfinite(half).any():
            ax.fill_between(places, mean - half, mean + half, color=colour, alpha=0.22, linewidth=0, gid="band")
        marker = "o" if len(places) <= 40 else None
        ax.plot(places, mean, color=colour, linewidth=2.0, marker=marker, markersize=4, label=band.name, gid="mean")
    if law is not None:
        ax.plot(law.x, law.y, "--", color=INK, linewidth=1.6, label=law.label, gid="law")
    scale(ax, "x", x)
    if is_wide(np.concatenate([np.ravel(np.asarray(band.samples, float)) for band in bands])):
        ax.set_yscale("log")
    label_axes(ax, x.name, label)
    if law is not None or any(band.name for band in bands):
        ax.legend(fontsize=10, frameon=False, labelcolor=INK, loc="best")
    return ax


def mean_and_half(samples: Numbers) -> tuple[np.ndarray, np.ndarray]:
    """The mean over seeds, and half the width of its 95% band: 1.96 standard errors, NaN for a single seed."""
    found = np.asarray(samples, float)
    count = np.isfinite(found).sum(1)
    total = np.where(count, np.nansum(found, 1), np.nan)
    mean = total / np.maximum(count, 1)
    spread = np.nansum((found - mean[:, None]) ** 2, 1) / np.maximum(count - 1, 1)
    return mean, np.where(count > 1, STANDARD_ERRORS * np.sqrt(spread / np.maximum(count, 1)), np.nan)


def scale(ax: Axes, across: str, axis: Axis) -> None:
    """Give a direction the limits of an axis, in logarithms where its values are spaced by factors."""
    edges = axis.edges
    if axis.logarithmic:
        getattr(ax, f"set_{across}scale")("log")
        ticks = ax.xaxis if across == "x" else ax.yaxis
        few = edges.max() / edges.min() < 1000
        ticks.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if few else (1.0,)))
        ticks.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        ticks.set_minor_locator(NullLocator())
    getattr(ax, f"set_{across}lim")(edges.min(), edges.max())


def maps_figure(
    x: Axis,
    y: Axis,
    maps: dict[str, Numbers],
    label: str,
    title: str,
    law: TheoryCurve | None = None,
    *,
    figure: AnyFigure | None = None,
) -> AnyFigure:
    """Draw maps side by side, each under its name."""
    figure, axes = panels(len(maps), width=6.6, height=4.8, figure=figure)
    for ax, (name, values) in zip(axes, maps.items(), strict=True):
        draw_map(ax, x, y, values, label, law)
        ax.set_title(name, fontsize=12, color=INK)
    if law is not None:
        figure.legend(
            *axes[0].get_legend_handles_labels(), loc="outside lower center", frameon=False, fontsize=11, labelcolor=INK
        )
    write_title(figure, title, 13)
    return figure


def bands_figure(
    x: Axis,
    bands: Sequence[Band],
    label: str,
    title: str,
    law: TheoryCurve | None = None,
    *,
    figure: AnyFigure | None = None,
) -> AnyFigure:
    """Draw curves over one axis with their bands."""
    figure, (ax,) = panels(1, width=7.4, height=4.8, figure=figure)
    draw_bands(ax, x, bands, label, law)
    write_title(figure, title, 13)
    return figure

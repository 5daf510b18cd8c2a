"""Measured numbers against the law that predicts them: dots or solid lines for the numbers, dashed lines for the law."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from measureflow import checks
from measureflow.annotations import Numbers
from measureflow.plotting.colours import INK, PALETTE
from measureflow.plotting.layout import AnyFigure, label_axes, panels
from measureflow.plotting.scales import plain_ticks

BAND: dict[str, Any] = dict(color=PALETTE[2], alpha=0.16, linewidth=0, zorder=0, gid="band")
"""How what is allowed is shaded."""

MOST_DOTS = 25
"""Up to so many numbers are drawn as dots, more as a line."""


class Curve(NamedTuple):
    """Numbers that were found at some places `x`, and what a law predicts there; one number if it is the same everywhere.

    `band` is what is allowed, from the least to the largest number.
    """

    name: str
    x: Numbers
    found: Numbers
    law: Numbers | None = None
    band: tuple[Numbers, Numbers] | None = None


def curve_within(name: str, x: Numbers, found: Numbers, law: Numbers, tolerance: Numbers) -> Curve:
    """A curve with a band of a tolerance on both sides of its law."""
    middle, room = np.asarray(law, float), np.asarray(tolerance, float)
    return Curve(name, x, found, law, (middle - room, middle + room))


def power_curve(name: str, x: Numbers, found: Numbers, exponent: float, tolerance: float = 0.0) -> Curve:
    """A curve whose law is a power of `x`, through the middle of what was found in logarithms; the exponent has a tolerance."""
    logs, middle = np.log(np.asarray(x, float)), np.log(np.asarray(found, float)).mean()
    laws = [
        np.exp(middle + power * (logs - logs.mean()))
        for power in (exponent, exponent - tolerance, exponent + tolerance)
    ]
    band = np.minimum(laws[1], laws[2]), np.maximum(laws[1], laws[2])
    return Curve(name, x, found, laws[0], band if tolerance else None)


def curves_figure(
    curves: Sequence[Curve],
    across: str,
    up: str,
    *,
    log: str = "",
    law: str = "law",
    title: str = "",
    figure: AnyFigure | None = None,
) -> AnyFigure:
    """Draw a figure of one panel with curves and their laws; the arguments are those of `draw_curves`."""
    figure, (ax,) = panels(width=6.4, height=4.4, figure=figure)
    draw_curves(ax, curves, across, up, log=log, law=law, title=title)
    return figure


def draw_curves(
    ax: Axes, curves: Sequence[Curve], across: str, up: str, *, log: str = "", law: str = "law", title: str = ""
) -> Axes:
    """Draw curves over their laws and return the axes.

    `across` and `up` name the directions and `log` has an `x` or `y` for each that is logarithmic. One entry of the legend,
    named `law`, stands for all dashed lines.
    """
    for curve, colour in zip(curves, (PALETTE[i % len(PALETTE)] for i in range(len(curves))), strict=True):
        _draw_curve(ax, curve, colour)
    ax.margins(x=0.04, y=0.08)
    if "x" in log:
        ax.set_xscale("log")
        plain_ticks(ax.xaxis)
    elif all(np.all(np.mod(np.asarray(curve.x, float), 1) == 0) for curve in curves):
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    if "y" in log:
        ax.set_yscale("log")
        plain_ticks(ax.yaxis)
    label_axes(ax, across, up, title)
    handles = [
        line for line in ax.get_lines() if line.get_gid() == "found" and not str(line.get_label()).startswith("_")
    ]
    lawful = any(curve.law is not None for curve in curves)
    if lawful:
        handles.append(Line2D([], [], color=INK, linestyle=(0, (4, 2)), linewidth=1.4, label=law))
    if lawful or len(handles) > 1:
        ax.legend(handles=handles, frameon=False, fontsize=10, labelcolor=INK)
    return ax


def draw_allowed(ax: Axes, low: float, high: float) -> Axes:
    """Shade what is allowed of the vertical direction, and return the axes, which show what they showed."""
    bottom, top = ax.get_ylim()
    ax.axhspan(max(low, bottom), min(high, top), **BAND)
    ax.set_ylim(bottom, top)
    return ax


def draw_ranges(ax: Axes, ranges: Mapping[str, tuple[float, float]]) -> Axes:
    """Shade ranges of the horizontal direction, with their names above the axes, and return these."""
    for i, (name, (low, high)) in enumerate(ranges.items()):
        ax.axvspan(low, high, color=PALETTE[i % len(PALETTE)], alpha=0.13, linewidth=0, zorder=0, gid="range")
        ax.annotate(
            name, ((low + high) / 2, 1.0), xycoords=("data", "axes fraction"), xytext=(0, 4), textcoords="offset points",
            ha="center", va="bottom", fontsize=10, color=PALETTE[i % len(PALETTE)],
        )  # fmt: skip
    return ax


def _draw_curve(ax: Axes, curve: Curve, colour: str) -> None:
    x, found = np.asarray(curve.x, float), np.asarray(curve.found, float)
    checks.shaped("found", found, x.shape, "One number for each place.")
    few = len(x) <= MOST_DOTS
    style = "none" if few and curve.law is not None else "-"
    ax.plot(
        x, found, color=colour, label=curve.name or "_", linestyle=style, linewidth=1.4 if few else 2.2,
        marker="o" if few else None, markersize=6, zorder=2, gid="found",
    )  # fmt: skip
    if curve.band is not None:
        low, high = (np.broadcast_to(np.asarray(edge, float), x.shape) for edge in curve.band)
        ax.fill_between(x, low, high, **{**BAND, "color": colour})
    if curve.law is not None:
        law = np.broadcast_to(np.asarray(curve.law, float), x.shape)
        ax.plot(x, law, color=colour if few else INK, linestyle=(0, (4, 2)), linewidth=1.4, zorder=2.5, gid="law")

"""What was measured against what a law says: dots or solid lines for the one, dashed lines for the other."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from measureflow import checks
from measureflow.annotations import Numbers
from measureflow.plotting.marks import FAINT, INK, PALETTE

FEW = 25
"""Up to so many places are shown one by one, as dots."""


class Curve(NamedTuple):
    """Numbers found at some places, and what a law says of them there."""

    name: str
    x: Numbers
    found: Numbers
    law: Numbers | None = None


def panels(columns: int = 1, rows: int = 1, *, width: float = 5.2, height: float = 3.9) -> tuple[Figure, list[Axes]]:
    """An empty figure and its axes, row by row; sizes of one panel are in inches."""
    figure = Figure(figsize=(width * columns, height * rows), dpi=150, layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False)
    figure.get_layout_engine().set(w_pad=0.1, h_pad=0.1)  # pyright: ignore[reportOptionalMemberAccess, reportCallIssue]
    return figure, list(axes.flat)


def curves_figure(
    curves: Sequence[Curve], across: str, up: str, *, log: str = "", law: str = "law", title: str = ""
) -> Figure:
    """A figure of one panel with curves and their laws."""
    figure, (ax,) = panels(width=6.4, height=4.4)
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
        few_decades(ax.xaxis)
    elif all(np.all(np.mod(np.asarray(curve.x, float), 1) == 0) for curve in curves):
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    if "y" in log:
        ax.set_yscale("log")
        few_decades(ax.yaxis)
    dress(ax, across, up, title)
    handles = [
        line for line in ax.get_lines() if line.get_gid() == "found" and not str(line.get_label()).startswith("_")
    ]
    lawful = any(curve.law is not None for curve in curves)
    if lawful:
        handles.append(Line2D([], [], color=INK, linestyle=(0, (4, 2)), linewidth=1.4, label=law))
    if lawful or len(handles) > 1:
        ax.legend(handles=handles, frameon=False, fontsize=10, labelcolor=INK)
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


def dress(ax: Axes, across: str, up: str, title: str = "") -> Axes:
    """Name the directions of axes, take away what is not needed, and return them."""
    ax.set_xlabel(across, fontsize=12, color=INK)
    ax.set_ylabel(up, fontsize=12, color=INK)
    ax.set_title(title, fontsize=12, color=INK)
    ax.tick_params(labelsize=10, colors=INK)
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color(FAINT)
    return ax


def few_decades(axis: Axis) -> None:
    """Write plain numbers along a logarithmic direction that spans less than two powers of ten."""
    low, high = axis.get_view_interval()
    if high < 100 * low:
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high > 6 * low else (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_locator(NullLocator())


def _draw_curve(ax: Axes, curve: Curve, colour: str) -> None:
    x, found = np.asarray(curve.x, float), np.asarray(curve.found, float)
    checks.shaped("found", found, x.shape, "One number for each place.")
    few = len(x) <= FEW
    style = "none" if few and curve.law is not None else "-"
    ax.plot(
        x, found, color=colour, label=curve.name or "_", linestyle=style, linewidth=1.4 if few else 2.2,
        marker="o" if few else None, markersize=6, zorder=2, gid="found",
    )  # fmt: skip
    if curve.law is not None:
        law = np.broadcast_to(np.asarray(curve.law, float), x.shape)
        ax.plot(x, law, color=colour if few else INK, linestyle=(0, (4, 2)), linewidth=1.4, zorder=2.5, gid="law")

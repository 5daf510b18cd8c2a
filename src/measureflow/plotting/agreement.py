"""Checks as pictures: measured numbers against what was predicted, with what is allowed as a band.

A check of many numbers has a panel of its own, measured against predicted; where the band would be too thin to be seen, a second
one shows how far they are apart. Checks of single numbers share a panel, a row for each.
"""

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import MaxNLocator

from measureflow.plotting.colours import INK, PALETTE
from measureflow.plotting.layout import AnyFigure, label_axes, page
from measureflow.plotting.predictions import BAND
from measureflow.plotting.scales import is_wide, plain_ticks

MANY = 3
"""From so many numbers on, a check has a panel of its own."""
THIN = 0.02
"""A band of less than this part of the range of the numbers cannot be seen."""
TITLE = 36
"""Letters in a line of a title."""
MOST_ACROSS = 3
"""Panels side by side."""
PANEL, ROW = 3.7, 0.5
"""Heights in inches."""
LETTERS = 13.0
"""Of a row's text in an inch."""
EDGE = 1.25
"""Where rows end: numbers beyond are drawn there."""
MARKS: dict[bool, dict[str, Any]] = {
    True: dict(marker="o", color=PALETTE[0]),
    False: dict(marker="X", color=PALETTE[1]),
}
LAW: dict[str, Any] = dict(color=INK, linestyle=(0, (4, 2)), linewidth=1.2, zorder=1, gid="law")


@runtime_checkable
class Compared(Protocol):
    """Numbers that were predicted and measured: they agree within a tolerance, or one is a bound (`at most`, `at least`)."""

    @property
    def what(self) -> str: ...  # noqa: D102
    @property
    def relation(self) -> str: ...  # noqa: D102
    @property
    def predicted(self) -> Any: ...  # noqa: D102
    @property
    def measured(self) -> Any: ...  # noqa: D102
    @property
    def tolerance(self) -> Any: ...  # noqa: D102


def checks_figure(checks: Sequence[Compared], *, figure: AnyFigure | None = None) -> AnyFigure:
    """Draw all checks: a panel or two for each that has many numbers, and the others as rows of one."""
    panels = [(draw, check) for check in checks if np.size(check.measured) >= MANY for draw in _ways(check)]
    rows = [check for check in checks if np.size(check.measured) < MANY]
    across = 2 if len(panels) == 4 else min(len(panels), MOST_ACROSS)
    down = -(-len(panels) // max(across, 1))
    heights = [PANEL * down] * bool(panels) + [_height(rows)] * bool(rows)
    figure = page(figure, max(4.3 * across, 7.6 * bool(rows)), sum(heights), h_pad=0.1, w_pad=0.1)
    parts = list(figure.subfigures(len(heights), 1, squeeze=False, height_ratios=heights)[:, 0])
    if rows:
        draw_rows(parts.pop().subplots(), rows)
    for place, (draw, check) in enumerate(panels):
        draw(parts[0].add_subplot(down, across, place + 1), check)
    return figure


def add_rows(figure: Figure, checks: Sequence[Compared]) -> Figure:
    """Make a figure taller and draw checks below what it shows, a row for each; return the figure."""
    width, height = figure.get_size_inches()
    tall = _height(checks)
    share = tall / (height + tall)
    figure.set_size_inches(width, height + tall)
    engine = figure.get_layout_engine()
    if isinstance(engine, ConstrainedLayoutEngine):
        engine.set(rect=(0, share, 1, 1 - share))
    edge = 0.25 / width
    draw_rows(figure.add_axes((edge, share * 0.75 / tall, 1 - 2 * edge, share * (1 - 0.95 / tall))), checks)
    return figure


def draw_agreement(ax: Axes, check: Compared) -> Axes:
    """Draw measured against predicted numbers, or against their place where the prediction is one number; return the axes."""
    predicted, measured, tolerance = _flat(check)
    alike = bool(np.ptp(predicted) == 0)
    x = np.arange(1.0, len(measured) + 1) if alike else predicted
    wide = is_wide(np.append(predicted, measured))
    order = np.argsort(x)
    low, high = _allowed(check.relation, predicted, tolerance)
    _draw_dots(ax, x, measured, (low <= measured) & (measured <= high))
    ax.plot(x[order], predicted[order], **LAW)
    ax.margins(0.06)
    if wide:
        ax.set_yscale("log")
        plain_ticks(ax.yaxis)
    if wide and not alike:
        ax.set_xscale("log")
        plain_ticks(ax.xaxis)
    _shade(ax, x[order], low[order], high[order])
    if alike:
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    word = {"equal": "predicted", "at most": "at most", "at least": "at least"}[check.relation]
    return label_axes(
        ax, "entry" if alike else word, "measured", _title(check, f"{word} {predicted[0]:.4g}" if alike else "")
    )


def draw_differences(ax: Axes, check: Compared) -> Axes:
    """Draw how far measured numbers are from predicted ones, over what is allowed, and return the axes."""
    predicted, measured, tolerance = _flat(check)
    alike = bool(np.ptp(predicted) == 0)
    far = np.abs(measured - predicted)
    # Exact agreement has no logarithm; it is drawn where a last place is.
    floor = np.finfo(float).eps * max(np.abs(predicted).max(), np.abs(measured).max(), tolerance.max(), 1e-300)
    _draw_dots(ax, np.arange(1.0, len(far) + 1) if alike else predicted, np.maximum(far, floor), far <= tolerance)
    ax.set_yscale("log")
    ax.margins(0.06)
    top = tolerance.max()
    ax.axhline(top, **LAW)
    ax.set_ylim(min(floor, far.max(initial=floor)) / 3, max(top, far.max()) * 10)
    ax.axhspan(ax.get_ylim()[0], top, **BAND)
    title = _title(check, f"{predicted[0]:.4g} within {top:.2g}" if alike else f"within {top:.2g}")
    return label_axes(ax, "entry" if alike else "predicted", "|measured − predicted|", title)


def draw_rows(ax: Axes, checks: Sequence[Compared]) -> Axes:
    """Draw checks, a row for each, with a dot for each number, the prediction at 0 and what is allowed as a band.

    A tolerance is drawn from -1 to 1. A bound is drawn in units of the larger of the two numbers.
    """
    room = LETTERS * ax.get_figure(root=True).get_size_inches()[0]  # pyright: ignore[reportOptionalMemberAccess]
    for row, check in enumerate(checks):
        predicted, measured, tolerance = _flat(check)
        low, high = _allowed(check.relation, predicted, tolerance)
        sizes = np.maximum(np.maximum(np.abs(predicted), np.abs(measured)), np.maximum(tolerance, 1e-300))
        unit = np.where((check.relation == "equal") & (tolerance > 0), tolerance, sizes)
        edges = np.clip([((low - predicted) / unit).max(), ((high - predicted) / unit).min()], -EDGE, EDGE)
        ax.fill_betweenx([row - 0.32, row + 0.32], *np.where(np.abs(edges) < 0.01, [-0.01, 0.01], edges), **BAND)
        ax.plot([0.0, 0.0], [row - 0.32, row + 0.32], **LAW)
        places = np.clip((measured - predicted) / unit, -0.96 * EDGE, 0.96 * EDGE)
        _draw_dots(ax, places, np.full(len(places), float(row)), (low <= measured) & (measured <= high))
        said = _said(check)
        ax.text(-EDGE, row - 0.36, said, fontsize=8.5 * min(1.0, room / len(said)), color=INK, va="bottom")
    ax.set(xlim=(-1.04 * EDGE, 1.04 * EDGE), ylim=(len(checks) - 0.45, -0.95), yticks=[], xticks=[-1, 0, 1])
    ax.set_xticklabels(["−1", "prediction", "+1"])
    label_axes(ax, "measured − predicted, over what is allowed", "")
    ax.spines["left"].set_visible(False)
    return ax


def _said(check: Compared) -> str:
    """A check in a line: its numbers, or of many how many there are."""
    predicted, measured, tolerance = _flat(check)
    word = {"equal": "=", "at most": "≤", "at least": "≥"}[check.relation]
    within = f" ± {tolerance.max():.2g}" if tolerance.any() else ""
    if len(measured) == 1:
        return f"{check.what}:  {word} {predicted[0]:.5g}{within},  measured {measured[0]:.5g}"
    if np.ptp(predicted) == 0:
        return f"{check.what}:  {len(measured)} numbers {word} {predicted[0]:.5g}{within}"
    return f"{check.what}:  {len(measured)} numbers, each {word} its own{within}"


def _height(rows: Sequence[Compared]) -> float:
    return ROW * len(rows) + 1.1


def _ways(check: Compared) -> list[Any]:
    """How the numbers of a check are drawn: themselves, their differences, or both."""
    predicted, measured, tolerance = _flat(check)
    scale = np.abs(np.append(predicted, measured)).max()
    if check.relation != "equal" or not tolerance.max() or (predicted.any() and tolerance.max() > THIN * scale):
        return [draw_agreement]
    return [draw_differences] if np.ptp(predicted) == 0 else [draw_agreement, draw_differences]


def _flat(check: Compared) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    parts = np.broadcast_arrays(check.predicted, check.measured, check.tolerance)
    predicted, measured, tolerance = (np.asarray(part, float).ravel() for part in parts)
    return predicted, measured, tolerance


def _allowed(relation: str, predicted: np.ndarray, tolerance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    low = np.full_like(predicted, -np.inf) if relation == "at most" else predicted - tolerance
    high = np.full_like(predicted, np.inf) if relation == "at least" else predicted + tolerance
    return low, high


def _shade(ax: Axes, x: np.ndarray, low: np.ndarray, high: np.ndarray) -> None:
    """Shade what is allowed up to the edges of the axes, which stay where they are."""
    bottom, top = ax.get_ylim()
    ax.fill_between(x, np.maximum(low, bottom), np.minimum(high, top), **BAND)
    ax.set_ylim(bottom, top)


def _draw_dots(ax: Axes, x: Any, y: Any, holds: Any) -> None:
    """Dots for numbers that are allowed, crosses for the others."""
    size = float(np.clip(1500 / max(np.size(y), 1), 7, 40))
    for good in (True, False):
        if (holds == good).any():
            chosen = np.broadcast_to(holds == good, np.shape(y))
            ax.scatter(np.asarray(x)[chosen], np.asarray(y)[chosen], s=size, edgecolors="white", linewidths=0.3, zorder=2,
                       gid="found", **MARKS[good])  # fmt: skip


def _title(check: Compared, more: str) -> str:
    parts = [check.what] + ([more] if more else [])
    joined = ": ".join(parts)
    if len(joined) <= TITLE:
        return joined
    words, lines = joined.split(), [""]
    for word in words:
        if len(lines[-1]) + len(word) > TITLE:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return "\n".join(lines)

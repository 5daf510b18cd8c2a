"""Training against its mean-field equation: the error over numbers of particles and steps, and its bound."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

from measureflow.annotations import Numbers
from measureflow.plotting.captions import write_title
from measureflow.plotting.colours import FAINT, INK, PALETTE
from measureflow.plotting.layout import AnyFigure, panels


def budget_figure(
    counts: Numbers,
    steps: Numbers,
    total: Numbers,
    bounds: Numbers,
    *,
    noun: str = "heads",
    title: str = "",
    figure: AnyFigure | None = None,
) -> AnyFigure:
    """Draw measured errors `total` `(N, eps, repetition)` with bars for 90% of them, and `bounds` `(N, eps)`."""
    counts, steps, total, bounds = (np.asarray(part, float) for part in (counts, steps, total, bounds))
    figure, (left, right) = panels(2, width=6.0, height=4.6, figure=figure)
    names = [f"step {step:g}" for step in steps]
    _draw(left, counts, total.swapaxes(0, 1), bounds.T, names, f"number N of {noun}")
    names = [f"{n:.0f} {noun}" for n in counts]
    _draw(right, steps, total, bounds, names, "step ε")
    write_title(figure, title, 14)
    return figure


def _draw(ax: Axes, across: np.ndarray, total: np.ndarray, bounds: np.ndarray, names: list[str], word: str) -> None:
    """One line a row of `total`, over its columns, with the bound of the row dashed."""
    order = np.argsort(across)
    for k, name in enumerate(names):
        colour, values = PALETTE[k % len(PALETTE)], total[k][order]
        low, high = np.quantile(values, [0.05, 0.95], axis=-1)
        apart = across[order] * (1 + 0.03 * (k - (len(names) - 1) / 2))
        ax.vlines(apart, low, high, color=colour, linewidth=2, alpha=0.45)
        ax.plot(apart, values.mean(-1), "o-", color=colour, linewidth=2, markersize=5, label=name, gid="found")
        ax.plot(across[order], bounds[k][order], "--", color=colour, linewidth=1.2, gid="law")
    ax.plot([], [], "--", color=INK, linewidth=1.2, label="bound of 95% of runs")
    ax.plot([], [], "|", color=FAINT, markersize=12, markeredgewidth=2, label="90% of runs")
    ax.set(xscale="log", yscale="log")
    ax.set_xticks(across[order], [f"{value:g}" for value in across[order]])
    ax.xaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.yaxis.set_minor_formatter(NullFormatter())
    ax.legend(fontsize=10, frameon=False, ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    ax.set_xlabel(word, fontsize=12, color=INK)
    ax.set_ylabel("largest error of the risk over the run", fontsize=12, color=INK)
    ax.tick_params(labelsize=10, colors=INK)
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color(FAINT)

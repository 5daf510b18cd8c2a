"""Oversmoothing in a graph network: how features fade with depth, and how fast for each strength of residuals."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes

from measureflow.annotations import Numbers
from measureflow.plotting.captions import write_title
from measureflow.plotting.colours import FAINT, INK, PALETTE
from measureflow.plotting.layout import AnyFigure, label_axes, panels


class SimilarityDecay(NamedTuple):
    """Logarithms of the similarities of several runs `(runs, layers + 1)`, and the rate that theory gives, where it gives one."""

    name: str
    log_similarities: Numbers
    rate: float | None = None


def smoothing_figure(
    decays: Sequence[SimilarityDecay],
    alphas: Numbers,
    rates: Numbers,
    *,
    chosen: tuple[float, float],
    levels: dict[str, float],
    lost: float,
    law: str,
    floor: float | None = None,
    title: str = "",
    figure: AnyFigure | None = None,
) -> AnyFigure:
    """Draw how similarities decay over layers on the left, and the rate over the residual strength on the right.

    `alphas` and `rates` are the curve on the right, which is called `law`; `chosen` is the strength of the runs and the
    rate that was measured, and `levels` are rates with names. Below a similarity of `lost` features
    are lost; below `floor` they are rounding errors.
    """
    figure, (left, right) = panels(2, width=6.0, height=4.6, figure=figure)
    for k, decay in enumerate(decays):
        _draw_decay(left, decay, PALETTE[k])
    left.axhline(np.log10(lost), color=FAINT, linewidth=1, zorder=0)
    _name(left, np.log10(lost), f"features lost, μ = {lost:g}")
    if floor is not None and any(np.any(np.asarray(one.log_similarities) < np.log(floor)) for one in decays):
        left.axhline(np.log10(floor), color=FAINT, linewidth=1, linestyle=":", zorder=0)
        _name(left, np.log10(floor), "below: rounding", right=True)
    if any(one.rate is not None for one in decays):
        left.plot([], [], "--", color=INK, linewidth=1.4, label="slope of the formula")
    left.plot([], [], color=FAINT, alpha=0.4, linewidth=7, label="90% of runs")
    label_axes(left, "layer", "log₁₀ of the similarity μ")
    left.legend(fontsize=10, frameon=False, labelcolor=INK, loc="best")
    _draw_rates(right, np.asarray(alphas, float), np.asarray(rates, float), chosen, levels, law)
    write_title(figure, title, 14)
    return figure


def _draw_decay(ax: Axes, decay: SimilarityDecay, colour: str) -> None:
    curves = np.asarray(decay.log_similarities, float) / np.log(10)
    curves = np.where(np.isfinite(curves), curves, np.nan)
    curves = curves[:, : int(np.isfinite(curves).any(0).sum())]  # up to where features died in all runs
    layers, middle = np.arange(curves.shape[1]), np.nanmedian(curves, axis=0)
    ax.fill_between(layers, *np.nanquantile(curves, [0.05, 0.95], axis=0), color=colour, alpha=0.25, linewidth=0)
    ax.plot(layers, middle, color=colour, linewidth=2.2, label=decay.name, gid="found")
    if decay.rate is not None and decay.rate > 0:
        law = middle[-1] + (layers - layers[-1]) * np.log10(decay.rate)
        ax.plot(layers, np.where(law <= 1e-9, law, np.nan), "--", color=INK, linewidth=1.4, gid="law")


def _draw_rates(
    ax: Axes,
    alphas: np.ndarray,
    rates: np.ndarray,
    chosen: tuple[float, float],
    levels: dict[str, float],
    law: str,
) -> None:
    ax.plot(alphas, rates, "--", color=INK, linewidth=1.4, label=law, gid="law")
    ax.plot(*chosen, "o", color=PALETTE[1], markersize=8, label=f"measured at α = {chosen[0]:g}", gid="found")
    for word, level in levels.items():
        ax.axhline(level, color=FAINT, linewidth=1, zorder=0)
        _name(ax, level, word, right=bool(level > rates[-1]))
    ax.set_xscale("log")
    ax.margins(y=0.1)
    label_axes(ax, "residual strength α", r"rate $\mu^{1/t}$ per layer")
    ax.legend(fontsize=10, frameon=False, labelcolor=INK, loc="center left")


def _name(ax: Axes, height: float, word: str, right: bool = False) -> None:
    """Write a word above a level."""
    ax.annotate(
        word, (0.99 if right else 0.01, height), xycoords=("axes fraction", "data"), xytext=(0, 3),
        textcoords="offset points", ha="right" if right else "left", fontsize=9, color=INK,
    )  # fmt: skip

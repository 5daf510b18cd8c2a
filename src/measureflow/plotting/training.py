"""A training run on one page: risk, dissipation, the cloud of heads, and the spectra that decide its stability."""

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from measureflow.plotting.marks import FAINT, INK, PALETTE
from measureflow.plotting.recorded import Recorded
from measureflow.plotting.words import wrapped
from measureflow.wording import rounding


def training_figure(
    run: Recorded,
    *,
    invariants: ArrayLike,
    splitting: ArrayLike,
    translation: ArrayLike,
    limit: ArrayLike | None = None,
    limit_heads: int = 0,
    baselines: Mapping[str, float] | None = None,
) -> Figure:
    """Draw a training run.

    `invariants` `(2, n, g)` are gauge-invariant coordinates of the heads at both ends; `splitting` and `translation`
    are eigenvalues of `H` and `H_tr` at the end; `limit` is the risk of very many heads at the same times, and `baselines`
    are risks without heads by their names.
    """
    figure = Figure(figsize=(12, 7.5), dpi=150, layout="constrained")
    (a, b), (c, d) = figure.subplots(2, 2)
    risk = run.series["risk"]
    draw_risk(a, run.times, risk.values, limit=limit, limit_heads=limit_heads, baselines=baselines, name=risk.label)
    draw_dissipation(b, run.times, run.series["dissipation"].values)
    draw_heads(c, *np.asarray(invariants))
    draw_spectra(d, splitting, translation)
    figure.suptitle(wrapped(run.title), fontsize=14, color=INK, parse_math=False)
    return figure


def draw_risk(
    ax: Axes,
    times: ArrayLike,
    risk: ArrayLike,
    *,
    limit: ArrayLike | None = None,
    limit_heads: int = 0,
    baselines: Mapping[str, float] | None = None,
    name: str = "risk",
) -> Axes:
    """Draw the risk over time, over that of very many heads and over baselines if they are given, and return the axes."""
    times = np.asarray(times, float)
    if limit is not None:
        count = min(len(times), np.size(limit))
        label = f"{limit_heads} heads: the mean-field limit"
        ax.plot(
            times[:count],
            np.asarray(limit)[:count],
            color=PALETTE[1],
            linewidth=3.5,
            alpha=0.6,
            label=label,
            gid="limit",
        )
    for word, value in (baselines or {}).items():
        ax.axhline(value, color=FAINT, linewidth=1, linestyle="--", zorder=0, gid=word)
        ax.annotate(
            word, (1, value), xycoords=("axes fraction", "data"), ha="right", va="bottom", fontsize=9, color=INK
        )
    ax.plot(times, np.asarray(risk), color=INK, linewidth=2, label="this run", gid="risk")
    if limit is not None:
        ax.legend(frameon=False, fontsize=10)
    return _dress(ax, "time t", name)


def draw_dissipation(ax: Axes, times: ArrayLike, dissipation: ArrayLike) -> Axes:
    """Draw the dissipation over time on a logarithmic axis and return the axes."""
    values = np.asarray(dissipation, float)
    ax.plot(np.asarray(times), np.where(values > 0, values, np.nan), color=INK, linewidth=2, gid="dissipation")
    if (values > 0).any():
        ax.set_yscale("log")
    return _dress(ax, "time t", "dissipation D")


def draw_heads(ax: Axes, first: ArrayLike, last: ArrayLike) -> Axes:
    """Draw heads before and after training in the two principal components of the last ones, and return the axes."""
    first, last = np.atleast_2d(np.asarray(first, float)), np.atleast_2d(np.asarray(last, float))
    centre = last.mean(0)
    axes = np.linalg.svd(last - centre, full_matrices=False)[2][:2]
    for cloud, colour, name in ((first, FAINT, "start"), (last, PALETTE[0], "end")):
        places = (cloud - centre) @ axes.T
        places = np.pad(places, ((0, 0), (0, 2 - places.shape[1])))
        ax.scatter(places[:, 0], places[:, 1], s=18, color=colour, alpha=0.7, linewidths=0, label=name, gid=name)
    ax.legend(frameon=False, fontsize=10)
    return _dress(ax, "first component of the heads", "second component")


def draw_spectra(ax: Axes, splitting: ArrayLike, translation: ArrayLike) -> Axes:
    """Draw the eigenvalues of both Hessians as two rows of ticks; what lies left of zero grows. Return the axes."""
    for row, (values, name) in enumerate(((translation, "H_tr"), (splitting, "H"))):
        values = np.asarray(values, float)
        colours = np.where(values < -rounding(values.dtype, np.abs(values).max()), PALETTE[1], PALETTE[0])
        ax.vlines(values, row + 0.1, row + 0.9, colors=colours.tolist(), linewidth=1.5, gid=name)
    ax.axvline(0.0, color=FAINT, linewidth=1)
    ax.set_yticks([0.5, 1.5], ["together: H_tr", "apart: H"])
    span = np.abs(np.concatenate([np.ravel(splitting), np.ravel(translation)]))
    if span.max() > 100 * max(np.median(span), 1e-12):
        ax.set_xscale("symlog", linthresh=max(float(np.median(span)), 1e-12))
    return _dress(ax, "eigenvalues at the end (orange: unstable)", "")


def _dress(ax: Axes, x: str, y: str) -> Axes:
    ax.set_xlabel(x, fontsize=12, color=INK)
    ax.set_ylabel(y, fontsize=12, color=INK)
    ax.tick_params(labelsize=10, colors=INK)
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color(FAINT)
    return ax

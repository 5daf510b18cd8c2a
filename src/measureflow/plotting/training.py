"""A training run on one page: risk, dissipation, the cloud of particles, and the spectra that decide its stability."""

from collections.abc import Mapping

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection

from measureflow.annotations import Numbers
from measureflow.plotting.captions import write_title
from measureflow.plotting.colours import FAINT, INK, PALETTE
from measureflow.plotting.layout import AnyFigure, label_axes, page
from measureflow.plotting.record import Recorded
from measureflow.plotting.scales import symmetric_scale
from measureflow.plotting.time_series import draw_series
from measureflow.wording import rounding

LAYER_COLOURS = matplotlib.colormaps["viridis"]
"""Colours of layers, from the first, dark, to the last."""

OVERLAPPING_NAMES = 0.05
"""The share of the height of a picture within which two names would overlap."""

FAR_OUT = 5.0
"""A point is far out at more than so many times the typical distance from the middle."""


def training_figure(
    run: Recorded,
    *,
    invariants: Numbers,
    splitting: Numbers,
    translation: Numbers,
    limit: Numbers | None = None,
    limit_error: Numbers | None = None,
    on_samples: Numbers | None = None,
    many: int = 0,
    noun: str = "heads",
    depth: int = 1,
    baselines: Mapping[str, float] | None = None,
    figure: AnyFigure | None = None,
) -> AnyFigure:
    """Draw a training run.

    `invariants` `(2, n, g)` are gauge-invariant coordinates of the particles at both ends; `splitting` and `translation`
    are eigenvalues of `H` and `H_tr` at the end; `limit` is the risk of the mean-field equation at the same times with its
    standard error, `on_samples` that of as many heads on the samples of the run, and `baselines` are risks without heads by their
    names. Particles of several layers, one after the other, are drawn by `depth`.
    """
    figure = page(figure, 12, 7.5)
    (a, b), (c, d) = figure.subplots(2, 2)
    risk = run.series["risk"]
    limits = {"limit": limit, "limit_error": limit_error, "on_samples": on_samples, "many": many, "noun": noun}
    draw_risk(a, run.times, risk.values, baselines=baselines, name=risk.label, **limits)
    draw_dissipation(b, run.times, run.series["dissipation"].values)
    if depth > 1:
        draw_layers(c, np.asarray(invariants)[-1], depth, noun)
    else:
        draw_particles(c, *np.asarray(invariants), noun=noun)
    draw_spectra(d, splitting, translation)
    write_title(figure, run.title, 14)
    return figure


def draw_risk(
    ax: Axes,
    times: Numbers,
    risk: Numbers,
    *,
    limit: Numbers | None = None,
    limit_error: Numbers | None = None,
    on_samples: Numbers | None = None,
    many: int = 0,
    noun: str = "heads",
    baselines: Mapping[str, float] | None = None,
    name: str = "risk",
) -> Axes:
    """Draw the risk over time, over its mean-field limit, many heads and baselines if they are given, and return the axes.

    A band around the limit is twice its standard error wide on both sides.
    """
    times = np.asarray(times, float)
    if limit is not None:
        limit = np.asarray(limit, float)[: len(times)]
        when, label = times[: len(limit)], f"mean-field limit, by {many} {noun}"
        ax.plot(when, limit, color=PALETTE[1], linewidth=3.5, alpha=0.6, label=label, gid="limit")
        if limit_error is not None:
            error = 2 * np.asarray(limit_error, float)[: len(limit)]
            ax.fill_between(
                when, limit - error, limit + error, color=PALETTE[1], alpha=0.15, linewidth=0, gid="limit error"
            )
    if on_samples is not None:
        noisy = np.asarray(on_samples, float)[: len(times)]
        label = f"{many} {noun} on the same samples"
        ax.plot(
            times[: len(noisy)],
            noisy,
            color=PALETTE[0],
            linewidth=1.2,
            linestyle=(0, (2, 1.5)),
            label=label,
            gid="on samples",
        )
    for words, value in _joined(baselines or {}, float(np.ptp(np.asarray(risk, float)))):
        ax.axhline(value, color=FAINT, linewidth=1, linestyle="--", zorder=0, gid=words[0])
        at = {"xycoords": ("axes fraction", "data"), "ha": "right", "va": "bottom"}
        ax.annotate(", ".join(words), (1, value), **at, fontsize=9, color=INK)
    ax.plot(times, np.asarray(risk), color=INK, linewidth=2, label="this run", gid="risk")
    if limit is not None:
        ax.legend(frameon=False, fontsize=10)
    return label_axes(ax, "time t", name)


def _joined(lines: Mapping[str, float], span: float) -> list[tuple[list[str], float]]:
    """Lines with their names; those that would lie on each other in a picture are one."""
    found: list[tuple[list[str], float]] = []
    for word, value in sorted(lines.items(), key=lambda line: line[1], reverse=True):
        if found and abs(found[-1][1] - value) < OVERLAPPING_NAMES * span:
            found[-1][0].append(word)
        else:
            found.append(([word], value))
    return found


def draw_dissipation(ax: Axes, times: Numbers, dissipation: Numbers) -> Axes:
    """Draw the dissipation over time, in logarithms if it spans decades, and return the axes."""
    values = np.asarray(dissipation, float)
    draw_series(ax, times, np.where(values > 0, values, np.nan), "dissipation D", gid="dissipation")
    return label_axes(ax, "time t", "dissipation D")


def draw_particles(ax: Axes, first: Numbers, last: Numbers, noun: str = "heads") -> Axes:
    """Draw the ways of particles from start to end in the two principal components of the last ones, and return the axes.

    A few far out do not set the scale: their ways leave the picture, which says how many.
    """
    first, last = np.atleast_2d(np.asarray(first, float)), np.atleast_2d(np.asarray(last, float))
    bulk = last[_central(last - np.median(last, 0))]
    centre = bulk.mean(0)
    axes = np.linalg.svd(bulk - centre, full_matrices=False)[2][:2]
    ends = [np.pad((cloud - centre) @ axes.T, ((0, 0), (0, 2 - len(axes)))) for cloud in (first, last)]
    ways = LineCollection(list(np.stack(ends, 1)), colors=FAINT, linewidths=0.7, alpha=0.6, zorder=1, gid="ways")
    ax.add_collection(ways)
    for places, colour, name in zip(ends, (FAINT, PALETTE[0]), ("start", "end"), strict=True):
        ax.scatter(*places.T, s=18, color=colour, alpha=0.8, linewidths=0, label=name, zorder=2, gid=name)
    outside = _frame(ax, ends)
    ax.legend(frameon=False, fontsize=10, title=outside or None, title_fontsize=10)
    return label_axes(ax, f"first component of the {noun}", "second component")


def draw_layers(ax: Axes, last: Numbers, depth: int, noun: str = "heads") -> Axes:
    """Draw the last particles of several layers in two principal components that all share, by depth, and return the axes."""
    heads = np.asarray(last, float)
    layers = heads.reshape(len(heads), depth, -1)
    flat = layers.reshape(len(heads) * depth, -1)
    bulk = flat[_central(flat - np.median(flat, 0))]
    axes = np.linalg.svd(bulk - bulk.mean(0), full_matrices=False)[2][:2]
    places = (layers - bulk.mean(0)) @ axes.T
    for layer, colour in enumerate(LAYER_COLOURS(np.linspace(0.1, 0.85, depth))):
        ax.scatter(
            *places[:, layer].T, s=18, color=colour, linewidths=0, label=f"layer {layer + 1}", gid=f"layer {layer + 1}"
        )
    outside = _frame(ax, [places.reshape(-1, 2)])
    ax.legend(frameon=False, fontsize=10, title=outside or None, title_fontsize=10)
    return label_axes(ax, f"first component of the {noun}", "second component")


def _central(offsets: np.ndarray) -> np.ndarray:
    """Which points are not far out: within some times the median distance from the middle."""
    away = np.linalg.norm(offsets, axis=1)
    return away <= FAR_OUT * max(float(np.median(away)), np.finfo(float).tiny)


def _frame(ax: Axes, ends: list[np.ndarray]) -> str:
    """Set limits around what is not far out at either end, and say how many of the last places are outside."""
    inside = np.concatenate([places[_central(places - np.median(places, 0))] for places in ends])
    low, high = inside.min(0), inside.max(0)
    room = 0.08 * np.maximum(high - low, np.finfo(float).tiny)
    ax.set(xlim=(low[0] - room[0], high[0] + room[0]), ylim=(low[1] - room[1], high[1] + room[1]))
    last = ends[-1]
    outside = int((~np.all((last >= low - room) & (last <= high + room), axis=1)).sum())
    return f"{outside} of {len(last)} end outside" if outside else ""


def draw_spectra(ax: Axes, splitting: Numbers, translation: Numbers) -> Axes:
    """Draw the eigenvalues of both Hessians as two rows of ticks; what lies left of zero grows. Return the axes."""
    for row, (values, name) in enumerate(((translation, "H_tr"), (splitting, "H"))):
        values = np.asarray(values, float)
        colours = np.where(values < -rounding(values.dtype, np.abs(values).max()), PALETTE[1], PALETTE[0])
        ax.vlines(values, row + 0.1, row + 0.9, colors=colours.tolist(), linewidth=1.5, gid=name)
    ax.axvline(0.0, color=FAINT, linewidth=1)
    ax.set_yticks([0.5, 1.5], ["together: H_tr", "apart: H"])
    values = np.concatenate([np.ravel(splitting), np.ravel(translation)]).astype(float)
    middle = max(float(np.median(np.abs(values))), 1e-12)
    if np.abs(values).max() > FAR_OUT**2 * middle:
        symmetric_scale(ax, "x", values, middle)
    return label_axes(ax, "eigenvalues at the end (orange: unstable)", "")

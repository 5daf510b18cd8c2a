"""A run on one page: the tokens at four telling times above, the energy and the number of clusters below."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator, ScalarFormatter
from numpy.typing import ArrayLike

from measureflow import checks
from measureflow.plotting.marks import FAINT, INK
from measureflow.plotting.tokens import draw_tokens
from measureflow.plotting.view import view_of
from measureflow.plotting.words import caption, short_times, wrapped
from measureflow.spaces import AbstractSpace, Sphere

DECADES = 1.3
"""A positive series that spans more powers of ten than this is drawn, and its progress measured, in logarithms."""


def telling_frames(series: ArrayLike) -> tuple[int, ...]:
    """The first and last frame and two between: where a third and two thirds of the change have happened.

    The change is the way the series (an energy, or a number of clusters) has travelled up and down, in logarithms
    where `run_figure` draws logarithms. Indices increase strictly; with fewer than four frames they are all of them.
    For `[0, 1, 2, 3, 3, 3]` they are 0, 1, 2 and 5.
    """
    checks.shaped("series", series, ("k",), "One number for each frame.")
    k = np.size(series)
    if k < 4:
        return tuple(range(k))
    steps = np.abs(np.diff(_as_drawn(series), prepend=np.nan))
    way = np.cumsum(np.where(np.isfinite(steps), steps, 0.0))
    way = way / way[-1] if way[-1] > 0 else np.linspace(0, 1, k)
    second = min(max(int(np.argmax(way >= 1 / 3 - 1e-12)), 1), k - 3)
    third = min(max(int(np.argmax(way >= 2 / 3 - 1e-12)), second + 1), k - 2)
    return 0, second, third, k - 1


def run_figure(
    times: ArrayLike,
    points: ArrayLike,
    space: AbstractSpace,
    energy: ArrayLike,
    clusters: ArrayLike,
    labels: ArrayLike | None = None,
    title: str = "",
    *,
    frames: ArrayLike | tuple[int, ...] | None = None,
    weights: ArrayLike | None = None,
) -> Figure:
    """Draw a run of `k` frames of `n` tokens: `points` is `(k, n, dim)`, `energy` and `clusters` are `(k,)`.

    `labels` `(n,)` are the clusters at the last time and give the colours. `frames` are the indices of the frames to
    show, up to four; by default the telling ones of the energy.
    """
    times, points = np.asarray(times, float), np.asarray(points, float)
    checks.shaped("points", points, ("k", "n", space.dim), "Frames, tokens, coordinates.")
    for name, series in (("times", times), ("energy", energy), ("clusters", clusters)):
        checks.shaped(name, series, (len(points),), "One number for each frame.")
    shown = _shown(frames, energy, len(points))
    figure = Figure(figsize=(12, 7), dpi=150, layout=ConstrainedLayoutEngine(h_pad=0.1, w_pad=0.1, hspace=0.02))
    above, below = figure.subfigures(2, 1, squeeze=False, height_ratios=(1.2, 1.0))[:, 0]
    _draw_row(above.subplots(1, len(shown), squeeze=False)[0], times, points, space, labels, weights, shown)
    left, right = below.subplots(1, 2)
    draw_energy(left, times, energy, marked=shown)
    draw_clusters(right, times, clusters, marked=shown)
    figure.suptitle(wrapped(title), fontsize=15 if len(title) <= 100 else 12.5, color=INK, parse_math=False)
    figure.supxlabel(caption(labels, space), fontsize=9.5, color="#606060")
    return figure


def draw_energy(ax: Axes, times: ArrayLike, energy: ArrayLike, *, marked: tuple[int, ...] = ()) -> Axes:
    """Draw the interaction energy against time, with thin lines at the marked frames, and return the axes."""
    return draw_series(ax, times, energy, "interaction energy E", marked=marked, gid="energy")


def draw_series(
    ax: Axes, times: ArrayLike, series: ArrayLike, name: str, *, marked: tuple[int, ...] = (), gid: str = "series"
) -> Axes:
    """Draw a number against time, in logarithms if it spans decades; thin lines at the marked frames. Return the axes."""
    times, series = np.asarray(times, float), np.asarray(series, float)
    ax.plot(times, series, color=INK, linewidth=2.2, marker="o" if len(times) == 1 else None, gid=gid)
    if _wide(series):
        _log_scale(ax, series)
    else:
        ax.yaxis.set_major_formatter(ScalarFormatter(useMathText=True))
    _dress(ax, times, name, marked)
    ax.plot(times[list(marked)], series[list(marked)], "o", color=INK, markersize=6, markeredgecolor="white")
    return ax


def draw_clusters(ax: Axes, times: ArrayLike, clusters: ArrayLike, *, marked: tuple[int, ...] = ()) -> Axes:
    """Draw the number of clusters against time as steps, with thin lines at the marked frames, and return the axes."""
    times, clusters = np.asarray(times, float), np.asarray(clusters, float)
    ax.step(times, clusters, where="post", color=INK, linewidth=2.2, gid="clusters")
    if _wide(clusters):
        ax.set_yscale("log")
        ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if np.nanmax(clusters) < 2000 else (1.0,)))
        ax.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
        ax.yaxis.set_minor_locator(NullLocator())
        ax.set_ylim(0.8 * np.nanmin(clusters), 1.3 * np.nanmax(clusters))
    else:
        ax.yaxis.set_major_locator(MaxNLocator(6, integer=True))
        ax.set_ylim(0, 1.1 * np.nanmax(clusters) + 0.5)
    _dress(ax, times, "number of clusters", marked)
    ax.plot(times[list(marked)], clusters[list(marked)], "o", color=INK, markersize=6, markeredgecolor="white")
    ax.annotate(
        f"{clusters[-1]:g}", (times[-1], clusters[-1]), xytext=(9, 0), textcoords="offset points", va="center",
        fontsize=12, color=INK, annotation_clip=False,
    )  # fmt: skip
    return ax


def _shown(frames: ArrayLike | tuple[int, ...] | None, energy: ArrayLike, k: int) -> tuple[int, ...]:
    if frames is None:
        return telling_frames(energy)
    shown = tuple(np.ravel(frames).tolist())
    if not 1 <= len(shown) <= 4 or not all(isinstance(i, int) and 0 <= i < k for i in shown):
        raise ValueError(f"`frames` must be one to four indices from 0 to {k - 1}; got {shown}.")
    return shown


def _draw_row(row, times, points, space, labels, weights, shown) -> None:
    """The tokens at the shown frames, in one view; where the cloud grows much, each panel has limits of its own."""
    view = view_of(points, space)
    views = [view if isinstance(space, Sphere) else view.fitted(points[i]) for i in shown]
    if 4 * views[0].reach > views[-1].reach:  # a cloud that shrinks is better seen shrinking
        views = [view] * len(shown)
    for ax, i, own, name in zip(row, shown, views, short_times(times[list(shown)]), strict=True):
        draw_tokens(ax, points[i], space, labels=labels, weights=weights, view=own)
        ax.set_title(f"t = {name}", fontsize=14, color=INK)
        if ax is not row[0]:
            ax.set_ylabel("")


def _dress(ax: Axes, times: np.ndarray, name: str, marked: tuple[int, ...]) -> None:
    ax.set_xlabel("time t", fontsize=13, color=INK)
    ax.set_ylabel(name, fontsize=13, color=INK)
    ax.tick_params(labelsize=11, colors=INK)
    ax.yaxis.get_offset_text().set(fontsize=11, color=INK)
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color(FAINT)
    ax.grid(axis="y", color="#E8EAEE", linewidth=0.8)
    ax.set_axisbelow(True)
    room = 0.015 * (times[-1] - times[0]) or 1.0
    ax.set_xlim(times[0] - room, times[-1] + room)
    for i in marked:
        ax.axvline(times[i], color=FAINT, linewidth=0.9, linestyle=(0, (4, 3)), zorder=1, gid="marked")


def _wide(series: ArrayLike) -> bool:
    """Whether a series is positive and spans so many powers of ten that it needs logarithms."""
    seen = np.asarray(series, float)
    seen = seen[np.isfinite(seen)]
    return bool(seen.size and seen.min() > 0 and np.log10(seen.max()) - np.log10(seen.min()) > DECADES)


def _log_scale(ax: Axes, series: np.ndarray) -> None:
    """A logarithmic axis with limits and ticks of our own, since matplotlib's overflow where energies nearly do."""
    logs = np.log10(series[np.isfinite(series)])
    room = 0.05 * np.ptp(logs)
    low, high = np.clip([logs.min() - room, logs.max() + room], -300, 300)
    ax.set_ylim(10.0**low, 10.0**high)  # before the scale, which would otherwise look for limits
    ax.set_yscale("log")
    if high - low > 3:
        powers = MaxNLocator(6, integer=True, steps=[1, 2, 3, 5, 10]).tick_values(low, high)
        ax.yaxis.set_major_locator(FixedLocator(10.0 ** powers[(low <= powers) & (powers <= high)]))
    else:
        ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        ax.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
    ax.yaxis.set_minor_locator(NullLocator())


def _as_drawn(series: ArrayLike) -> np.ndarray:
    """A series in the units of its axis, up to a factor; what cannot be drawn is not a number."""
    values = np.where(np.isfinite(series), series, np.nan)
    if _wide(values):
        return np.log10(values)
    size = np.abs(values[np.isfinite(values)]).max(initial=0.0)
    return values / size if size > 0 else values

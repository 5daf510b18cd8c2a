"""A run of tokens on one page: the tokens at four telling times above, what was watched below."""

import numpy as np
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from measureflow.annotations import Numbers
from measureflow.plotting.curves import mark_blow_up, telling_frames
from measureflow.plotting.marks import INK
from measureflow.plotting.paths import draw_over_time
from measureflow.plotting.recorded import Recorded, draw_below, drawn_series
from measureflow.plotting.tokens import draw_tokens
from measureflow.plotting.view import view_of
from measureflow.plotting.words import caption, short_times, wrapped


def run_figure(
    run: Recorded,
    *,
    labels: Numbers | None = None,
    frames: tuple[int, ...] | None = None,
    blow_up_time: float | None = None,
    letter: str = "x",
    note: str = "",
) -> Figure:
    """Draw a run of tokens; on a line, their ways over time instead of four frames.

    `labels` `(n,)` are the clusters at the last time and give the colours; negative ones are of tokens in none. `frames` are
    the indices of the frames to show, up to four; by default the telling ones of the first series that is drawn. `letter`
    names the coordinates and `note` is added to the line below the figure.
    """
    shown = _shown(frames, run)
    figure = Figure(figsize=(12, 7), dpi=150, layout=ConstrainedLayoutEngine(h_pad=0.1, w_pad=0.1, hspace=0.02))
    above, below = figure.subfigures(2, 1, squeeze=False, height_ratios=(1.2, 1.0))[:, 0]
    space = run.at(-1).space
    if space.dim == 1:
        _draw_over_time(above.subplots(), run, labels, blow_up_time, letter)
    else:
        clouds = [run.at(i) for i in shown]
        draw_row(above.subplots(1, len(shown), squeeze=False)[0], run.times[list(shown)], clouds, labels, letter)
    draw_below(below, run, marked=() if space.dim == 1 else shown, blow_up_time=blow_up_time)
    title = run.title if blow_up_time is None else f"{run.title}: blow-up at t = {blow_up_time:.4g}"
    figure.suptitle(wrapped(title), fontsize=15 if len(title) <= 100 else 12.5, color=INK, parse_math=False)
    line = "   ".join(part for part in (caption(labels, space), note) if part)
    figure.supxlabel(line, fontsize=9.5, color="#606060")
    return figure


def _draw_over_time(ax, run: Recorded, labels: Numbers | None, blow_up_time: float | None, letter: str) -> None:
    places = np.stack([np.asarray(run.at(i).points, float)[:, 0] for i in range(len(run.times))])
    draw_over_time(ax, run.times, places, labels=labels, letter=letter)
    if blow_up_time is not None:
        mark_blow_up(ax, blow_up_time)


def _shown(frames: tuple[int, ...] | None, run: Recorded) -> tuple[int, ...]:
    k, names = len(run.times), drawn_series(run)
    if frames is None:
        return telling_frames(run.series[names[0]].values if names else np.arange(k))
    if not 1 <= len(frames) <= 4 or not all(0 <= i < k for i in frames):
        raise ValueError(f"`frames` must be one to four indices from 0 to {k - 1}; got {tuple(frames)}.")
    return tuple(frames)


def draw_row(row, times: np.ndarray, clouds: list, labels: Numbers | None, letter: str) -> None:
    """The tokens at the shown frames, in one view; where the cloud grows much, each panel has limits of its own."""
    space = clouds[-1].space
    points = np.stack([np.asarray(mu.points, float) for mu in clouds])
    view = view_of(points, space, labels=labels, letter=letter)
    views = [view if space.spherical else view.fitted(cloud) for cloud in points]
    if 4 * views[0].reach > views[-1].reach:  # a cloud that shrinks is better seen shrinking
        views = [view] * len(clouds)
    for ax, mu, cloud, own, name in zip(row, clouds, points, views, short_times(times), strict=True):
        draw_tokens(ax, cloud, space, labels=labels, weights=np.asarray(mu.weights), view=own)
        ax.set_title(f"t = {name}", fontsize=14, color=INK)
        if ax is not row[0]:
            ax.set_ylabel("")

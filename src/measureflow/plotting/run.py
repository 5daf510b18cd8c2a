"""A run of tokens on one page: the tokens at four key frames above, the series below."""

import numpy as np
from matplotlib.axes import Axes

from measureflow.annotations import Numbers
from measureflow.plotting.captions import caption, short_times, write_caption
from measureflow.plotting.colours import INK
from measureflow.plotting.layout import AnyFigure, two_rows
from measureflow.plotting.paths import draw_over_time
from measureflow.plotting.record import Recorded
from measureflow.plotting.time_series import draw_series_row, mark_blow_up, run_key_frames
from measureflow.plotting.tokens import draw_tokens
from measureflow.plotting.view import View, view_of


def run_figure(
    run: Recorded,
    *,
    labels: Numbers | None = None,
    frames: tuple[int, ...] | None = None,
    blow_up_time: float | None = None,
    letter: str = "x",
    note: str = "",
    figure: AnyFigure | None = None,
) -> AnyFigure:
    """Draw a run of tokens; tokens on a line are drawn over time instead of at four frames.

    `labels` `(n,)` are the clusters at the last time and give the colours; negative ones are of tokens in none. `frames` are
    the indices of the frames to show, up to four; by default the key frames of the first series that is drawn. `letter`
    names the coordinates and `note` is added to the line below the figure.
    """
    shown, space = _shown(frames, run), run.at(-1).space
    title = run.title if blow_up_time is None else f"{run.title}: blow-up at t = {blow_up_time:.4g}"
    figure, above, below = two_rows(figure, title, (1.2, 1.0), height=7)
    if space.dim == 1:
        _draw_over_time(above.subplots(), run, labels, blow_up_time, letter)
    else:
        clouds = [run.at(i) for i in shown]
        draw_row(above.subplots(1, len(shown), squeeze=False)[0], run.times[list(shown)], clouds, labels, letter)
    draw_series_row(below, run, marked=() if space.dim == 1 else shown, blow_up_time=blow_up_time)
    write_caption(figure, "   ".join(part for part in (caption(labels, space), note) if part))
    return figure


def draw_frame(ax: Axes, run: Recorded, i: int, *, labels: Numbers | None = None, letter: str = "x") -> Axes:
    """Draw the tokens of one frame of a run as `run_figure` does, with its colours and from its side; return the axes."""
    i = range(len(run.times))[i]
    beside = sorted({*run_key_frames(run), i})
    views = _views([run.at(j) for j in beside], labels, letter)
    mu = run.at(i)
    return draw_tokens(ax, mu.points, mu.space, labels=labels, weights=mu.weights, view=views[beside.index(i)])


def draw_row(row: np.ndarray, times: np.ndarray, clouds: list, labels: Numbers | None, letter: str) -> None:
    """Draw the tokens of several frames on a row of axes, all seen from one side."""
    views = _views(clouds, labels, letter)
    for ax, mu, view, name in zip(row, clouds, views, short_times(times), strict=True):
        draw_tokens(ax, mu.points, mu.space, labels=labels, weights=np.asarray(mu.weights), view=view)
        ax.set_title(f"t = {name}", fontsize=14, color=INK)
        if ax is not row[0]:
            ax.set_ylabel("")


def _views(clouds: list, labels: Numbers | None, letter: str) -> list[View]:
    """The view of each cloud: one for all, but limits of its own for each where the cloud grows much."""
    space = clouds[-1].space
    points = np.stack([np.asarray(mu.points, float) for mu in clouds])
    view = view_of(points, space, labels=labels, letter=letter)
    views = [view if space.spherical else view.fitted(cloud) for cloud in points]
    # A cloud that shrinks is better seen shrinking.
    return [view] * len(clouds) if 4 * views[0].reach > views[-1].reach else views


def _draw_over_time(ax: Axes, run: Recorded, labels: Numbers | None, blow_up_time: float | None, letter: str) -> None:
    places = np.stack([np.asarray(run.at(i).points, float)[:, 0] for i in range(len(run.times))])
    draw_over_time(ax, run.times, places, labels=labels, letter=letter)
    if blow_up_time is not None:
        mark_blow_up(ax, blow_up_time)


def _shown(frames: tuple[int, ...] | None, run: Recorded) -> tuple[int, ...]:
    k = len(run.times)
    if frames is None:
        return run_key_frames(run)
    if not 1 <= len(frames) <= 4 or not all(0 <= i < k for i in frames):
        raise ValueError(f"`frames` must be one to four indices from 0 to {k - 1}; got {tuple(frames)}.")
    return tuple(frames)

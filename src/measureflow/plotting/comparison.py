"""Several runs in one picture: tokens drawn over their limit, or runs side by side, and the distance between them."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.patches import Ellipse

from measureflow.annotations import Numbers
from measureflow.measures import AbstractCloud
from measureflow.plotting.captions import short_times, write_caption, write_title
from measureflow.plotting.colours import FAINT, INK, PALETTE
from measureflow.plotting.density import draw_ring, draw_sphere_map, mollweide
from measureflow.plotting.layout import AnyFigure, page
from measureflow.plotting.record import Recorded
from measureflow.plotting.scales import is_wide, log_scale
from measureflow.plotting.time_series import draw_series, label_time_axes
from measureflow.plotting.tokens import draw_tokens
from measureflow.plotting.view import view_of

Frame = Mapping[str, np.ndarray]
COLOURS = {"particles": PALETTE[1], "gaussian": PALETTE[0], "mixture": PALETTE[2]}
MOST_CLOUDS = 5
"""The most runs whose tokens are drawn in one row."""
ANGLE_BINS = 72
"""Bins of a histogram of tokens on the circle: five degrees each."""
UNIFORM_DENSITY = {"circle": 1 / (2 * np.pi), "sphere": 1 / (4 * np.pi)}


PADDING = {"h_pad": 0.08, "w_pad": 0.1, "hspace": 0.03}


@runtime_checkable
class DistanceOverTime(Protocol):
    """A distance between two runs over time, and the part of it that the number of tokens alone explains."""

    @property
    def name(self) -> str:
        """What the distance is."""
        ...

    @property
    def times(self) -> np.ndarray:
        """The times at which it is known."""
        ...

    @property
    def values(self) -> np.ndarray:
        """The distance at these times."""
        ...

    @property
    def sampling(self) -> np.ndarray | None:
        """The distance of as many tokens drawn from the limit itself; None where that makes no sense."""
        ...


def overlay_figure(
    kinds: tuple[str, ...],
    shown: Mapping[float, tuple[Frame, Frame]],
    distance: DistanceOverTime,
    title: str = "",
    caption: str = "",
    *,
    figure: AnyFigure | None = None,
) -> AnyFigure:
    """Draw frames of two runs over each other, and the distance of the runs over time below.

    `kinds` are the kinds of the two measures. `shown` has the frames of both runs by their time; a frame has the arrays of its
    kind by name, as run folders have them.
    """
    wide = "sphere" in kinds  # maps are twice as wide as high: two rows of two
    figure = page(figure, 12, 9.0 if wide else 7.5, **PADDING)
    write_title(figure, title)
    above, below = figure.subfigures(2, 1, squeeze=False, height_ratios=(2.0 if wide else 1.25, 1.0))[:, 0]
    columns = min(2, len(shown)) if wide else len(shown)
    row = above.subplots(-(-len(shown) // columns), columns, squeeze=False).ravel()
    for ax in row[len(shown) :]:
        ax.set_axis_off()
    axes = _plane(kinds, list(shown.values())[-1])
    for ax, pair, when in zip(row, shown.values(), short_times(list(shown)), strict=False):
        draw_overlay(ax, kinds, pair, axes=axes)
        ax.set_title(f"t = {when}", fontsize=14, color=INK)
    write_caption(figure, caption, 10)
    draw_distance(below.subplots(), distance.times, distance.values, distance.name, sampling=distance.sampling)
    return figure


def side_by_side_figure(
    runs: Sequence[Recorded],
    names: Sequence[str],
    shared: Sequence[str],
    distances: Sequence[DistanceOverTime | None],
    *,
    last: Sequence[Any] = (),
    letter: str = "x",
    figure: AnyFigure | None = None,
) -> AnyFigure:
    """Draw the series that runs share and their distances from the first run, one colour for each run.

    `names` are those of the runs and `shared` those of the series. Above them are the `last` measures of the runs where these
    are tokens, with coordinates of this `letter`.
    """
    pictured = last and all(isinstance(mu, AbstractCloud) for mu in last) and len(runs) <= MOST_CLOUDS
    figure = page(figure, 12, 8.0 if pictured else 5.0, **PADDING)
    write_title(figure, " · ".join(names))
    below: Any = figure
    if pictured:
        above, below = figure.subfigures(2, 1, squeeze=False, height_ratios=(1.1, 1.0))[:, 0]
        _draw_last(above.subplots(1, len(runs), squeeze=False)[0], runs, names, last, letter)
    drawn = [name for name in shared if runs[0].series[name].drawn]
    known = [(k + 1, distance) for k, distance in enumerate(distances) if distance is not None]
    row = below.subplots(1, len(drawn) + bool(known), squeeze=False)[0]
    for ax, name in zip(row, drawn, strict=False):
        draw_shared_series(ax, runs, name, names)
    if known:
        for k, distance in known:
            row[-1].plot(distance.times, distance.values, gid="distance", **_style(k, len(runs)))
        label_time_axes(row[-1], max((distance.times for _, distance in known), key=len), f"from {names[0]}")
        row[-1].set_title(known[0][1].name, fontsize=11, color=INK)
    return figure


def _draw_last(
    row, runs: Sequence[Recorded], names: Sequence[str], clouds: Sequence[AbstractCloud], letter: str
) -> None:
    """The last tokens of each run, all seen from one side where they live on one space."""
    one_space = len({str(mu.space) for mu in clouds}) == 1
    everything = np.concatenate([np.asarray(mu.points, float) for mu in clouds]) if one_space else None
    view = None if everything is None else view_of(everything, clouds[0].space, letter=letter)
    for k, (ax, run, name, mu) in enumerate(zip(row, runs, names, clouds, strict=True)):
        colours = np.tile(to_rgb(PALETTE[k % len(PALETTE)]), (len(mu.points), 1))
        draw_tokens(ax, mu.points, mu.space, weights=mu.weights, colours=colours, view=view)
        ax.set_title(f"{name}, t = {run.times[-1]:.3g}", fontsize=12, color=INK)


def _style(k: int, count: int) -> dict[str, Any]:
    """The look of a run among several: later ones are thinner, so that curves that coincide are all seen."""
    return {"color": PALETTE[k % len(PALETTE)], "linewidth": 1.5 + 2.5 * (count - 1 - k) / max(count - 1, 1)}


def draw_shared_series(ax: Axes, runs: Sequence[Recorded], name: str, names: Sequence[str]) -> Axes:
    """Draw a series that several runs have over time, one colour for each run, and return the axes."""
    for k, (run, label) in enumerate(zip(runs, names, strict=True)):
        series = run.series[name]
        style: dict[str, Any] = _style(k, len(runs)) | {"label": label, "gid": name}
        if series.counts:
            ax.step(run.times, series.values, where="post", **style)
        else:
            ax.plot(run.times, series.values, **style)
    everything = np.concatenate([np.asarray(run.series[name].values, float) for run in runs])
    if is_wide(everything):
        log_scale(ax, everything)
    label_time_axes(ax, max((run.times for run in runs), key=lambda times: times[-1]), runs[0].series[name].label)
    ax.legend(frameon=False, fontsize=11)
    return ax


def draw_overlay(
    ax: Axes, kinds: tuple[str, ...], pair: tuple[Frame, Frame], *, axes: np.ndarray | None = None
) -> Axes:
    """Draw one frame of two kinds of measures over each other, tokens on top, and return the axes.

    In more than two dimensions `axes` `(d, 2)` are the directions of the picture.
    """
    both = dict(zip(kinds, pair, strict=True))
    for kind in sorted(both, key=lambda kind: kind == "particles"):
        frame = both[kind]
        if "circle" in both:
            _on_circle(ax, kind, frame)
        elif "sphere" in both:
            _on_sphere(ax, kind, frame)
        elif axes is None:
            _on_line(ax, kind, frame)
        else:
            _on_plane(ax, kind, frame, axes)
    return ax


def draw_distance(ax: Axes, times: Numbers, distance: Numbers, name: str, *, sampling: Numbers | None = None) -> Axes:
    """Draw a distance over time, with what the number of tokens alone explains, and return the axes."""
    draw_series(ax, times, distance, name, gid="distance")
    if sampling is not None:
        label = "as many tokens drawn from the limit at that time"
        ax.plot(times, sampling, color=PALETTE[1], linestyle="--", linewidth=1.8, label=label, gid="sampling")
        ax.lines[0].set_label("tokens of the run to the limit")
        ax.legend(frameon=False, fontsize=11)
    ax.relim()
    ax.autoscale_view(scalex=False)
    if ax.get_yscale() == "linear":
        highest = max(np.max(distance), 0.0 if sampling is None else np.max(sampling))
        ax.set_ylim(0.0, 1.08 * float(highest) or 1.0)
    return ax


def _on_circle(ax: Axes, kind: str, frame: Frame) -> None:
    if kind == "circle":
        draw_ring(ax, np.maximum(frame["density"], 0.0), peak=_peak(kind, frame))
        ax.set_gid(str(_peak(kind, frame)))
        return
    angles = np.arctan2(frame["points"][:, 1], frame["points"][:, 0])
    width = 2 * np.pi / ANGLE_BINS
    # The first bin is centred at angle zero, where the values of a ring begin.
    heights = (
        np.histogram((angles + width / 2) % (2 * np.pi), ANGLE_BINS, (0, 2 * np.pi), weights=frame["weights"])[0]
        / width
    )
    peak = float(ax.get_gid() or heights.max())
    edges = np.repeat(width * (np.arange(ANGLE_BINS + 1) - 0.5), 2)[1:-1]
    radius = 1 + 0.9 * np.repeat(np.minimum(heights / peak, 1.15), 2)
    ring = radius[:, None] * np.stack([np.cos(edges), np.sin(edges)], axis=1)
    ax.plot(*np.vstack([ring, ring[:1]]).T, color=COLOURS[kind], linewidth=1.1, gid="tokens")
    reach = max(ax.get_xlim()[1], 1.03 * np.abs(ring).max())
    ax.set(xlim=(-reach, reach), ylim=(-reach, reach))


def _on_sphere(ax: Axes, kind: str, frame: Frame) -> None:
    if kind == "sphere":
        draw_sphere_map(ax, np.maximum(frame["density"], 0.0), frame["height"], peak=_peak(kind, frame))
        return
    x, y, z = np.clip(frame["points"], -1.0, 1.0).T
    _dots(ax, *mollweide(np.arctan2(y, x), np.arcsin(z)))


def _on_plane(ax: Axes, kind: str, frame: Frame, axes: np.ndarray) -> None:
    if kind == "particles":
        _dots(ax, *(frame["points"] @ axes).T)
    else:
        _, means, covs = components(frame)
        for mean, cov in zip(means @ axes, axes.T @ covs @ axes, strict=True):
            values, vectors = np.linalg.eigh(cov)
            angle = np.rad2deg(np.arctan2(vectors[1, 1], vectors[0, 1]))
            for many in (1, 2):
                size = 2 * many * np.sqrt(np.maximum(values[::-1], 0))
                look = {"facecolor": (*to_rgb(COLOURS[kind]), 0.10), "edgecolor": COLOURS[kind], "linewidth": 1.5}
                ax.add_patch(Ellipse(mean, *size, angle=angle, zorder=3, gid=kind, **look))
    ax.set_aspect("equal", adjustable="datalim")
    ax.autoscale_view()
    ax.tick_params(labelsize=10, colors=INK)
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color(FAINT)


def _on_line(ax: Axes, kind: str, frame: Frame) -> None:
    if kind == "particles":
        ax.hist(
            frame["points"][:, 0], bins=40, weights=frame["weights"] / _width(frame["points"][:, 0], 40),
            histtype="step", color=COLOURS[kind], linewidth=1.5, gid="tokens",
        )  # fmt: skip
    else:
        weights, means, covs = components(frame)
        deviations = np.sqrt(np.maximum(covs[:, 0, 0], np.finfo(float).tiny))
        x = np.linspace((means[:, 0] - 4 * deviations).min(), (means[:, 0] + 4 * deviations).max(), 400)
        bells = np.exp(-(((x[:, None] - means[:, 0]) / deviations) ** 2) / 2) / (np.sqrt(2 * np.pi) * deviations)
        ax.fill_between(x, bells @ weights, color=COLOURS[kind], alpha=0.3, linewidth=0, gid=kind)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.set_yticks([])


def components(frame: Frame) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weights, means and covariances of a mixture, of which a Gaussian is one."""
    if "mean" in frame:
        return np.ones(1), np.atleast_2d(frame["mean"]), frame["cov"][None]
    return frame["weights"], frame["means"], frame["covs"]


def _plane(kinds: tuple[str, ...], last: tuple[Frame, Frame]) -> np.ndarray | None:
    """The directions of a picture of flat space: all of two, the widest of a limit at the end otherwise."""
    if {"circle", "sphere"} & set(kinds):
        return None
    limit = next(frame for kind, frame in zip(kinds, last, strict=True) if kind != "particles")
    weights, means, covs = components(limit)
    d = means.shape[-1]
    if d < 3:
        return None if d == 1 else np.eye(2)
    away = means - weights @ means
    whole = np.einsum("k,kde->de", weights, covs + away[:, :, None] * away[:, None, :])
    return np.linalg.eigh(whole)[1][:, :-3:-1]


def _dots(ax: Axes, x: np.ndarray, y: np.ndarray) -> None:
    size = float(np.clip(6000 / len(x), 1.5, 24.0))
    alpha = float(np.clip(600 / len(x), 0.3, 0.9))
    ax.scatter(x, y, s=size, color=COLOURS["particles"], alpha=alpha, linewidths=0, zorder=2.5, gid="tokens")


def _peak(kind: str, frame: Frame) -> float:
    """The density drawn at full height or tone: a few times the uniform one at least, so that early frames are low."""
    return max(float(frame["density"].max()), 2.5 * UNIFORM_DENSITY[kind])


def _width(values: np.ndarray, bins: int) -> float:
    return max(float(np.ptp(values)) / bins, np.finfo(float).tiny)

"""Runs side by side: what was asked differently, what came out differently, and how far they are from the first over time.

Runs of one kind with frames of one shape differ by their numbers. Otherwise the distance is one of measures: between
means and covariances (Bures and Wasserstein) where one run is a Gaussian, and else `W_2` between tokens: a density on the
circle gives its quantiles, other limits a sample. Where one run has tokens and the other is a limit, the same distance for
tokens drawn from the limit itself shows what their number alone explains. Runs that have no distance share their curves.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from measureflow.measures import (
    AbstractCloud,
    AbstractMeasure,
    AbstractSampled,
    CircleCells,
    CircleDensity,
    Gaussian,
    GaussianMixture,
    Particles,
)
from measureflow.runs.reader import Run
from measureflow.runs.reader import open as open_run
from measureflow.runs.trust import use_words_of
from measureflow.transport import wasserstein
from measureflow.transport.gaussians import gaussian_cost
from measureflow.words.settings import InputError

MOST_FRAMES = 13
"""Frames at which a distance is computed: enough for a curve, few enough for exact transport."""
DRAWS = 3
"""How often tokens are drawn from a limit to see how far they are from it: one draw may be lucky by a factor of two."""
SAME_TIME = 1e-9
"""Frames are of one time if they differ by less than this part of the last time: rounding of the same numbers."""
BLOCK = 2**22
"""Numbers of a run that a comparison holds at once; more only where one frame has more."""
TOKENS = 1000
"""Tokens that stand for a limit, and most of a run for which transport is solved by the simplex method."""

Rows = list[tuple[str, ...]]


@dataclass(frozen=True)
class Distance:
    """How far two runs are apart over the times that both have; `sampling` is what the number of tokens alone explains."""

    name: str
    pairs: np.ndarray
    times: np.ndarray
    values: np.ndarray
    sampling: np.ndarray | None = None


@dataclass(frozen=True)
class Comparison:
    """What several runs differ in."""

    runs: tuple[Run, ...]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The runs by their folders."""
        return tuple(run.path.name for run in self.runs)

    @cached_property
    def settings(self) -> Rows:
        """The options that differ; only those that were given, where words of one's own are not known here."""
        known = all(run.knows_its_words for run in self.runs)
        return _differing([_settings(run) if known else _typed(run) for run in self.runs])

    @cached_property
    def results(self) -> Rows:
        """Outcomes, costs and the last of every series."""
        return _differing([_summary(run) for run in self.runs])

    @cached_property
    def shared(self) -> list[str]:
        """The series that all runs have."""
        return [name for name in self.runs[0].series if all(name in run.series for run in self.runs)]

    @cached_property
    def distances(self) -> list[Distance | None]:
        """How far each run is from the first; None where their measures have no distance."""
        return [_apart(self.runs[0], run) for run in self.runs[1:]]


def compare(*paths: str | Path, trust: bool = False) -> Comparison:
    """Compare run folders of any kind; a file of words (`use`) that a run names is executed only if you `trust` it."""
    if len(paths) < 2:
        raise InputError(f"`compare` takes at least two run folders; got {len(paths)}.")
    runs = tuple(open_run(path) for path in paths)
    for run in runs:
        if trust:
            use_words_of(run, trust=True)
        if not run.frames:
            raise InputError(f"{str(run.path)!r} has no saved frames to compare.")
    return Comparison(runs)


def figure(found: Comparison, figure: Any = None) -> Any:
    """Draw a comparison into a figure, a new one unless given: a run over its limit, or several side by side."""
    from measureflow.plotting.comparison import overlay_figure, side_by_side_figure

    distances = found.distances
    if _drawn_over(found) and (distance := distances[0]) is not None:
        kinds = tuple(run.word.overlay for run in found.runs)
        limit = next(i for i, kind in enumerate(kinds) if kind != "particles")
        return overlay_figure(
            kinds, _pairs(found, distance, limit), distance, _title(found), _caption(kinds), figure=figure
        )
    if not found.shared and all(distance is None for distance in distances):
        raise InputError("The runs have nothing in common to draw: no series, no time, no space.")
    seen = [run.word.looked(run) for run in found.runs]
    last = [each.at(-1) for each in seen] if all(run.kept for run in found.runs) else []
    letter = "z" if all(run.look.rescaled for run in found.runs) else "x"
    return side_by_side_figure(
        found.runs, found.names, found.shared, distances, last=last, letter=letter, figure=figure
    )


def _drawn_over(found: Comparison) -> bool:
    """Whether the runs are two measures of different kinds that can be drawn over each other."""
    kinds = [run.word.overlay for run in found.runs]
    return len(kinds) == 2 and all(kinds) and len(set(kinds)) == 2


def _pairs(found: Comparison, distance: Distance, limit: int) -> dict[float, tuple[Any, Any]]:
    """The frames of both runs at telling times of the limit, by time."""
    from measureflow.plotting import key_frames

    series = next(iter(found.runs[limit].series.values())).values[distance.pairs[:, limit]]
    chosen = [(float(distance.times[k]), distance.pairs[k].tolist()) for k in key_frames(series)]
    one, other = found.runs
    return {time: (one.word.drawn(one.at(i)), other.word.drawn(other.at(j))) for time, (i, j) in chosen}


def _title(found: Comparison) -> str:
    parts = [run.at(0).described for run in found.runs]
    return " and ".join(f"{what} ({name})" for what, name in zip(parts, found.names, strict=True))


def _caption(kinds: tuple[str, ...]) -> str:
    names = {
        "particles": "Orange: tokens",
        "gaussian": "Blue: the Gaussian; ellipses are one and two standard deviations",
        "mixture": "Green: the mixture; ellipses are one and two standard deviations of a component",
        "circle": "Blue: density",
        "sphere": "Blue: density",
    }
    return ".   ".join(names[kind] for kind in kinds) + "."


@dataclass(frozen=True)
class Agreement:
    """How far the data of a run that was repeated agree with the first: the largest difference, what it is relative to the
    largest number, and the versions that differ, as (name, then, now)."""

    difference: float
    relative: float
    versions: tuple[tuple[str, str, str], ...]

    @property
    def to_the_bit(self) -> bool:
        """Whether all data are the same."""
        return self.difference == 0

    def __str__(self) -> str:
        if self.to_the_bit:
            said = "The data are the same to the bit."
        elif np.isfinite(self.difference):
            said = f"The data agree to {self.difference:.3g}, which is {self.relative:.2g} of the largest number."
        else:
            said = "The data are not comparable: times, frames or kinds of measures differ."
        if not self.versions:
            return f"{said} All versions are those of the first run."
        return f"{said} Versions that differ: {', '.join(f'{name} {was} then, {now} now' for name, was, now in self.versions)}."


def agreement(one: Run, other: Run) -> Agreement:
    """How far a run and its repetition agree, over every stored array and series, and which versions differ."""
    then, now = (_made_with(run) for run in (one, other))
    versions = tuple(
        (name, then.get(name, "none"), now.get(name, "none")) for name in then | now if then.get(name) != now.get(name)
    )
    names = [str(name) for name in one.data.variables]
    same = set(names) == {str(name) for name in other.data.variables}
    if not same or any(one.data[name].shape != other.data[name].shape for name in names):
        return Agreement(float("inf"), float("inf"), versions)
    apart = size = 0.0
    for name in names:
        for rows in _blocks(one.data[name].shape):
            a, b = (np.asarray(run.data[name][rows].values, float) for run in (one, other))
            apart = max(apart, _apart_at_most(a, b))
            size = max(size, float(np.abs(a[np.isfinite(a)]).max(initial=0.0)))
    return Agreement(apart, apart / size if size else apart, versions)


def _blocks(shape: tuple[int, ...]) -> Iterator[Any]:
    """Slices of the first dimension of an array that are in memory one at a time."""
    if not shape:
        yield ()
        return
    step = max(1, int(BLOCK // max(np.prod(shape[1:], dtype=float), 1.0)))
    for first in range(0, shape[0], step):
        yield slice(first, first + step)


def _apart_at_most(a: np.ndarray, b: np.ndarray) -> float:
    """The largest difference of two arrays; infinite if one has a number where the other has none."""
    if not np.array_equal(np.isfinite(a), np.isfinite(b)):
        return float("inf")
    return float(np.abs(a - b)[np.isfinite(a)].max(initial=0.0))


def _made_with(run: Run) -> dict[str, str]:
    info = run.info
    return dict(info.get("versions", {})) | {name: str(info.get(name)) for name in ("engine", "precision", "device")}


def common(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Pairs of indices of equal times, which increase."""
    gap = SAME_TIME * max(one[-1], other[-1], np.finfo(float).tiny)
    first, last = np.searchsorted(other, one - gap, "left"), np.searchsorted(other, one + gap, "right")
    rows = np.repeat(np.arange(len(one)), last - first)
    within = np.arange(len(rows)) - np.repeat(np.cumsum(last - first) - (last - first), last - first)
    return np.stack([rows, first[rows] + within], axis=1)


def _apart(one: Run, other: Run) -> Distance | None:
    pairs = common(one.times, other.times)
    if not (one.kept and other.kept and len(pairs)) or one.at(0).space != other.at(0).space:
        return None
    if one.word_name == other.word_name and _same_shape(one, other):
        # Tokens that grow are compared where they are bounded: by the end one would see the largest alone.
        bounded = one.look.growth is not None and other.look.growth is not None
        gaps = _bounded_differences if bounded else _differences
        name = f"largest difference of the {'rescaled ' if bounded else ''}frames"
        return Distance(name, pairs, one.times[pairs[:, 0]], gaps(one, other, pairs))
    some = pairs[np.unique(np.linspace(0, len(pairs) - 1, min(MOST_FRAMES, len(pairs))).round().astype(int))]
    found = np.array([_between(one.at(int(i)), other.at(int(j))) for i, j in some])
    kinds = {one.word_name, other.word_name}
    name = "Bures distance of moments" if "gaussian" in kinds else "Wasserstein distance W₂"
    sampling = found[:, 1] if np.isfinite(found[:, 1]).all() else None
    return Distance(name, some, one.times[some[:, 0]], found[:, 0], sampling)


def _same_shape(one: Run, other: Run) -> bool:
    names = one.word.dimensions
    return one.word_name == other.word_name and all(
        one.data[name].shape[1:] == other.data[name].shape[1:] for name in names
    )


def _differences(one: Run, other: Run, pairs: np.ndarray) -> np.ndarray:
    def gap(name: str) -> np.ndarray:
        size = len(pairs), *one.data[name].shape[1:]
        return np.concatenate([_gaps(one.data[name], other.data[name], pairs[rows]) for rows in _blocks(size)])

    return np.max([gap(name) for name in one.word.dimensions], axis=0)


def _gaps(one: Any, other: Any, pairs: np.ndarray) -> np.ndarray:
    """The largest difference in each of some pairs of frames of an array."""
    apart = np.abs(one[pairs[:, 0]].values - other[pairs[:, 1]].values)
    return apart.reshape(len(apart), -1).max(1)


def _bounded_differences(one: Run, other: Run, pairs: np.ndarray) -> np.ndarray:
    frames = [run.word.looked(run) for run in (one, other)]
    seen = ([np.asarray(frame.at(int(i)).points) for frame, i in zip(frames, pair, strict=True)] for pair in pairs)
    return np.array([np.abs(x - y).max() for x, y in seen])


def _between(mu: AbstractMeasure, nu: AbstractMeasure) -> tuple[float, float]:
    """The distance of two measures; if one is tokens, also that of fresh tokens from the limit, the root mean square of some."""
    if isinstance(nu, AbstractCloud) and not isinstance(mu, AbstractCloud):
        mu, nu = nu, mu
    if not isinstance(mu, AbstractCloud) or not isinstance(nu, AbstractSampled):
        return float(_distance(mu, nu)), np.nan
    fresh = [float(_distance(nu.sample(len(mu.points), key=key), nu)) for key in range(2, 2 + DRAWS)]
    return float(_distance(mu, nu)), float(np.sqrt(np.mean(np.square(fresh))))


@eqx.filter_jit
def _distance(mu: AbstractMeasure, nu: AbstractMeasure) -> Float[Array, ""]:
    if isinstance(mu, Gaussian) or isinstance(nu, Gaussian):
        return jnp.sqrt(gaussian_cost(*_moments(mu), *_moments(nu)))
    return wasserstein(_tokens(mu), _tokens(nu))


def _moments(mu: AbstractMeasure) -> tuple[Float[Array, " d"], Float[Array, "d d"]]:
    if isinstance(mu, Gaussian | GaussianMixture):
        return mu.mean, mu.cov
    mean = mu.expect(lambda x: x)
    return mean, mu.expect(lambda x: jnp.outer(x - mean, x - mean))


def _tokens(mu: AbstractMeasure) -> Particles:
    """Tokens that stand for a measure: quantiles on the circle, a sample of other limits, at most a number of tokens."""
    match mu:
        case AbstractCloud():
            return _some(Particles(mu.space, mu.points, mu.weights))
        case CircleDensity() | CircleCells():
            return mu.quantiles(TOKENS)
        case AbstractSampled():
            found = mu.sample(TOKENS, key=1)
            return Particles(found.space, found.points, found.weights)
        case _:
            raise TypeError(f"{type(mu).__name__} has no tokens to compare.")


def _some(mu: Particles) -> Particles:
    """The tokens, or a sample of them by weight where there are too many for the simplex method."""
    if len(mu.points) <= TOKENS or mu.space.dim <= 2:
        return mu
    chosen = jax.random.categorical(jax.random.key(0), mu.log_weights, shape=(TOKENS,))
    return Particles(mu.space, mu.points[chosen])


def _settings(run: Run) -> dict[str, str]:
    """What was asked of a run, as texts; a recorded flow has its fingerprint."""
    if run.command.name == "record":
        return {"command": "record", "measure": run.word_name, "fingerprint": run.info["fingerprint"]}
    asked = run.config.model_dump(exclude={*run.config.aside, "movie"})
    return {"command": run.command.name} | {name: _text(value) for name, value in asked.items()}


def _typed(run: Run) -> dict[str, str]:
    """What was given of the options of a run, as texts."""
    return {"command": run.command.name} | {name: _text(value) for name, value in run.words.items()}


def _summary(run: Run) -> dict[str, str]:
    last = {series.label: series.last for series in run.series.values()}
    stats = {name.replace("_", " "): _text(value) for name, value in run.stats.items()}
    head = {"outcome": run.outcome, "frames": str(run.frames), "last frame": _text(float(run.times[-1]))}
    return head | stats | last | {"seconds": _text(run.info["seconds"])}


def _differing(tables: Iterable[dict[str, str]]) -> Rows:
    tables = list(tables)
    names = {name: None for table in tables for name in table}
    rows = [(name, *(table.get(name, "") for table in tables)) for name in names]
    return [row for row in rows if len(set(row[1:])) > 1]


def _text(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else "" if value is None else str(value)

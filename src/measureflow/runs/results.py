"""Results in the hand: pictures, tables and files of a path that was never recorded, by the words that runs use.

A saved path is one `.npz` file of plain arrays: the numbers of its measures, and a text with everything else; `load` reads it
back to the same bits.
"""

import io
import json
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from measureflow import checks
from measureflow.diagnostics import Mergers
from measureflow.energies import AbstractEnergy
from measureflow.flows import Outcome, Trajectory
from measureflow.plotting import Record, Recorded
from measureflow.plotting.layout import check_axes
from measureflow.plotting.time_series import draw_run_series, mark_blow_up
from measureflow.results import frame_at
from measureflow.runs.reader import Run
from measureflow.runs.reader import open as open_run
from measureflow.runs.recorder import look_at, word_of
from measureflow.runs.report import draw as draw_run_frame
from measureflow.runs.report import figure as run_picture
from measureflow.runs.report import movie as run_movie
from measureflow.runs.report import summary_html as report_html
from measureflow.words.measures import AbstractMeasureWord
from measureflow.words.series import Watched, observed, observed_series, unnamed, watch
from measureflow.words.settings import InputError
from measureflow.words.table import nearest

FORMAT = 1
"""The version of the files of paths."""

Curves = Mapping[str, Callable[[Any], Any] | np.ndarray | Array]
"""Numbers along a path by their labels: functions of a measure, or their values at the frames."""


def record_of(
    result: Trajectory | Run, energy: AbstractEnergy | None = None, curves: Curves | None = None, title: str = ""
) -> Recorded:
    """A path or a run as tables and pictures see it, with further curves and another title if they are asked for."""
    curves = dict(curves or {})
    if isinstance(result, Run):
        curves |= {} if energy is None else {"energy": energy}
        if not curves and not title:
            return result
        series = result.series | _series_of(
            curves, result.times, list(result) if any(map(callable, curves.values())) else []
        )
        return Record(result, series, title or result.title, result.look, result.word_name)
    check_single(result)
    word_name, word = word_of(result.final)
    look = look_at(result.at(0) if result.kept is not None and len(result) else result.final, energy)
    usual = word.series(look) if result.kept is not None else ()
    declared = tuple(one for one in usual if one.where(result.final))
    values = watch(declared, np.asarray(result.times), result.measures) if declared else {}
    series = {one.name: Watched(one.name, values[one.name], **one.attributes()) for one in declared}
    series |= _series_of(curves, np.asarray(result.times), list(result) if any(map(callable, curves.values())) else [])
    series |= observed_series(observed(result.observed))
    return Record(result, series, title or result.final.described, look, word_name)


def _series_of(curves: Curves, times: np.ndarray, measures: list[Any]) -> dict[str, Watched]:
    """Curves by their labels, from functions of a measure or their values at the frames."""
    values = {label: [float(of(mu)) for mu in measures] if callable(of) else of for label, of in curves.items()}
    return {label: Watched(label, np.asarray(of), label) for label, of in values.items()}


def check_single(path: Trajectory) -> None:
    """Refuse a batch of paths, and one whose numbers are not known while JAX traces."""
    if not checks.concrete(path) or np.ndim(path.outcome.kind):
        raise ValueError(
            "Only one path at a time can be drawn or saved, outside of `jit`; take one of the batch first."
        )


def plot(
    result: Trajectory | Run,
    *,
    energy: AbstractEnergy | None = None,
    series: Curves | None = None,
    title: str = "",
    figure: Any = None,
    ax: Any = None,
    show: str | None = None,
    frame: int | None = None,
    time: float | None = None,
) -> Any:
    """Draw a path or a run into a figure, or one panel of it on axes; the docstring of `Result.plot` says how."""
    _check_request(figure, ax, show, frame, time, energy or series)
    record = record_of(result, energy, series, title)
    if ax is None:
        drawn = run_picture(record, figure)
        return shown(drawn) if figure is None else drawn
    check_axes(ax)
    if show is not None:
        return _draw_series(ax, record, show, title)
    i = frame_at(record.times, -1 if frame is None and time is None else frame, time)
    if not -len(record.times) <= i < len(record.times):
        raise IndexError(f"`frame` is {i}, but there are {len(record.times)} frames.")
    draw_run_frame(ax, record, i)
    ax.set_title(title or f"t = {record.times[i]:.4g}", fontsize=12, parse_math=False)
    return ax


def _draw_series(ax: Any, record: Recorded, show: str, title: str) -> Any:
    """Draw one series over time, given its name or its label."""
    named = {series.label: name for name, series in record.series.items()} | {name: name for name in record.series}
    if show not in named:
        known = list(record.series)
        raise InputError(f"`show` {show!r} is no series{nearest(show, known)}; known are {', '.join(known)}.")
    draw_run_series(ax, record, named[show])
    if (blow_up := record.stats.get("blow_up_time")) is not None:
        mark_blow_up(ax, blow_up)
    if title:
        ax.set_title(title, fontsize=12, parse_math=False)
    return ax


def _check_request(figure: Any, ax: Any, show: str | None, frame: int | None, time: float | None, curves: Any) -> None:
    """Refuse arguments of `plot` that contradict each other."""
    of_a_frame = frame is not None or time is not None
    rules = [
        (
            figure is not None and ax is not None,
            "`figure` takes the whole picture and `ax` one panel: give one of the two",
        ),
        (
            ax is None and (show is not None or of_a_frame),
            "`show`, `frame` and `time` choose what is drawn on `ax`: give axes, or leave them out for the whole picture",
        ),
        (show is not None and of_a_frame, "`show` draws a series over all times: leave out `frame` and `time`"),
        (frame is not None and time is not None, "`frame` is an index and `time` a time: give one of the two"),
        (
            ax is not None and show is None and bool(curves),
            "`energy` and `series` add curves to the whole picture: name the one to draw on `ax` with `show`",
        ),
    ]
    for broken, sentence in rules:
        if broken:
            raise TypeError(f"{sentence}.")


def movie(result: Trajectory | Run, file: str | Path, *, title: str = "") -> Path:
    """Write a path or a run as a moving picture."""
    return run_movie(record_of(result, title=title), file)


def dendrogram(tree: Mergers, *, log: bool = False, figure: Any = None, ax: Any = None) -> Any:
    """Draw a tree of mergers into a figure, a new one unless given, or on axes."""
    from measureflow.plotting.mergers import draw_mergers, mergers_figure

    parts = tree.times, tree.pairs, tree.groups, tree.end
    _check_request(figure, ax, None, None, None, None)
    if ax is not None:
        check_axes(ax)
        return draw_mergers(ax, *parts, log=log)
    drawn = mergers_figure(*parts, log=log, figure=figure)
    return shown(drawn) if figure is None else drawn


def shown(figure: Any) -> Any:
    """A figure that a notebook shows by itself."""

    def picture() -> bytes:
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=80)
        return buffer.getvalue()

    figure._repr_png_ = picture
    return figure


def summary_html(result: Trajectory | Run) -> str:
    """A path or a run as HTML: title, picture, table and outcome."""
    if isinstance(result, Run):
        return report_html(result)
    if not checks.concrete(result) or np.ndim(result.outcome.kind):
        return f"<div>{result!r}</div>"
    return report_html(record_of(result))


def to_xarray(result: Trajectory | Run) -> Any:
    """The frames as an xarray dataset."""
    if isinstance(result, Run):
        return result.data
    import xarray

    check_single(result)
    _, word = word_of(result.final)
    arrays = {
        name: (("time", *word.dimensions[name]), np.asarray(values))
        for name, values in word.arrays(result.measures).items()
    }
    fixed = {name: ((dimension,), values) for name, (dimension, values) in word.fixed(result.final).items()}
    seen = {name: (_named(np.asarray(values)), values) for name, values in observed(result.observed).items()}
    stats = {"outcome": str(result.outcome)} | result.stats
    return xarray.Dataset(arrays | fixed | seen, {"time": np.asarray(result.times)}, stats)


def save(result: Trajectory | Run, file: str | Path) -> Path:
    """Write a path, or a run as one, into a file of plain arrays."""
    path = _path_of(result) if isinstance(result, Run) else result
    check_single(path)
    (word_name, word), file = word_of(path.final), Path(file)
    if file.suffix != ".npz":
        raise InputError(f"`file` must end in .npz; got {str(file)!r}.")
    text = {
        "format": FORMAT,
        "measure": {"word": word_name} | word.facts(path.final),
        "engine": path.engine,
        "observed": list(observed(path.observed)),
    }
    arrays = {f"measures-{i}": leaf for i, leaf in enumerate(jax.tree.leaves(path.measures))}
    arrays |= {f"final-{i}": leaf for i, leaf in enumerate(jax.tree.leaves(path.final))}
    arrays |= {f"outcome-{name}": getattr(path.outcome, name) for name in ("kind", "time", "speed")}
    arrays |= {f"cost-{name}": value for name, value in path.costs.items()}
    arrays |= {f"observed-{name}": values for name, values in observed(path.observed).items()}
    arrays |= {f"like-{name}": values for name, values in word.drawn(path.at(0)).items()}
    np.savez_compressed(file, text=json.dumps(text), times=path.times, **arrays)
    return file


def load(file: str | Path) -> Trajectory | Run:
    """A path from its file, to the same bits, or the run in a folder.

    >>> mu = mf.Particles(mf.Euclidean(1), [[1.0], [3.0]])
    >>> file = mf.layers(mf.SoftmaxAttention.isotropic(1, beta=0.0), mu, depth=3).save("path.npz")
    >>> mf.load(file)
    Trajectory(4 frames, t = 0 to 3, 2 tokens on R, reached t = 3 in 3 steps)
    """
    file = Path(file)
    if file.is_dir():
        return open_run(file)
    try:
        with np.load(file, allow_pickle=False) as found:
            return _loaded({name: found[name] for name in found.files})
    except FileNotFoundError:
        raise InputError(f"`file`: there is no {str(file)!r}.") from None
    except (OSError, KeyError, ValueError, TypeError, zipfile.BadZipFile) as error:
        said = str(error).split("\n")[0].rstrip(".")
        raise InputError(f"`file`: {str(file)!r} is not a path that `path.save` wrote: {said}.") from None


def _loaded(found: Mapping[str, np.ndarray]) -> Trajectory:
    from measureflow.words.vocabulary import MEASURES

    text = json.loads(str(found["text"]))
    if text["format"] > FORMAT:
        raise ValueError(f"format {text['format']} is of a later version; {FORMAT} is known here")
    word: AbstractMeasureWord = MEASURES[text["measure"]["word"]]
    part = lambda prefix: {k.removeprefix(prefix): v for k, v in found.items() if k.startswith(prefix)}  # noqa: E731
    like = word.restored(text["measure"], part("like-"))
    count, structure = len(jax.tree.leaves(like)), jax.tree.structure(like)
    whole = lambda name: jax.tree.unflatten(structure, [jnp.asarray(found[f"{name}-{i}"]) for i in range(count)])  # noqa: E731
    return Trajectory(
        times=jnp.asarray(found["times"]),
        kept=whole("measures"),
        final=whole("final"),
        outcome=Outcome(**{name: jnp.asarray(value) for name, value in part("outcome-").items()}),
        frames=jnp.asarray(len(found["times"])),
        costs={name: jnp.asarray(value) for name, value in part("cost-").items()},
        engine=text["engine"],
        observed=unnamed({name: found[f"observed-{name}"] for name in text["observed"]}),
    )


def _path_of(run: Run) -> Trajectory:
    """A run in memory."""
    frames = list(run)
    if not frames:
        raise InputError(f"{str(run.path)!r} has no saved frames.")
    times = jnp.asarray(run.times)
    costs = {name: jnp.asarray(value) for name, value in run.stats.items() if isinstance(value, int | float)}
    return Trajectory(
        times=times,
        kept=jax.tree.map(lambda *leaves: jnp.stack(leaves), *frames),
        final=frames[-1],
        outcome=run.ended.of_flow(times.dtype),
        frames=jnp.asarray(len(frames)),
        costs=costs,
        engine=run.info["engine"],
    )


def _named(values: np.ndarray) -> tuple[str, ...]:
    return ("time", *(f"axis_{values.shape}_{i}" for i in range(1, values.ndim)))

"""Reports from the folder alone: the table, the picture and the moving picture of a run.

The same objects serve the command line, notebooks and whatever else shows runs.
"""

import base64
import html
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from measureflow.flows import Trajectory
from measureflow.plotting import Record, Recorded
from measureflow.runs.command import command
from measureflow.runs.reader import Run
from measureflow.wording import Report, stat_rows
from measureflow.words.series import Watched
from measureflow.words.settings import InputError
from measureflow.words.vocabulary import MEASURES

FORMATS = ("png", "pdf", "svg")


def table(run: Recorded) -> Report:
    """What a run came to: its series from first to last, what its measure says, its error and cost."""
    notes = run.command.notes(run) if isinstance(run, Run) and run.frames and _has_frames(run) else ()
    return Report(tuple(_rows(run)), notes)


def _rows(run: Recorded) -> Iterator[tuple[str, str]]:
    source = _source(run)
    if len(run.times):
        yield from ((series.label, text) for series in run.series.values() if (text := _told(series, run.times)))
        if _has_frames(run):
            yield from _describer(run).rows(run)
        if not _reached(source):
            yield "last frame", f"t = {run.times[-1]:.6g}"
    made = source.command if isinstance(source, Run) else command("record")
    yield from stat_rows(made.stats(), run.stats)
    if isinstance(source, Run):
        yield "seconds", f"{source.info['seconds']:.1f}"


def _describer(run: Recorded) -> Any:
    """Who knows the rows and the picture: the command of a run, and of anything else the word for its measure."""
    return run.command if isinstance(run, Run) else MEASURES[run.word_name]


def _source(run: Recorded) -> Run | Trajectory:
    """The folder or the path that is shown."""
    return run.source if isinstance(run, Record) else run  # pyright: ignore[reportReturnType]


def _reached(source: Run | Trajectory) -> bool:
    return source.ok if isinstance(source, Run) else bool(source.outcome.ok)


def _has_frames(run: Recorded) -> bool:
    """Whether there is what the table and the picture are made of: frames, unless the command needs none."""
    source = _source(run)
    if isinstance(source, Run):
        return source.kept or not source.command.from_frames
    return source.kept is not None


def _told(series: Watched, times: np.ndarray) -> str:
    """A series from first to last; as far as it can be told, and nothing where it starts beyond all numbers."""
    good = np.isfinite(series.values)
    if good.all():
        return f"{series.text(0)} to {series.last}"
    last = int(np.argmin(good)) - 1
    return (
        f"{series.text(0)} to {series.text(last)} at t = {times[last]:.4g}, then beyond all numbers" if good[0] else ""
    )


def figure(run: Recorded, figure: Any = None) -> Any:
    """Draw a run into a figure or subfigure, a new figure unless given, and return it."""
    _check_drawable(run)
    if _has_frames(run):
        return _describer(run).figure(run, figure)
    from measureflow.plotting.time_series import series_figure

    return series_figure(run, figure=figure)


def draw(ax: Any, run: Recorded, i: int) -> Any:
    """Draw the measure of one frame of a run on axes, and return the axes."""
    _check_drawable(run)
    source = _source(run)
    if not (source.kept if isinstance(source, Run) else source.kept is not None):
        raise InputError("No frames were kept, so there is none to draw on `ax`; name a series with `show` instead.")
    return _describer(run).draw(ax, run, i)


def movie(run: Recorded, file: str | Path) -> Path:
    """Write a run as a moving picture."""
    _check_drawable(run)
    try:
        _describer(run).movie(run, Path(file))
    except ValueError as error:
        raise InputError(str(error)) from None
    return Path(file)


def save(run: Run, *, format: str = "png", moving: bool = False) -> dict[str, Path]:
    """Write the pictures of a run into its folder, and say where."""
    written = {"picture": run.path / f"figure.{format}"}
    try:
        figure(run).savefig(written["picture"])
        if moving:
            written["movie"] = movie(run, run.path / "movie.gif")
        for name, text in run.command.pages(run).items():
            written["report"] = run.path / name
            written["report"].write_text(text, "utf-8")
    except OSError as error:
        raise InputError(f"Cannot write a picture into {str(run.path)!r}: {error.strerror or error}.") from None
    return written


def summary_html(run: Recorded) -> str:
    """A run as HTML for a notebook: title, picture, table and outcome."""
    picture = ""
    if len(run.times):
        buffer = io.BytesIO()
        figure(run).savefig(buffer, format="png", dpi=80)
        picture = f'<img src="data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}">'
    title, outcome = html.escape(run.title), html.escape(str(_source(run).outcome))
    return f"<div><b>{title}</b><br>{picture}{table(run)._repr_html_()}{outcome}</div>"


def _check_drawable(run: Recorded) -> None:
    if not len(run.times):
        raise InputError(f"{run.title!r} has no saved frames to draw.")

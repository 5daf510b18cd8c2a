"""Reports from the folder alone: the table, the picture and the moving picture of a run.

The same objects serve the command line, notebooks and whatever else shows runs.
"""

import base64
import html
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from measureflow.runs.held import Held
from measureflow.runs.reading import Run
from measureflow.runs.settings import InputError
from measureflow.wording import Report

FORMATS = ("png", "pdf", "svg")


def table(run: Run | Held) -> Report:
    """What a run came to: its series from first to last, what its measure says, its error and cost."""
    return Report(tuple(_rows(run)), run.command.notes(_as_run(run)) if run.frames else ())


def _rows(run: Run | Held) -> Iterator[tuple[str, str]]:
    if run.frames:
        yield from ((series.label, f"{series.text(0)} to {series.last}") for series in run.series.values())
        yield from run.command.rows(_as_run(run))
    stats = run.stats
    if "error" in stats:
        yield "error estimate", f"{stats['error']:.2g} in the final numbers: steps, resolution and sums"
    if "marginal_error" in stats:
        yield "marginal error", f"{stats['marginal_error']:.2g} of the Sinkhorn kernel"
    if "tokens" in stats:
        yield "tokens left", f"{stats['tokens']}, moved by at most {stats['merge_error']:.2g} when they merged"
    if "steps" in stats:
        yield "steps", f"{stats['steps']} and {stats['rejected']} rejected"
    if "seconds" in run.info:
        yield "seconds", f"{run.info['seconds']:.1f}"


def figure(run: Run | Held) -> Any:
    """The picture of a run."""
    _framed(run)
    return run.command.figure(_as_run(run))


def movie(run: Run | Held, file: str | Path) -> Path:
    """Write a run as a moving picture."""
    _framed(run)
    try:
        run.command.movie(_as_run(run), Path(file))
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
    except OSError as error:
        raise InputError(f"Cannot write a picture into {str(run.path)!r}: {error.strerror or error}.") from None
    return written


def card(run: Run | Held) -> str:
    """A run as HTML: title, picture, table and outcome."""
    picture = ""
    if run.frames:
        buffer = io.BytesIO()
        figure(run).savefig(buffer, format="png", dpi=80)
        picture = f'<img src="data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}">'
    title, outcome = html.escape(run.title), html.escape(run.outcome)
    return f"<div><b>{title}</b><br>{picture}{table(run)._repr_html_()}{outcome}</div>"


def _as_run(run: Run | Held) -> Any:
    """What commands and words take for a run: a path that is held has all that they ask for."""
    return run


def _framed(run: Run | Held) -> None:
    if not run.frames:
        raise InputError(f"{run.title!r} has no saved frames to draw.")

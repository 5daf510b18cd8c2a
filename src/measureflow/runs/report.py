"""Reports from the folder alone: the table, the picture and the moving picture of a run.

The same objects serve the command line, notebooks and whatever else shows runs.
"""

import base64
import html
import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from measureflow.runs.reading import Run
from measureflow.runs.settings import InputError

FORMATS = ("png", "pdf", "svg")


@dataclass(frozen=True)
class Report:
    """Rows of a name and a text; `str` aligns them, a notebook shows them as a table."""

    rows: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        width = max((len(name) for name, _ in self.rows), default=0)
        return "\n".join(f"{name:<{width}}  {text}" for name, text in self.rows)

    def _repr_html_(self) -> str:
        cells = "".join(f"<tr><td>{html.escape(a)}</td><td>{html.escape(b)}</td></tr>" for a, b in self.rows)
        return f"<table>{cells}</table>"


def table(run: Run) -> Report:
    """What a run came to: its series from first to last, what its measure says, its error and cost."""
    return Report(tuple(_rows(run)))


def _rows(run: Run) -> Iterator[tuple[str, str]]:
    if run.frames:
        yield from ((series.label, f"{series.text(0)} to {series.last}") for series in run.series.values())
        yield from run.command.rows(run)
    stats = run.stats
    if "error" in stats:
        yield "error estimate", f"{stats['error']:.2g} in the final numbers: steps, resolution and sums"
    if "marginal_error" in stats:
        yield "marginal error", f"{stats['marginal_error']:.2g} of the Sinkhorn kernel"
    if "tokens" in stats:
        yield "tokens left", f"{stats['tokens']}, moved by at most {stats['merge_error']:.2g} when they merged"
    if "changes" in stats:
        form = f"{stats['parcels']} parcels" if "parcels" in stats else f"{stats['degree']} moments"
        yield (
            "changed form",
            f"at t = {stats['changed_at']:.4g} to {form}; moments were then off by {stats['change_error']:.2g}",
        )
    if "steps" in stats:
        yield "steps", f"{stats['steps']} and {stats['rejected']} rejected"
    yield "seconds", f"{run.info['seconds']:.1f}"


def figure(run: Run) -> Any:
    """The picture of a run."""
    _framed(run)
    return run.command.figure(run)


def movie(run: Run, file: str | Path) -> Path:
    """Write a run as a moving picture."""
    _framed(run)
    try:
        run.command.movie(run, Path(file))
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


def card(run: Run) -> str:
    """A run as HTML: title, picture, table and outcome."""
    picture = ""
    if run.frames:
        buffer = io.BytesIO()
        figure(run).savefig(buffer, format="png", dpi=80)
        picture = f'<img src="data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}">'
    title, outcome = html.escape(run.title), html.escape(run.outcome)
    return f"<div><b>{title}</b><br>{picture}{table(run)._repr_html_()}{outcome}</div>"


def _framed(run: Run) -> None:
    if not run.frames:
        raise InputError(f"{str(run.path)!r} has no saved frames to draw.")

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

from measureflow.runs.held import Held
from measureflow.runs.reader import Run
from measureflow.wording import Report
from measureflow.words.series import Watched
from measureflow.words.settings import InputError

FORMATS = ("png", "pdf", "svg")


def table(run: Run | Held) -> Report:
    """What a run came to: its series from first to last, what its measure says, its error and cost."""
    return Report(tuple(_rows(run)), run.command.notes(_as_run(run)) if run.frames and _seen(run) else ())


def _rows(run: Run | Held) -> Iterator[tuple[str, str]]:
    if run.frames:
        yield from ((series.label, text) for series in run.series.values() if (text := _told(series, run.times)))
        if _seen(run):
            yield from run.command.rows(_as_run(run))
        if not run.ok:
            yield "last frame", f"t = {run.times[-1]:.6g}"
    stats = run.stats
    if "blow_up_time" in stats:
        yield "blow-up time", f"{stats['blow_up_time']:.8g}"
    if "error" in stats:
        yield "error estimate", f"{stats['error']:.2g} in the final numbers{_beside(run)}{_of(stats, run.times)}"
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
    if "seconds" in run.info:
        yield "seconds", f"{run.info['seconds']:.1f}"


def _told(series: Watched, times: np.ndarray) -> str:
    """A series from first to last; as far as it can be told, and nothing where it starts beyond all numbers."""
    good = np.isfinite(series.values)
    if good.all():
        return f"{series.text(0)} to {series.last}"
    last = int(np.argmin(good)) - 1
    return (
        f"{series.text(0)} to {series.text(last)} at t = {times[last]:.4g}, then beyond all numbers" if good[0] else ""
    )


def _beside(run: Run | Held) -> str:
    """How an error compares with numbers that may be very large."""
    size = run.series["size"].values[-1] if "size" in run.series else 0.0
    return f", {run.stats['error'] / size:.2g} of their size" if size > 0 else ""


def _of(stats: dict[str, Any], times: np.ndarray) -> str:
    """What an error estimate is about."""
    if not stats.get("pathwise"):
        return ": steps, resolution and sums"
    step = (times[-1] - times[0]) / max(stats["steps"], 1)
    return f", pathwise: of this one Brownian path, at steps of {step:.3g} against twice that; not of the law"


def figure(run: Run | Held) -> Any:
    """The picture of a run."""
    _framed(run)
    if _seen(run):
        return run.command.figure(_as_run(run))
    from measureflow.plotting import watched_figure

    return watched_figure(_as_run(run))


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
        for name, text in run.command.pages(run).items():
            written["report"] = run.path / name
            written["report"].write_text(text)
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


def _seen(run: Run | Held) -> bool:
    """Whether there is what the table and the picture of its command are made of."""
    return run.kept or not run.command.from_frames


def _as_run(run: Run | Held) -> Any:
    """What commands and words take for a run: a path that is held has all that they ask for."""
    return run


def _framed(run: Run | Held) -> None:
    if not run.frames:
        raise InputError(f"{run.title!r} has no saved frames to draw.")

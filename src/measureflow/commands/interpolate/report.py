"""The table, the figure and the movie of an interpolation, from its run folder."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from measureflow.runs.reader import Run


def rows(run: Run) -> Iterator[tuple[str, str]]:
    """Switches, what each stage did, and how still those tokens were that had to stay."""
    if "stages" not in run.stats:
        return
    yield "switches", f"{run.stats['switches']}, with dN = {run.stats['dim'] * len(run.stats['packed'])}"
    errors, sizes = run.data["stage_errors"].values, run.data["stage_diameters"].values
    for name, error, size in zip(run.stats["stages"], errors, sizes, strict=True):
        yield f"after {name}" if name != "start" else name, f"W₂ to targets {_told(error)}; diameters {_told(size)}"
    yield "parked tokens", f"moved by at most {run.stats['parked']:.1e} while a gate carried others"


def _told(values: Any) -> str:
    return ", ".join(f"{value:.2g}" for value in values[:8]) + (", ..." if len(values) > 8 else "")


def labels_of(run: Run) -> np.ndarray:
    """Which measure each token belongs to; all to one in a run that was killed before it said so."""
    tokens = run.stats.get("packed", [len(run.at(0).points)])
    return np.repeat(np.arange(len(tokens)), tokens)


def figure(run: Run, figure: Any = None) -> Any:
    """Measures at the ends of stages, and below how far they are from their targets."""
    from measureflow.plotting.interpolation import interpolation_figure

    errors = [series.values for name, series in run.series.items() if name.startswith("measure_")]
    stages = list(zip(run.stats.get("stages", []), run.stats.get("ends", []), strict=True))
    return interpolation_figure(run, np.array(errors), labels_of(run), stages, figure=figure)


def draw(ax: Any, run: Run, i: int) -> Any:
    """Measures at one time, each in its colour."""
    from measureflow.plotting.run import draw_frame

    return draw_frame(ax, run, i, labels=labels_of(run))


def movie(run: Run, file: Path) -> None:
    """Measures in motion, each in its colour."""
    from measureflow.plotting import movie as write

    write(file, run, labels=labels_of(run))

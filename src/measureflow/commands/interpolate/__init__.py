"""`measureflow interpolate`: several measures brought to their targets by one schedule of weights."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from measureflow.commands.interpolate.settings import Interpolating
from measureflow.runs.command import AbstractCommand
from measureflow.words.settings import Settings
from measureflow.words.table import load

if TYPE_CHECKING:
    from measureflow.runs.job import Job
    from measureflow.runs.reader import Run


class Interpolate(AbstractCommand):
    """`measureflow interpolate`."""

    name = "interpolate"

    def schema(self, words: dict[str, Any]) -> type[Settings]:
        """The settings of interpolation."""
        return Interpolating

    def job(self, settings: Any) -> "Job":
        """The plan, and the flow of all measures under it."""
        return load("measureflow.commands.interpolate.job:job_of")(settings)

    def rows(self, run: "Run") -> Iterator[tuple[str, str]]:
        """Switches, what each stage did, and how still those were that had to stay."""
        if "stages" not in run.stats:
            return
        yield "switches", f"{run.stats['switches']}, with dN = {run.stats['dim'] * len(run.stats['packed'])}"
        errors, sizes = run.data["stage_errors"].values, run.data["stage_diameters"].values
        for name, error, size in zip(run.stats["stages"], errors, sizes, strict=True):
            yield f"after {name}" if name != "start" else name, f"W₂ to targets {_told(error)}; diameters {_told(size)}"
        yield "parked tokens", f"moved by at most {run.stats['parked']:.1e} while a gate carried others"

    def figure(self, run: "Run", figure: Any = None) -> Any:
        """Measures at the ends of stages, each in its colour, and how far they are from their targets."""
        return load("measureflow.commands.interpolate.job:figure")(run, figure)

    def draw(self, ax: Any, run: "Run", i: int) -> Any:
        """Measures at one time, each in its colour."""
        return load("measureflow.commands.interpolate.job:draw")(ax, run, i)

    def movie(self, run: "Run", file: Path) -> None:
        """Measures in motion, each in its colour."""
        load("measureflow.commands.interpolate.job:movie")(run, file)


def _told(values: Any) -> str:
    return ", ".join(f"{value:.2g}" for value in values[:8]) + (", ..." if len(values) > 8 else "")

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
        yield from load("measureflow.commands.interpolate.report:rows")(run)

    def figure(self, run: "Run", figure: Any = None) -> Any:
        """Measures at the ends of stages, each in its colour, and how far they are from their targets."""
        return load("measureflow.commands.interpolate.report:figure")(run, figure)

    def draw(self, ax: Any, run: "Run", i: int) -> Any:
        """Measures at one time, each in its colour."""
        return load("measureflow.commands.interpolate.report:draw")(ax, run, i)

    def movie(self, run: "Run", file: Path) -> None:
        """Measures in motion, each in its colour."""
        load("measureflow.commands.interpolate.report:movie")(run, file)

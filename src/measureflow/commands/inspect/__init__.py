"""`measureflow inspect`: a pretrained transformer seen as a measure in motion, on the user's own text."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from measureflow.commands.inspect.settings import Inspecting
from measureflow.runs.command import AbstractCommand
from measureflow.words.settings import Settings
from measureflow.words.table import load

if TYPE_CHECKING:
    from measureflow.runs.job import Job
    from measureflow.runs.reader import Run
    from measureflow.wording import Note


class Inspect(AbstractCommand):
    """`measureflow inspect`."""

    name = "inspect"
    from_frames = False

    def schema(self, words: dict[str, Any]) -> type[Settings]:
        """The settings of an inspection."""
        return Inspecting

    def job(self, settings: Any) -> "Job":
        """The tokens of all windows through all layers, and the quantities of each layer."""
        return load("measureflow.commands.inspect.job:job_of")(settings)

    def rows(self, run: "Run") -> Iterator[tuple[str, str]]:
        """Each number with its interval, beside what it would be by chance."""
        yield from load("measureflow.commands.inspect.report:rows")(run)

    def notes(self, run: "Run") -> "tuple[Note, ...]":
        """What the words of the table mean."""
        return load("measureflow.commands.inspect.report:NOTES")

    def figure(self, run: "Run", figure: Any = None) -> Any:
        """Clusters across depth, sharpness, slopes, heads and the flow of single layers."""
        return load("measureflow.commands.inspect.report:figure")(run, figure)

    def pages(self, run: "Run") -> dict[str, str]:
        """A page with all pictures, tables and verdicts, which opens without a network."""
        return {"report.html": load("measureflow.commands.inspect.page:page")(run)}

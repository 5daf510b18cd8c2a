"""What a command that makes runs declares (its schema, its job, its table and its picture), and the table of all commands.

Run folders are read, resumed, pictured and compared by the command that made them (`runs/catalogue.py`). Needs no JAX.
"""

import abc
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from measureflow.runs.catalogue import COMMANDS
from measureflow.words.settings import InputError, Settings, read, read_toml
from measureflow.words.table import load

if TYPE_CHECKING:
    from measureflow.flows import AbstractFlow
    from measureflow.runs.job import Job
    from measureflow.runs.reader import Run
    from measureflow.wording import Note, Stat
    from measureflow.words.measures.base import Look
    from measureflow.words.series import Series


class AbstractCommand(abc.ABC):
    """A command that makes runs."""

    name: ClassVar[str]
    from_frames: ClassVar[bool] = True
    """Whether its table and picture are made of frames, so that a run which did not keep them has only curves."""

    @abc.abstractmethod
    def schema(self, words: dict[str, Any]) -> type[Settings]:
        """The schema of its settings, given what was asked."""

    @abc.abstractmethod
    def job(self, settings: Any) -> "Job":
        """The job that settings describe."""

    def parts(self, settings: Any) -> "tuple[AbstractFlow, tuple[Series, ...], Look]":
        """The flow that settings describe, what is watched along it and how it is looked at, where numbers may be traced.

        A command that cannot tell does its cells of a sweep one by one.
        """
        raise TypeError(f"`{self.name}` is not described from traced numbers.")

    def watched(self, job: "Job", extent: float) -> "tuple[Series, ...]":
        """What is watched along a cell of a batch whose first is a job, given the size of its cloud at the start."""
        return job.series

    def stats(self) -> "tuple[Stat, ...]":
        """The numbers that runs of the command tell once, in the order of their rows: those of flows, and its own."""
        return load("measureflow.flows.stats:STATS")

    def rows(self, run: "Run") -> "Iterator[tuple[str, str]]":
        """Rows of the table beyond those that all runs have: those of the measure unless the command has its own."""
        return run.word.rows(run)

    def notes(self, run: "Run") -> "tuple[Note, ...]":
        """Words of the table that are explained below it."""
        return ()

    def figure(self, run: "Run", figure: Any = None) -> Any:
        """Draw a run into a figure, a new one unless given: as its measure does unless the command has a picture of its own."""
        return run.word.figure(run, figure)

    def draw(self, ax: Any, run: "Run", i: int) -> Any:
        """Draw the measure of one frame on axes, and return the axes."""
        return run.word.draw(ax, run, i)

    def movie(self, run: "Run", file: Path) -> None:
        """The moving picture: that of the measure."""
        run.word.movie(run, file)

    def pages(self, run: "Run") -> dict[str, str]:
        """Texts that are written beside the picture, by the names of their files."""
        return {}

    def settings(self, words: dict[str, Any], file: str | None = None) -> Any:
        """The settings that words and a file describe."""
        self.use(self.asked(file) | words)
        return read(self.schema(words), words, file)

    def use(self, words: dict[str, Any]) -> None:
        """Read a file of words of one's own, if one is asked for: it may add choices and options."""
        from measureflow.runs import trust

        if words.get("use") is not None:
            trust.use(str(words["use"]))

    def asked(self, file: str | None) -> dict[str, Any]:
        """The key of a file on which its schema depends; what is wrong with the file is said when it is read."""
        try:
            words = {} if file is None else read_toml(file)
        except InputError:
            return {}
        return {"use": words["use"]} if "use" in words else {}


class Record(AbstractCommand):
    """A flow recorded from Python."""

    name = "record"

    def schema(self, words: dict[str, Any]) -> type[Settings]:
        """A recorded flow has no settings: it was built by a program."""
        raise InputError("This run was recorded from Python, where `mf.runs.record(flow, path, resume=True)` goes on.")

    def job(self, settings: Any) -> "Job":
        """A recorded flow cannot be built again from its folder."""
        raise InputError("This run was recorded from Python, where `mf.runs.record(flow, path, resume=True)` goes on.")


def again(name: str, path: Path) -> str:
    """The call that resumes a run, as a text."""
    return f"`mf.runs.record(flow, {str(path)!r}, resume=True)`" if name == "record" else f"`measureflow resume {path}`"


def command(name: str) -> AbstractCommand:
    """The command of a name."""
    known = {name: entry.declared for name, entry in COMMANDS.items() if entry.declared is not None}
    if name not in known:
        raise InputError(f"No command {name!r} makes runs here; known are {', '.join(known)}.")
    return load(known[name])()

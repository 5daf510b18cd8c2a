"""The cells of a sweep: what each is asked, by what it is known, and how its row is computed.

A cell is known by a fingerprint of its whole configuration and of the files it reads, so nothing is computed twice. Cells that
share a program go in batches; the others one by one, through the legs of every run.
"""

import abc
import hashlib
import json
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from measureflow.runs.command import AbstractCommand, command
from measureflow.sweeps.design import Cell, Design
from measureflow.sweeps.row import Row, computed, recorded
from measureflow.words.settings import InputError, Settings, read
from measureflow.words.table import nearest

PROGRAMS = 4
"""Compiled programs that a process keeps at hand."""


@dataclass(frozen=True)
class CellRequest:
    """A cell to be computed: its key, its values by name, the options it sets, and all settings that follow from them."""

    key: str
    cell: Cell
    words: dict[str, Any]
    settings: dict[str, Any]
    problem: str = ""
    """Why the cell cannot be computed, if it contradicts itself."""


@dataclass(frozen=True)
class Chunk:
    """Cells that are computed at once: a batch of a `size` in the numbers of `names`, or one cell alone."""

    cells: tuple[CellRequest, ...]
    names: tuple[str, ...] = ()
    size: int = 1


class AbstractWork(abc.ABC):
    """How the cells of a sweep are computed; it is sent to other processes."""

    @abc.abstractmethod
    def asked(self, design: Design) -> list[CellRequest]:
        """The cells of a design."""

    @abc.abstractmethod
    def chunks(self, cells: Sequence[CellRequest], workers: int = 1) -> Iterator[Chunk]:
        """Cells in the pieces in which they are computed, enough of them for some workers."""

    @abc.abstractmethod
    def rows(self, chunk: Chunk) -> list[Row]:
        """The rows of a chunk; what a cell raises is its row."""

    def labels(self, asked: CellRequest) -> dict[str, str]:
        """What the series of a cell are called, where they have names of their own."""
        return {}

    def kept(self, asked: CellRequest, entry: Mapping[str, Any]) -> bool:
        """Whether what is known of a cell is all that is to be kept of it."""
        return True

    def program(self, chunk: Chunk) -> str:
        """A text that is equal for chunks which share compiled programs."""
        first = chunk.cells[0].settings
        numbers = chunk.names or [name for name, value in first.items() if isinstance(value, float) or name == "seed"]
        return f"{chunk.size} {_without(first, numbers)}"


@dataclass(frozen=True)
class CommandWork(AbstractWork):
    """Cells of a command: `simulate`, `train heads`, and so on; `folder` is where runs are kept, if they are."""

    name: str
    keep: str = "final"
    use: str | None = None
    folder: str | None = None

    @property
    def command(self) -> AbstractCommand:
        """The command, with the words of the user's own file."""
        found = command(self.name)
        found.use({"use": self.use})
        return found

    def asked(self, design: Design) -> list[CellRequest]:
        """Every cell is read like a configuration file; one that contradicts itself has a problem."""
        schema = self.command.schema({})
        options = set(schema.model_fields)
        _check_options(design, options, (*schema.aside, "movie"))
        cells = [self._asked(schema, design.base, cell, options) for cell in design.cells()]
        if all(one.problem for one in cells):
            raise InputError(*cells[0].problem.split("\n"))
        return cells

    def _asked(self, schema: type[Settings], base: Mapping[str, Any], cell: Cell, options: set[str]) -> CellRequest:
        words = {**base, **{name: value for name, value in cell.items() if name in options}}
        try:
            settings = read(schema, words)
        except InputError as error:
            return CellRequest(key_of(self.name, words), cell, words, {}, str(error))
        plain = {name: value for name, value in settings.model_dump().items() if name not in (*settings.aside, "movie")}
        files = {file: _digest(file, Path(file).stat().st_mtime_ns) for file in settings.inputs()}
        return CellRequest(key_of(self.name, plain | {"files": files} if files else plain), cell, words, plain)

    def chunks(self, cells: Sequence[CellRequest], workers: int = 1) -> Iterator[Chunk]:
        """Those that differ in traced numbers alone in batches, in the order of the design."""
        from measureflow.sweeps.batches import size_of, traceable

        differing = varying(cells)
        for group in groups_of(cells, differing):
            first, alone = self.settings(group[0]), self.keep == "runs" or len(group) == 1
            names = () if alone else traceable(self.command, first, differing)
            for part in groups_of(group, names):
                size = size_of(first, -(-len(part) // workers)) if names else 1
                for start in range(0, len(part), size):
                    yield Chunk(tuple(part[start : start + size]), names if size > 1 else (), size)

    def kept(self, asked: CellRequest, entry: Mapping[str, Any]) -> bool:
        """Series and runs that are asked for later are computed then."""
        match self.keep:
            case "series":
                return "times" in entry
            case "runs":
                return Path(str(self.folder), asked.key).is_dir()
        return True

    def settings(self, asked: CellRequest) -> Settings:
        """The settings of a cell."""
        return self.command.settings(asked.words)

    def rows(self, chunk: Chunk) -> list[Row]:
        """In a batch, or alone; a batch that fails is tried cell by cell, so that one cell does not take the others along."""
        if chunk.names:
            try:
                return _batch(self, chunk).compute([self.settings(one) for one in chunk.cells])
            except Exception:  # each cell tells below what was wrong with it
                _BATCHES.clear()
        with _ALONE:
            return [self._alone(one) for one in chunk.cells]

    def labels(self, asked: CellRequest) -> dict[str, str]:
        """Those of its job; a job that cannot be made says why when it is computed."""
        try:
            return {one.name: one.label or one.name for one in self.command.job(self.settings(asked)).series}
        except Exception:
            return {}

    def _alone(self, asked: CellRequest) -> Row:
        begun = time.perf_counter()
        try:
            job = self.command.job(self.settings(asked))
            if self.keep == "runs":
                return recorded(job, Path(str(self.folder), asked.key))
            return computed(job, along=self.keep == "series")
        except Exception as error:
            return Row.failed(error, time.perf_counter() - begun)


_BATCHES: OrderedDict[Any, Any] = OrderedDict()
_BATCHING = threading.Lock()
"""Held by the thread that compiles a program, so that no other compiles the same one."""
_ALONE = threading.Lock()
"""Held by the thread that computes a single cell, which uses all cores and may use much memory."""


def _batch(work: CommandWork, chunk: Chunk) -> Any:
    """The program of a chunk; the last few are at hand."""
    from measureflow.sweeps.batches import Batch

    first = chunk.cells[0]
    place = work, chunk.names, chunk.size, _without(first.settings, chunk.names)
    with _BATCHING:
        if place not in _BATCHES:
            along = work.keep == "series"
            _BATCHES[place] = Batch(work.command, work.settings(first), chunk.names, along, chunk.size).compiled()
            while len(_BATCHES) > PROGRAMS:
                _BATCHES.popitem(last=False)
        return _BATCHES[place]


def key_of(name: str, values: Mapping[str, Any]) -> str:
    """Sixteen letters that stand for what is asked: `1` and `1.0` are the same number."""
    text = json.dumps([name, _canonical(values)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _canonical(value: Any) -> Any:
    match value:
        case bool() | str() | None:
            return value
        case int() | float():
            return float(value).hex() if abs(value) < 2**53 else str(value)
        case Mapping():
            return {str(name): _canonical(part) for name, part in value.items()}
        case list() | tuple():
            return [_canonical(part) for part in value]
    return str(value)


@lru_cache(maxsize=64)
def _digest(file: str, changed: int) -> str:
    """A text for the content of a file, read again when it has changed."""
    return hashlib.sha256(Path(file).read_bytes()).hexdigest()


def _check_options(design: Design, options: set[str], aside: tuple[str, ...]) -> None:
    """Refuse a name that is neither an option nor used by a formula."""
    used = {name for formula in design.formulas.values() for name in formula.names}
    for name in design.names:
        if name in aside:
            raise InputError(f"`{name}` says where or by whom a run is done, and cannot be swept.")
        if name not in options and name not in used:
            raise InputError(f"`{name}` is not an option of the command{nearest(name, sorted(options))}.")


def varying(cells: Sequence[CellRequest]) -> tuple[str, ...]:
    """The settings in which cells differ."""
    first = cells[0].settings
    return tuple(name for name in first if any(one.settings.get(name) != first[name] for one in cells[1:]))


def groups_of(cells: Iterable[CellRequest], names: Sequence[str]) -> list[list[CellRequest]]:
    """Cells that agree in everything but some numbers."""
    groups: dict[str, list[CellRequest]] = {}
    for one in cells:
        numbers = [name for name in names if is_number(one.settings.get(name))]
        groups.setdefault(_without(one.settings, numbers), []).append(one)
    return list(groups.values())


def _without(settings: Mapping[str, Any], names: Sequence[str]) -> str:
    rest = {name: value for name, value in settings.items() if name not in names}
    return json.dumps(rest | {"numbers": sorted(names)}, sort_keys=True, default=str)


def is_number(value: Any) -> bool:
    """Whether a value is a number, which `true` is not."""
    return isinstance(value, int | float) and not isinstance(value, bool)

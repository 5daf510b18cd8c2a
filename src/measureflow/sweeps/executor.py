"""The loop behind every sweep: cells that are not known yet are computed, added to the ledger and reported.

Whatever ends a sweep early leaves the ledger, and the same call goes on with the cells that are missing; a design with more
values has more of them, and the others are not computed again.
"""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from measureflow.runs.folder import StorageError
from measureflow.runs.outcomes import ERROR
from measureflow.runs.session import warn_of_float32
from measureflow.runs.threads import signals
from measureflow.sweeps.backends import AbstractBackend, Here
from measureflow.sweeps.cells import AbstractWork, CellRequest, CommandWork
from measureflow.sweeps.design import Design
from measureflow.sweeps.ledger import Ledger
from measureflow.sweeps.reader import Sweep
from measureflow.sweeps.row import Row
from measureflow.words.settings import InputError, Settings

MANY_CELLS = 20_000
"""Cells beyond which a sweep has to be asked for twice."""
HOME = "sweeps"
"""The folder of sweeps that are not given one."""


@dataclass
class SweepProgress:
    """How far a sweep is: cells of the design, those known, those that failed, and seconds left."""

    total: int
    known: int = 0
    failed: int = 0
    begun: float = field(default_factory=time.perf_counter)
    computed: int = 0

    @property
    def left(self) -> float:
        """Seconds to the end at the speed so far; infinite before anything was computed."""
        spent = time.perf_counter() - self.begun
        return spent / self.computed * (self.total - self.known) if self.computed else float("inf")


Watch = Callable[[SweepProgress], None]


class Interrupted(KeyboardInterrupt):
    """A sweep was interrupted; its cells so far are in its folder."""

    def __init__(self, path: Path):
        super().__init__()
        self.path = path


def sweep(
    what: str | Path | Mapping[str, Any] | Settings | Callable[..., Any],
    axes: Mapping[str, Any] | None = None,
    path: str | Path | None = None,
    *,
    command: str = "simulate",
    keep: str = "final",
    backend: AbstractBackend | None = None,
    retry: bool = False,
    yes: bool = False,
    watch: Watch = lambda _: None,
) -> Sweep:
    """Compute every cell of a design that is not computed yet, and return the sweep.

    `what` is a sweep file, the settings of a `command` by name, or a function of the axes by name, which gives a number, several
    by name, or a `Flow`. `axes` has the values of each axis of a grid by name, or the sections `grid`, `zip`, `random` and
    `derived` of a sweep file. What was computed is in the folder `path`: the same call goes on after an interruption, and with
    more values computes those alone. With `retry` cells that failed are computed again. More than `MANY_CELLS` cells need `yes`.
    """
    warn_of_float32()
    design, work, folder = _understood(what, axes, path, command, keep)
    return perform_sweep(design, work, folder, backend=backend, retry=retry, yes=yes, watch=watch)


def perform_sweep(
    design: Design,
    work: AbstractWork,
    path: Path,
    *,
    backend: AbstractBackend | None = None,
    retry: bool = False,
    yes: bool = False,
    watch: Watch = lambda _: None,
) -> Sweep:
    """Compute the missing cells of a design into a folder."""
    check_size(design, yes)
    cells = list({one.key: one for one in work.asked(design)}.values())
    backend = backend or Here()
    progress = SweepProgress(len(cells))
    with (
        _speaking(path, progress),
        contextlib.closing(Ledger.begin(path, design.section.command)) as ledger,
        contextlib.closing(backend),
        signals(),
    ):
        ledger.ask(design, [one.key for one in cells])
        missing = [one for one in cells if _is_missing(ledger, work, one, retry)]
        progress.known = len(cells) - len(missing)
        watch(progress)
        try:
            _compute(ledger, work, missing, backend, progress, watch)
        except KeyboardInterrupt:
            Sweep(path).save()
            raise Interrupted(path) from None
        found = Sweep(path)
        found.save()
    return found


@contextlib.contextmanager
def _speaking(path: Path, progress: SweepProgress) -> Iterator[None]:
    """Say how far a sweep came that could not be written on."""
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"Stopped after {progress.known} of {progress.total} cells: {error.strerror or error}. What was computed is in "
            f"{str(path)!r}; make room, and the same command goes on."
        ) from None


def check_size(design: Design, yes: bool) -> None:
    """Refuse a sweep that is larger than anyone means by accident."""
    if len(design) > MANY_CELLS and not yes:
        raise InputError(
            f"The design has {len(design)} cells, more than {MANY_CELLS}: add `--yes` (`yes=True`) if that is meant."
        )


def _is_missing(ledger: Ledger, work: AbstractWork, one: CellRequest, retry: bool) -> bool:
    """Whether a cell is to be computed: nothing is known of it, or not all that is to be kept now, or it failed before."""
    entry = ledger.entries.get(one.key)
    if entry is None:
        return True
    return retry if entry["kind"] == ERROR else not work.kept(one, entry)


def _compute(
    ledger: Ledger,
    work: AbstractWork,
    cells: list[CellRequest],
    backend: AbstractBackend,
    progress: SweepProgress,
    watch: Watch,
) -> None:
    impossible = [one for one in cells if one.problem]
    _add(ledger, [(one, Row.failed(InputError(one.problem))) for one in impossible], progress)
    possible = [one for one in cells if not one.problem]
    if possible:
        ledger.label(work.labels(possible[0]))
    for chunk, rows in backend.rows(work, _chunks(work, possible, backend)):
        _add(ledger, list(zip(chunk.cells, rows, strict=True)), progress)
        watch(progress)


def _chunks(work: AbstractWork, cells: list[CellRequest], backend: AbstractBackend) -> Iterator[Any]:
    return work.chunks(cells, backend.workers) if cells else iter(())


def _add(ledger: Ledger, found: list[tuple[CellRequest, Row]], progress: SweepProgress) -> None:
    if not found:
        return
    ledger.add((one.key, one.cell, one.settings, row) for one, row in found)
    progress.known += len(found)
    progress.computed += len(found)
    progress.failed += sum(row.kind == ERROR for _, row in found)


def _understood(
    what: Any, axes: Mapping[str, Any] | None, path: str | Path | None, command: str, keep: str
) -> tuple[Design, AbstractWork, Path]:
    """A design, what is done for its cells, and the folder."""
    if callable(what):
        from measureflow.sweeps.functions import FunctionWork

        name = str(getattr(what, "__name__", "function")).strip("<>")
        design = Design.of(axes or {}, command="function", keep=keep, title=f"{name} over {', '.join(axes or ())}")
        return design, FunctionWork(what, keep), Path(path or Path(HOME, name))
    if isinstance(what, str | Path):
        design = Design.read(what)
        return design, work_of(design, folder := folder_of(what, path)), folder
    words = what.model_dump(exclude_unset=True) if isinstance(what, Settings) else dict(what)
    design = Design.of(axes or {}, words, command=command, keep=keep)
    folder = Path(path or Path(HOME, command.replace(" ", "-")))
    return design, work_of(design, folder), folder


def folder_of(file: str | Path, path: str | Path | None = None) -> Path:
    """The folder of a sweep file: one of its name unless given."""
    return Path(path) if path is not None else Path(HOME, Path(file).stem)


def work_of(design: Design, folder: Path) -> CommandWork:
    """What is done for the cells of a command."""
    section = design.section
    return CommandWork(section.command, section.keep, design.base.get("use"), str(folder / "runs"))

"""`measureflow sweep FILE`: every cell of a design, computed once, in one table and one picture."""

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, NonNegativeInt

from measureflow.cli import prepare_jax
from measureflow.cli.options import parse
from measureflow.cli.showing import duration, print_written, say
from measureflow.words.outputs import Words, positional

if TYPE_CHECKING:
    from measureflow.sweeps.executor import SweepProgress
    from measureflow.sweeps.reader import Sweep

REASONS = 5
"""Reasons of failed cells that are printed."""


class SweepWords(Words):
    """Compute every cell of a design that is not computed yet: the same command goes on after an interruption, and a file with
    more values computes those alone. The file is a configuration with a section `[sweep]`; see docs/sweeps.md. Exit code 1 if
    cells failed or gave up before their time."""

    file: tuple[str, ...] = positional("FILE", "sweep file")
    out: str | None = Field(None, description="folder of the sweep; sweeps/NAME after the file unless given")
    dry_run: bool = Field(False, description="say how many cells there are and how long they take, and compute nothing")
    yes: bool = Field(False, description="compute more cells than anyone means by accident")
    retry: bool = Field(False, description="compute cells that failed again")
    backend: Literal["here", "processes", "dask", "slurm"] = Field("here", description="who computes the cells")
    workers: NonNegativeInt = Field(0, description="number of workers; one for each core unless given")
    scheduler: str | None = Field(None, description="address of a dask scheduler; a cluster of its own unless given")


def main(argv: list[str]) -> int:
    """Parse, compute with a bar, then print what came out, draw it and name what was written."""
    words = parse(SweepWords, argv, "measureflow sweep")
    from measureflow.sweeps.design import Design
    from measureflow.sweeps.executor import check_size, folder_of, work_of
    from measureflow.words.settings import InputError

    if len(words.file) != 1:
        raise InputError(f"`file` takes one sweep file; got {len(words.file)}: {', '.join(words.file)}.")
    if words.scheduler is not None and words.backend != "dask":
        raise InputError("`scheduler` is for `backend` dask: add `--backend dask`.")
    design = Design.read(words.file[0])
    folder = folder_of(words.file[0], words.out)
    work = work_of(design, folder)
    if design.section.theory is not None:
        from measureflow.sweeps.overlays import check

        check(design.section.theory)
    if words.dry_run:
        return _estimate(design, work, folder)
    check_size(design, words.yes)
    prepare_jax()
    return _sweep(design, work, folder, words)


def _sweep(design: Any, work: Any, folder: Any, words: SweepWords) -> int:
    from measureflow.cli.printing import Printer
    from measureflow.runs.outcomes import RESULTS
    from measureflow.sweeps.backends import BACKENDS
    from measureflow.sweeps.executor import Interrupted, perform_sweep
    from measureflow.sweeps.reader import Sweep

    console = Printer()
    backend = BACKENDS[words.backend](workers=words.workers, scheduler=words.scheduler, folder=str(folder / "slurm"))
    try:
        with CellBar(console) as bar:
            found = perform_sweep(
                design, work, folder, backend=backend, retry=words.retry, yes=words.yes, watch=bar.show
            )
    except Interrupted as interruption:
        report(console, Sweep(interruption.path), picture=False)
        say(f"Interrupted; the same command goes on: `measureflow sweep {words.file[0]}`.")
        raise
    report(console, found)
    return 1 if any(one.row.kind not in RESULTS for one in found.cells) else 0


def _estimate(design: Any, work: Any, folder: Any) -> int:
    """How many cells, how many of them are there already, how many programs, and how long a pilot says it takes."""
    prepare_jax()
    from measureflow.sweeps.pilot import estimate

    found = estimate(design, work, folder)
    known = f", of which {found.known} are computed already" if found.known else ""
    bad = f"; {found.impossible} contradict themselves" if found.impossible else ""
    say(f"{found.total} cells over {', '.join(design.names)}{known}{bad}.")
    if not found.missing:
        say("Nothing is left to compute.")
        return 0
    programs = f"{found.programs} program{'s' if found.programs > 1 else ''}"
    say(
        f"About {duration(found.seconds)} for {found.missing} cells: {duration(found.compiling)} to compile {programs} and "
        f"{1000 * found.each:.3g} ms for a cell, by a pilot of {found.tried}."
    )
    return 0


class CellBar:
    """A progress bar over cells, with the time that is left."""

    def __init__(self, console: Any):
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        text = TextColumn("{task.fields[state]}")
        self.bar = Progress(
            MofNCompleteColumn(), TextColumn("cells"), BarColumn(), text, TimeElapsedColumn(), console=console
        )
        self.task = self.bar.add_task("", total=None, state="compiling")

    def __enter__(self) -> "CellBar":
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.stop()

    def show(self, progress: "SweepProgress") -> None:
        """Move the bar to where a sweep is."""
        self.bar.start()
        failed = f"{progress.failed} failed, " if progress.failed else ""
        left = f"{duration(progress.left)} left" if progress.computed else "compiling"
        state = "" if progress.known == progress.total else left
        self.bar.update(self.task, total=progress.total, completed=progress.known, state=f"{failed}{state}")


def report(console: Any, sweep: "Sweep", *, format: str = "png", picture: bool = True, show: str | None = None) -> None:
    """Print what a sweep came to, draw it and name what was written."""
    from measureflow.runs.outcomes import RESULTS
    from measureflow.words.settings import InputError

    failed = sweep.failed
    early = [one.row.outcome for one in sweep.cells if not one.failed and one.row.kind not in RESULTS]
    spent = sum(one.row.seconds for one in sweep.cells)
    say(f"{sweep.title}: {len(sweep)} of {len(sweep.keys)} cells, {duration(spent)} of computing.")
    if len(failed):
        counts = failed["reason"].value_counts()
        say(
            f"{len(failed)} cells failed:",
            *(f"  {count} times: {reason}" for reason, count in counts[:REASONS].items()),
        )
    if early:
        say(f"Cells that gave up before their time: {len(early)}; the first: {early[0]}")
    written: dict[str, Any] = {"table": sweep.path / "table.zarr"}
    if picture and len(sweep) > len(failed):
        try:
            file = sweep.path / f"figure.{format}"
            sweep.plot(show).savefig(file)
            written = {"picture": file} | written
        except InputError as error:
            say(str(error))
        except OSError as error:
            say(f"Cannot write a picture into {str(sweep.path)!r}: {error.strerror or error}.")
    print_written(console, written)

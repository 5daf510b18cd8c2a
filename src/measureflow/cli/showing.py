"""What commands show: a bar while a run is computed, and its table, outcome and pictures when it ends."""

import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from measureflow.runs.job import Job, State
    from measureflow.runs.reading import Run
    from measureflow.wording import Report


class Bar:
    """A progress bar over the time of a run, with a word on its state; it appears when there is something to report."""

    def __init__(self, console: Any):
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        text = TextColumn("t = {task.fields[time]:.4g} of {task.total:.4g}")
        self.bar = Progress(text, BarColumn(), TextColumn("{task.fields[state]}"), TimeElapsedColumn(), console=console)
        self.task = self.bar.add_task("", total=1.0, time=0.0, state="compiling")

    def __enter__(self) -> "Bar":
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.stop()

    def show(self, job: "Job", state: "State") -> None:
        """Move the bar to where a run is, with what tells most of it."""
        self.bar.start()
        watched = [one for one in job.series if one.telling and one.name in state.series]
        telling = [f"{one.label} {_text(one, state.series[one.name])}" for one in watched]
        word = ", ".join(telling) if state.frames else "compiling"
        self.bar.update(self.task, total=float(job.flow.times[-1]), completed=state.time, time=state.time, state=word)


def _text(series: Any, value: float) -> str:
    return f"{value:.0f}" if series.counts else format(value, ".5g")


def shown(work: Callable[[Any], "Run"], *, moving: bool = False, explain: bool = False) -> int:
    """Do work that makes a run, with a bar, then show the run; an interrupted one too, before it is raised again."""
    from rich.console import Console

    from measureflow.runs.performing import Interrupted
    from measureflow.runs.reading import Run

    console = Console()
    try:
        with Bar(console) as bar:
            run = work(bar.show)
    except Interrupted as interruption:
        report(console, Run(interruption.path), moving=moving, explain=explain)
        raise
    report(console, run, moving=moving, explain=explain)
    return 0


def report(console: Any, run: "Run", *, format: str = "png", moving: bool = False, explain: bool = False) -> None:
    """Print the table and the outcome of a run, draw its pictures and name what was written."""
    from measureflow.runs.report import save, table

    print_report(console, table(run), explain=explain)
    console.print(run.outcome, soft_wrap=True, highlight=False)
    written = save(run, format=format, moving=moving) if run.frames else {}
    print_written(console, written | {"data": run.path / "data.zarr"})


def print_report(console: Any, report: "Report", *, explain: bool = False) -> None:
    """Print rows of texts as a table, and below it what its words mean, in a line each or in full."""
    from rich.table import Table
    from rich.text import Text

    table = Table(show_header=False, title=None)
    for row in report.rows:
        table.add_row(*map(Text, row))  # a text of a user may have brackets, which are no markup
    console.print(table)
    for line in report.explanation(full=explain):
        console.print("\n" * explain + line, markup=False, highlight=False)


def print_written(console: Any, written: Mapping[str, object]) -> None:
    """Print the paths of what was written, by kind, each on one line."""
    for kind, path in written.items():
        console.print(f"{kind:<8} {path}", highlight=False, soft_wrap=True)


def say(*sentences: str) -> None:
    """Print sentences for people."""
    print(*sentences, sep="\n", file=sys.stdout, flush=True)  # noqa: T201

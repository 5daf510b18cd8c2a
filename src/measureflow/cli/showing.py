"""What commands show: a bar while a run is computed, and its table, outcome and pictures when it ends."""

import importlib
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from measureflow.cli.terminal import plain
from measureflow.cli.terminal import say as say

if TYPE_CHECKING:
    from measureflow.runs.job import Job, Progress
    from measureflow.runs.reader import Run
    from measureflow.wording import Report


PATIENCE, LONG = 2.0, 300.0
"""Seconds of one leg after which the bar tells its speed, and seconds left from which it tells what would help."""


class Bar:
    """A progress bar over the time of a run, with a word on its state; it appears when there is something to report."""

    def __init__(self, console: Any):
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        text = TextColumn("t = {task.fields[time]:.4g} of {task.total:.4g}")
        state = TextColumn("{task.fields[state]}", markup=False)
        self.bar = Progress(text, BarColumn(), state, TimeElapsedColumn(), console=console)
        self.task = self.bar.add_task("", total=1.0, time=0.0, state="compiling")
        self.seen: deque[tuple[float, int, float]] = deque(maxlen=8)

    def __enter__(self) -> "Bar":
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.stop()

    def show(self, job: "Job", state: "Progress") -> None:
        """Move the bar to where a run is, with what tells most of it; before it begins, say what its data are."""
        if job.data and not self.bar.live.is_started:
            self.bar.console.print(job.data, markup=False, highlight=False, soft_wrap=True)
        self.bar.start()
        watched = [one for one in job.series if one.telling and one.name in state.series]
        telling = [f"{one.label} {_text(one, state.series[one.name])}" for one in watched]
        total = job.end
        told = ", ".join([*telling, *_left(job, state)])
        word = self._slow(state, total) or told or ("compiling" if not state.frames else "")
        self.bar.update(self.task, total=total, completed=state.reached, time=state.reached, state=plain(word))

    def _slow(self, state: "Progress", total: float) -> str:
        """How fast steps are, and what would help, once a leg takes its time."""
        steps = 0 if state.pulse is None else state.pulse.steps
        if self.seen and (self.seen[-1][1] > steps or self.seen[-1][2] > state.reached):
            self.seen.clear()  # another leg
        self.seen.append((time.monotonic(), steps, state.reached))
        (then, before, was), (now, after, reached) = self.seen[0], self.seen[-1]
        if now - then < PATIENCE or after == before:
            return ""
        pace = (reached - was) / (now - then)
        left = (total - reached) / pace if pace > 0 else float("inf")
        rate = f"{after} steps, {(after - before) / (now - then):.3g}/s, {duration(left)} left"
        return rate if left < LONG else f"{rate}: try --merge, --solver stiff, less --time"


class Counter:
    """A progress bar over things that are done one after the other, on a terminal; it leaves no trace."""

    def __init__(self, total: int):
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        from measureflow.cli.printing import Printer

        console, name = Printer(), TextColumn("{task.description}", markup=False)
        columns = MofNCompleteColumn(), BarColumn(bar_width=24), name, TimeElapsedColumn()
        self.bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self.task = self.bar.add_task("", total=total)

    def __enter__(self) -> "Counter":
        self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.stop()

    def begin(self, name: str) -> None:
        """Name what is being done."""
        self.bar.update(self.task, description=plain(name))

    def end(self) -> None:
        """Count what was done."""
        self.bar.advance(self.task)


def _left(job: "Job", state: "Progress") -> list[str]:
    """How long the rest will take at the pace so far, where frames tell no steps."""
    if state.frames < 2 or state.seconds < PATIENCE or (state.pulse is not None and state.pulse.steps):
        return []
    return [f"{duration(state.seconds / state.frames * (job.frames - state.frames))} left"]


def duration(seconds: float) -> str:
    """Seconds for people."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h" if seconds < 1e6 else "very long"


def _text(series: Any, value: float) -> str:
    return f"{value:.0f}" if series.counts else format(value, ".5g")


def shown(work: Callable[[Any], "Run"], *, moving: bool = False, explain: bool = False) -> int:
    """Do work that makes a run, with a bar, then show the run; an interrupted one too, before it is raised again.

    The exit code is that of the outcome of the run.
    """
    from measureflow.runs.locks import locks_kept

    with locks_kept():
        return _shown(work, moving, explain)


def _shown(work: Callable[[Any], "Run"], moving: bool, explain: bool) -> int:
    from measureflow.cli.printing import Printer
    from measureflow.runs.executor import Interrupted
    from measureflow.runs.reader import Run

    console = Printer()
    # Pictures take a second to load, which they can do while the first programs are compiled.
    threading.Thread(target=importlib.import_module, args=("measureflow.plotting",), daemon=True).start()
    try:
        with Bar(console) as bar:
            run = work(bar.show)
    except Interrupted as interruption:
        report(console, Run(interruption.path), moving=moving, explain=explain)
        raise
    report(console, run, moving=moving, explain=explain)
    return run.ended.code


def report(console: Any, run: "Run", *, format: str = "png", moving: bool = False, explain: bool = False) -> None:
    """Print the table and the outcome of a run, draw its pictures and name what was written."""
    from measureflow.runs.report import save, table

    print_report(console, table(run), explain=explain)
    console.print(run.outcome, soft_wrap=True)
    written = save(run, format=format, moving=moving) if run.frames else {}
    print_written(console, written | {"data": run.path / "data.zarr"})


def print_report(console: Any, report: "Report", *, explain: bool = False) -> None:
    """Print rows of texts as a table, and below it what its words mean, in a line each or in full."""
    from rich.table import Table

    table = Table(show_header=False, title=None)
    for row in report.rows:
        table.add_row(*row)
    console.print(table)
    for line in report.explanation(full=explain):
        console.print("\n" * explain + line)


def print_written(console: Any, written: Mapping[str, object]) -> None:
    """Print the paths of what was written, by kind, each on one line."""
    for kind, path in written.items():
        name = str(path).replace("\n", "\\n")
        console.print(f"{kind:<8} {name}", soft_wrap=True)

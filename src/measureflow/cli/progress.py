"""What a command shows while it works and when it is done."""

from collections.abc import Mapping


class Bar:
    """A progress bar over the time of a run, with a word on its state; it appears when there is something to report."""

    def __init__(self, console, total: float):
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        text = TextColumn("t = {task.fields[time]:.4g} of {task.total:.4g}")
        self.bar = Progress(text, BarColumn(), TextColumn("{task.fields[state]}"), TimeElapsedColumn(), console=console)
        self.task = self.bar.add_task("", total=total, time=0.0, state="compiling")

    def __enter__(self) -> "Bar":
        return self

    def __exit__(self, *_) -> None:
        self.bar.stop()

    def begin(self) -> None:
        """Show the bar."""
        self.bar.start()

    def reach(self, time: float, state: str) -> None:
        """Move the bar to a time."""
        self.bar.update(self.task, completed=time, time=time, state=state)


def print_table(console, rows) -> None:
    """Print pairs of a name and a text as a table."""
    from rich.table import Table

    table = Table(show_header=False, title=None)
    for name, text in rows:
        table.add_row(name, text)
    console.print(table)


def print_written(console, written: Mapping[str, object]) -> None:
    """Print the paths of what was written, by kind, each on one line."""
    for kind, path in written.items():
        console.print(f"{kind:<8} {path}", highlight=False, soft_wrap=True)

"""`measureflow compare RUN RUN ...`: what runs differ in, as a table and as a picture."""

from typing import TYPE_CHECKING, Any

from pydantic import Field

from measureflow.cli import prepare_jax
from measureflow.cli.options import parse
from measureflow.cli.showing import print_written
from measureflow.words.outputs import Picture, Words, positional
from measureflow.words.settings import InputError

if TYPE_CHECKING:
    from measureflow.runs.comparison import Comparison


class Compare(Words):
    """Set runs of any kind side by side: options and results that differ, curves together, distances from the first."""

    runs: tuple[str, ...] = positional("RUN", "run folders, two or more")
    trust: bool = Field(False, description="execute the file of words (`use`) that a run names, whoever wrote it")
    out: Picture = Field("compare.png", description="picture to write")


def main(argv: list[str]) -> int:
    """Read the runs, print the table and draw the figure."""
    words = parse(Compare, argv, "measureflow compare")
    prepare_jax()
    from measureflow.cli.printing import Printer
    from measureflow.runs.comparison import compare, figure

    found, console = compare(*words.runs, trust=words.trust), Printer()
    console.print(_table(found), soft_wrap=False)
    try:
        figure(found).savefig(words.out)
    except OSError as error:
        raise InputError(f"`out`: cannot write {words.out!r}: {error.strerror or error}.") from None
    print_written(console, {"picture": words.out})
    return 0


def _table(found: "Comparison") -> Any:
    from rich.table import Table

    table, same = Table(title=None), ("the same",) * len(found.runs)
    for name in ("", *found.names):
        table.add_column(name, overflow="fold")
    for row in found.settings or [("settings", *same)]:
        table.add_row(*row)
    table.add_section()
    for row in found.results or [("results", *same)]:
        table.add_row(*row)
    table.add_section()
    for k, distance in enumerate(found.distances):
        if distance is not None:
            place = ("",) * (k + 1)
            for word, i in (("first", 0), ("last", -1)):
                table.add_row(f"{distance.name}, {word} common frame", *place, f"{distance.values[i]:.4g}")
            if distance.sampling is not None:
                table.add_row("  of as many tokens drawn from the limit", *place, f"{distance.sampling[-1]:.4g}")
    return table

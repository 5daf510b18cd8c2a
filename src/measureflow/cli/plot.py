"""`measureflow plot RUN`: the table and pictures of a run or a sweep, from its folder alone."""

from pathlib import Path
from typing import Literal

from pydantic import Field

from measureflow.cli import prepare_jax
from measureflow.cli.options import parse
from measureflow.cli.showing import report
from measureflow.words.outputs import Words, positional


class Plot(Words):
    """Print the table of runs and sweeps and draw their pictures again, from their folders alone; also of those under way."""

    runs: tuple[str, ...] = positional("RUN", "folders of runs or sweeps")
    movie: bool = Field(False, description="also write movie.gif; of runs")
    show: str | None = Field(None, description="the series or final value that the picture of a sweep shows")
    trust: bool = Field(False, description="execute the file of words (`use`) that a run names, whoever wrote it")
    format: Literal["png", "pdf", "svg"] = Field("png", description="format of the picture")


def main(argv: list[str]) -> int:
    """Parse, and report each run."""
    words = parse(Plot, argv, "measureflow plot")
    prepare_jax()
    from measureflow.cli.printing import Printer
    from measureflow.cli.sweep import report as report_sweep
    from measureflow.runs.reader import open
    from measureflow.runs.trust import use_words_of
    from measureflow.sweeps.ledger import is_sweep
    from measureflow.sweeps.reader import Sweep, open_sweep

    for found in [open_sweep(path) if is_sweep(Path(path)) else open(path) for path in words.runs]:
        if isinstance(found, Sweep):
            report_sweep(Printer(), found, format=words.format, show=words.show)
        else:
            if words.trust:
                use_words_of(found, trust=True)
            report(Printer(), found, format=words.format, moving=words.movie)
    return 0

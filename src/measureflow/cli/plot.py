"""`measureflow plot RUN`: the table and pictures of a run, from its folder alone."""

from typing import Literal

from pydantic import Field

from measureflow.cli import prepare_jax
from measureflow.cli.options import Words, parse, positional
from measureflow.cli.showing import report


class Plot(Words):
    """Print the table of runs and draw their pictures again, from their folders alone; also of runs that are under way."""

    runs: tuple[str, ...] = positional("RUN", "run folders")
    movie: bool = Field(False, description="also write movie.gif")
    format: Literal["png", "pdf", "svg"] = Field("png", description="format of the picture")


def main(argv: list[str]) -> int:
    """Parse, and report each run."""
    words = parse(Plot, argv, "measureflow plot")
    prepare_jax()
    from rich.console import Console

    from measureflow.runs.reading import open

    for run in [open(path) for path in words.runs]:
        report(Console(), run, format=words.format, moving=words.movie)
    return 0

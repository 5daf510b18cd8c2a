"""`measureflow rerun RUN`: run again what was asked for, and say whether the same came out."""

from typing import Annotated

from pydantic import Field, FiniteFloat

from measureflow.cli import prepare_jax
from measureflow.cli.options import parse
from measureflow.cli.resume import one
from measureflow.cli.showing import say, shown
from measureflow.words.outputs import Words, positional


class Rerun(Words):
    """Run again, in a new folder, what a run was asked for, and say whether the data agree to the bit or to which tolerance, and
    which versions differ: exit code 1 if the data differ by more than `tolerance`."""

    run: tuple[str, ...] = positional("RUN", "run folder")
    tolerance: Annotated[FiniteFloat, Field(ge=0)] = Field(
        0.0, description="difference of the data up to which they count as the same; 0 asks for the same bits"
    )
    trust: bool = Field(False, description="execute the file of words (`use`) that the run names, whoever wrote it")
    out: str | None = Field(None, description="run folder to write; a new one under runs/ unless given")


def main(argv: list[str]) -> int:
    """Parse, run, report, and compare all data bit by bit."""
    words = parse(Rerun, argv, "measureflow rerun")
    path = one(words.run)
    prepare_jax()
    from measureflow.runs.comparison import agreement
    from measureflow.runs.invocation import rerun
    from measureflow.runs.reader import Run, open

    made: list[Run] = []

    def work(watch) -> Run:
        made.append(rerun(path, words.out, watch, trust=words.trust))
        return made[0]

    shown(work)
    found = agreement(open(path), made[0])
    say(str(found))
    return 0 if found.difference <= words.tolerance else 1

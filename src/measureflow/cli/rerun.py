"""`measureflow rerun RUN`: run again what was asked for, and say whether the same came out."""

from pydantic import Field

from measureflow.cli import prepare_jax
from measureflow.cli.options import Words, parse, positional
from measureflow.cli.resume import one
from measureflow.cli.showing import say, shown


class Rerun(Words):
    """Run again, in a new folder, what a run was asked for, and compare: exit code 1 if the frames differ."""

    run: tuple[str, ...] = positional("RUN", "run folder")
    out: str | None = Field(None, description="run folder to write; a new one under runs/ unless given")


def main(argv: list[str]) -> int:
    """Parse, run, report, and compare the frames bit by bit."""
    words = parse(Rerun, argv, "measureflow rerun")
    path = one(words.run)
    prepare_jax()
    from measureflow.runs.comparison import difference
    from measureflow.runs.reading import Run, open
    from measureflow.runs.running import rerun

    made: list[Run] = []

    def work(watch) -> Run:
        made.append(rerun(path, words.out, watch))
        return made[0]

    shown(work)
    off = difference(open(path), made[0])
    say("The frames are the same to the bit." if off == 0 else f"The frames differ by up to {off:.3g}.")
    return 0 if off == 0 else 1

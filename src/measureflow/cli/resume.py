"""`measureflow resume RUN`: go on with an interrupted run, to the same bits."""

from pydantic import Field

from measureflow.cli import prepare_jax
from measureflow.cli.options import parse
from measureflow.cli.showing import shown
from measureflow.words.outputs import Words, positional


class Resume(Words):
    """Go on with a run that was killed, interrupted or ran out of disk, to the same bits."""

    run: tuple[str, ...] = positional("RUN", "run folder")
    trust: bool = Field(False, description="execute the file of words (`use`) that the run names, whoever wrote it")


def main(argv: list[str]) -> int:
    """Parse, go on with a progress bar, and report as if nothing had happened."""
    words = parse(Resume, argv, "measureflow resume")
    path = one(words.run)
    prepare_jax()
    from measureflow.runs.invocation import resume

    return shown(lambda watch: resume(path, watch, trust=words.trust))


def one(words: tuple[str, ...]) -> str:
    """The only word of several."""
    from measureflow.words.settings import InputError

    if len(words) != 1:
        raise InputError(f"`run` takes one run folder; got {len(words)}: {', '.join(words)}.")
    return words[0]

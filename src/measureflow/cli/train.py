"""`measureflow train heads` and `train neurons`: trained, saved and pictured; `train certify RUN`: how good they are."""

from pathlib import Path

from pydantic import Field, NonNegativeInt

from measureflow.cli import prepare_jax
from measureflow.cli.options import parse
from measureflow.cli.resume import one
from measureflow.cli.run import main as run
from measureflow.cli.showing import print_report, print_written, say
from measureflow.words.outputs import Picture, Words, numbers_beside, positional
from measureflow.words.settings import InputError
from measureflow.words.table import nearest
from measureflow.words.vocabulary import Positive

USAGE = """usage: measureflow train {heads,neurons,certify,budget} [options]

  heads        train attention heads under cross-entropy; save data, table and picture
  neurons      train a two-layer network on a table of data; save data, table and picture
  certify RUN  print what is known of the end of a run: rest, optimality, stability, and what theorems suppose
  budget RUN   hold training against its mean-field equation: each error, and what would make it smaller

`measureflow train heads --help`, and so on, list the options."""


class Certify(Words):
    """Print what is known of the end of a training run: rest, optimality, stability, and
    each assumption of the theory. Exit code 1 if not optimal."""

    run: tuple[str, ...] = positional("RUN", "run folder of `measureflow train`")
    prove: Positive | None = Field(None, description="prove the bounds by branch and bound, to this tolerance")
    rounds: NonNegativeInt = Field(
        0, description="rounds of Frank-Wolfe, which look for a better lower bound of the risk"
    )
    trust: bool = Field(False, description="execute the file of words (`use`) that the run names, whoever wrote it")
    explain: bool = Field(False, description="say in a paragraph what each word of the table means, with its formula")


class BudgetOf(Words):
    """Hold training against its mean-field equation, for fewer particles and shorter steps too: the largest error over the
    run, its three terms with their constants, and how many particles and which step keep it below a bound."""

    run: tuple[str, ...] = positional("RUN", "run folder of `measureflow train`, or a TOML file with its options")
    error: Positive | None = Field(None, description="error to be kept; half of the least that is met unless given")
    repeats: int = Field(16, ge=4, description="runs for each number of particles and step")
    trust: bool = Field(False, description="execute the file of words (`use`) that the run names, whoever wrote it")
    out: Picture | None = Field(None, description="picture to write; budget.png in the run folder unless given")


def main(argv: list[str]) -> int:
    """Choose between training and certifying."""
    what, *rest = argv or ["--help"]
    match what:
        case "-h" | "--help":
            say(USAGE)
            return 0
        case "heads" | "neurons":
            return run(f"train {what}", rest)
        case "certify":
            words = parse(Certify, rest, "measureflow train certify")
            return _certify(one(words.run), words)
        case "budget":
            words = parse(BudgetOf, rest, "measureflow train budget")
            return _budget(one(words.run), words)
        case _:
            raise InputError(
                f"{what!r} is not something to train{nearest(what, ['heads', 'neurons', 'certify', 'budget'])}.",
                "",
                USAGE,
            )


def _certify(path: str, words: Certify) -> int:
    prepare_jax()
    from measureflow.cli.printing import Printer
    from measureflow.commands.train.certificate import certified

    found = certified(path, prove=words.prove, rounds=words.rounds, trust=words.trust)
    print_report(Printer(), found.report, explain=words.explain)
    say("\nWhat theorems suppose of this run:")
    print_report(Printer(), found.assumptions)
    return 0 if found.optimal else 1


def _budget(path: str, words: BudgetOf) -> int:
    prepare_jax()
    from measureflow.cli.printing import Printer
    from measureflow.commands.train.budget import COMMAND, budget_of, config_of, written

    config, console = config_of(path, words.trust), Printer()
    picture = Path(words.out or (Path(path) if Path(path).is_dir() else Path()) / "budget.png")
    numbers_beside(picture, COMMAND)
    say(f"Comparing {config.optimiser} of up to {config.count} {config.noun} with the mean-field equation ...")
    found = budget_of(config, repeats=words.repeats)
    print_report(console, found.report(words.error))
    print_written(console, written(found, config, words.error, picture))
    return 0

"""`measureflow train heads`: heads trained by cross-entropy, saved and pictured; `train certify RUN`: how good they are."""

from typing import TYPE_CHECKING

from pydantic import Field

from measureflow.cli import prepare_jax
from measureflow.cli.options import Words, parse, positional
from measureflow.cli.resume import one
from measureflow.cli.showing import print_table, say
from measureflow.cli.simulate import main_of
from measureflow.runs.settings import InputError
from measureflow.runs.vocabulary import Positive
from measureflow.runs.words import nearest

if TYPE_CHECKING:
    from measureflow.measures import Particles
    from measureflow.runs.heads import HeadTraining
    from measureflow.runs.training import Problem
    from measureflow.spaces import Product
    from measureflow.training import Certificate

USAGE = """usage: measureflow train {heads,certify} [options]

  heads        train attention heads under cross-entropy; save data, table and picture
  certify RUN  print what is known of the last heads of a run: rest, optimality, stability

`measureflow train heads --help` and `measureflow train certify --help` list the options."""


class Certify(Words):
    """Print what is known of the last heads of a training run: rest, optimality, stability. Exit code 1 if not optimal."""

    run: tuple[str, ...] = positional("RUN", "run folder of `measureflow train heads`")
    prove: Positive | None = Field(None, description="prove the bounds by branch and bound, to this tolerance")


def main(argv: list[str]) -> int:
    """Choose between training and certifying."""
    what, *rest = argv or ["--help"]
    match what:
        case "-h" | "--help":
            say(USAGE)
            return 0
        case "heads":
            return main_of("train heads", rest)
        case "certify":
            words = parse(Certify, rest, "measureflow train certify")
            return _certify(one(words.run), words.prove)
        case _:
            raise InputError(f"{what!r} is not something to train{nearest(what, ['heads', 'certify'])}.", "", USAGE)


def _certify(path: str, prove: float | None) -> int:
    prepare_jax()
    from rich.console import Console

    from measureflow.runs.training import hull, reopen
    from measureflow.training import duality_gap

    config, problem, mu = reopen(path)
    space = hull(problem.risk, mu)
    try:
        found = duality_gap(problem.risk, mu, space, prove=prove, starts=64, steps=150)
    except ValueError as error:
        raise InputError(str(error)) from None
    print_table(Console(), [*_rest_rows(problem, mu), *_optimality_rows(config, problem, mu, space, found)])
    return 0 if found.optimal else 1


def _rest_rows(problem: "Problem", mu: "Particles"):
    """Whether the heads are at rest, and what happens to them if they are moved a little."""
    from measureflow.training import dissipation, stability
    from measureflow.training.certificates import STATIONARY
    from measureflow.training.perturbation import ritz_values, splitting, translation

    energy, value = problem.energy, float(problem.risk(mu))
    lost, least = float(dissipation(energy, mu)), STATIONARY * (1 + value)
    yield "risk", f"{value:.8g}"
    yield "at rest", f"{'yes' if lost <= least else 'no'}, dissipation {lost:.4g}"
    if lost <= least:
        # No head has a larger gradient at that dissipation.
        found = stability(energy, problem.risk.heads, mu, stationary=(least / float(mu.weights.min())) ** 0.5)
        way = "growth" if found.rate > 0 else "decay"
        yield "moved a little", f"{found.kind}: {way} at rate {abs(found.rate):.4g}, {found.gauge} gauge directions"
        apart, together = found.splitting[0], found.translation[0]
    else:
        apart, together = (float(ritz_values(make, energy, mu)[0]) for make in (splitting, translation))
    yield "least eigenvalues", f"{apart:.4g} of H (heads apart), {together:.4g} of H_tr (together)"


def _optimality_rows(
    config: "HeadTraining", problem: "Problem", mu: "Particles", space: "Product", found: "Certificate"
):
    from measureflow.training import FullHeads, ridge_criterion, violations
    from measureflow.training.certificates import OPTIMAL

    yield "spread of Ψ on the heads", f"{found.spread:.4g}"
    yield "gap", f"{found.gap:.6g}, among heads no larger than these"
    yield "lower bound of the risk", f"{found.lower_bound:.8g} ({found.proof})"
    if config.decay and isinstance(problem.risk.heads, FullHeads):
        radius = max(float(part.radius) for part in space.spaces[:2])  # pyright: ignore[reportAttributeAccessIssue]
        largest = -ridge_criterion(problem.risk, mu, radius, starts=64).value
        yield "largest singular value of G", f"{largest:.6g}, optimal for the decay {config.decay:g} if equal"
    better = float(mu.weights @ violations(problem.risk, mu, found.offender)) < -OPTIMAL * (1 + found.risk)
    no = "no: the offending head lowers the risk" if better else "undecided: no better head is known"
    yield "optimal", "yes" if found.optimal else no

"""`measureflow train heads`: heads trained by cross-entropy, saved and pictured; `train certify RUN`: how good they are."""

from typing import TYPE_CHECKING

from measureflow.cli import prepare_jax
from measureflow.cli.options import parse
from measureflow.cli.progress import Bar, print_table, print_written
from measureflow.runs.config import InputError
from measureflow.runs.training import HeadTraining

if TYPE_CHECKING:
    from measureflow.measures import Particles
    from measureflow.runs.train import Problem, Progress
    from measureflow.spaces import Product
    from measureflow.training import Certificate

USAGE = """usage: measureflow train heads [options]
       measureflow train certify RUN [--prove TOL]

  heads        train attention heads under cross-entropy; save data, table and picture
  certify      print what is known of the last heads of a run: rest, optimality, stability
  --prove TOL  prove the bounds by branch and bound, to this tolerance (`--data f2`)"""


def main(argv: list[str]) -> int:
    """Choose between training and certifying."""
    what, *rest = argv or ["--help"]
    match what:
        case "-h" | "--help":
            print(USAGE)  # noqa: T201
            return 0
        case "heads":
            return _heads(parse(HeadTraining, rest, "measureflow train heads"))
        case "certify":
            return _certify(*_run_and_tolerance(rest))
        case _:
            raise InputError(f"{what!r} is not something to train.", "", USAGE)


def _heads(config: HeadTraining) -> int:
    prepare_jax()
    from rich.console import Console

    from measureflow.runs.train import train

    console = Console()
    with Bar(console, config.time) as bar:
        progress = train(config, lambda progress: _show(bar, progress))
    print_table(console, _rows(progress))
    console.print(progress.outcome, soft_wrap=True)
    print_written(console, {"picture": _picture(progress), "data": progress.path / "data.zarr"})
    return 0


def _show(bar: Bar, progress: "Progress") -> None:
    bar.begin()
    if len(progress.times):
        state = f"risk {progress.risk[-1]:.5g}, dissipation {progress.dissipation[-1]:.3g}, gap {progress.gap:.3g}"
        bar.reach(float(progress.times[-1]), state)


def _rows(progress: "Progress"):
    yield _risk_name(progress.problem), f"{progress.risk[0]:.6g} to {progress.risk[-1]:.6g}"
    yield "dissipation", f"{progress.dissipation[0]:.4g} to {progress.dissipation[-1]:.4g}"
    yield "gap", f"{progress.gap:.4g}, heuristic, among heads no larger than these"
    if progress.limit is not None:
        yield "mean-field limit", f"risk {progress.limit[-1]:.6g} with {progress.problem.config.limit} heads"
    yield "seconds", f"{progress.seconds:.1f}"


def _risk_name(problem: "Problem") -> str:
    return "risk with decay" if problem.config.decay else "risk"


def _picture(progress: "Progress") -> str:
    import jax
    import numpy as np

    from measureflow.plotting import training_figure
    from measureflow.runs.reading import Run
    from measureflow.training.stability import ritz_values, splitting, translation

    problem, config = progress.problem, progress.problem.config
    size = problem.risk.heads.size
    points = Run(progress.path).data.points.values
    first, last = (np.asarray(jax.vmap(problem.risk.heads.invariants)(frame[:, :size])) for frame in points[[0, -1]])
    heads = problem.heads(progress.final)
    apart, together = (np.asarray(ritz_values(make, problem.energy, heads)) for make in (splitting, translation))
    step = "" if config.optimiser == "flow" else f", step {config.step:g}"
    title = f"{config.heads} heads on {config.data}: {config.optimiser}{step}, decay {config.decay:g}"
    figure = training_figure(
        progress.times, progress.risk, progress.dissipation, first, last, apart, together, title,
        limit=progress.limit, limit_heads=config.limit, risk_name=_risk_name(problem),
    )  # fmt: skip
    figure.savefig(progress.path / "figure.png")
    return str(progress.path / "figure.png")


def _run_and_tolerance(words: list[str]) -> tuple[str, float | None]:
    match words:
        case [run] if not run.startswith("-"):
            return run, None
        case [run, "--prove", tolerance] | ["--prove", tolerance, run] if not run.startswith("-"):
            return run, _tolerance(tolerance)
        case _:
            raise InputError("`train certify` takes one run folder, such as `runs/train-1`.", "", USAGE)


def _tolerance(word: str) -> float:
    try:
        tolerance = float(word)
    except ValueError:
        tolerance = 0.0
    if not 0 < tolerance < float("inf"):
        raise InputError(f"`prove` must be a positive tolerance, such as 1e-3; got {word!r}.")
    return tolerance


def _certify(path: str, prove: float | None) -> int:
    prepare_jax()
    from rich.console import Console

    from measureflow.runs.train import hull, reopen
    from measureflow.training import duality_gap

    problem, mu = reopen(path)
    space = hull(problem.risk, mu)
    try:
        found = duality_gap(problem.risk, mu, space, prove=prove, starts=64, steps=150)
    except ValueError as error:
        raise InputError(str(error)) from None
    console = Console()
    print_table(console, [*_rest_rows(problem, mu), *_optimality_rows(problem, mu, space, found)])
    return 0 if found.optimal else 1


def _rest_rows(problem: "Problem", mu: "Particles"):
    """Whether the heads are at rest, and what happens to them if they are moved a little."""
    from measureflow.training import dissipation, stability
    from measureflow.training.certificates import STATIONARY
    from measureflow.training.stability import ritz_values, splitting, translation

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


def _optimality_rows(problem: "Problem", mu: "Particles", space: "Product", found: "Certificate"):
    from measureflow.training import FullHeads, ridge_criterion, violations
    from measureflow.training.certificates import OPTIMAL

    yield "spread of Ψ on the heads", f"{found.spread:.4g}"
    yield "gap", f"{found.gap:.6g}, among heads no larger than these"
    yield "lower bound of the risk", f"{found.lower_bound:.8g} ({found.proof})"
    if problem.config.decay and isinstance(problem.risk.heads, FullHeads):
        radius = max(float(part.radius) for part in space.spaces[:2])  # pyright: ignore[reportAttributeAccessIssue]
        largest = -ridge_criterion(problem.risk, mu, radius, starts=64).value
        yield "largest singular value of G", f"{largest:.6g}, optimal for the decay {problem.config.decay:g} if equal"
    better = float(mu.weights @ violations(problem.risk, mu, found.offender)) < -OPTIMAL * (1 + found.risk)
    no = "no: the offending head lowers the risk" if better else "undecided: no better head is known"
    yield "optimal", "yes" if found.optimal else no

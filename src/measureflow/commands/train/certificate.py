"""What is known of the end of a training run: rest, optimality, stability, and what theorems suppose."""

from typing import NamedTuple

import numpy as np

from measureflow.commands.train import AbstractTraining
from measureflow.commands.train.job import Problem, built, worth
from measureflow.commands.train.report import prediction_rows
from measureflow.commands.train.settings import Training
from measureflow.measures import Particles
from measureflow.runs.reader import check_inputs
from measureflow.runs.reader import open as open_run
from measureflow.runs.trust import use_words_of
from measureflow.training import AbstractRisk, check_assumptions, examine
from measureflow.training.glossary import notes
from measureflow.wording import Report
from measureflow.words.settings import InputError
from measureflow.words.table import load


class Certified(NamedTuple):
    """What was found of a run, what theorems suppose of it, and whether it is optimal."""

    report: Report
    assumptions: Report
    optimal: bool


class Reopened(NamedTuple):
    """A training run opened again: what was asked, its problem, its last particles and those of all frames."""

    config: Training
    problem: Problem
    final: Particles
    points: np.ndarray


def certified(path: str, *, prove: float | None = None, rounds: int = 0, trust: bool = False) -> Certified:
    """Examine the end of a run; bounds are proved to a tolerance, or improved by rounds of Frank-Wolfe, if that is asked."""
    config, problem, mu, points = reopen(path, trust)
    if not isinstance(problem.risk, AbstractRisk):
        raise InputError("Several layers are not convex in their measure, so that no certificate is known; train one.")
    try:
        found = examine(problem.risk, mu, decay=config.decay, prove=prove, rounds=rounds)
    except ValueError as error:
        raise InputError(str(error)) from None
    supposed = check_assumptions(problem.optimiser.descent, points, found)
    against = Report(tuple(prediction_rows(config.noun, worth(problem, mu))), notes("baselines"))
    return Certified(found.report + against, supposed.report, found.certificate.optimal)


def reopen(path: str, trust: bool = False) -> Reopened:
    """Open a training run again; its data must be what they were, and its file of words one that was run before."""
    run = open_run(path)
    if not isinstance(run.command, AbstractTraining) or not run.frames:
        raise InputError(f"{path!r} is not a training run with saved frames; `measureflow train heads` writes one.")
    check_inputs(run)
    use_words_of(run, trust)
    problem, _ = built(run.config, load(run.config.source)(run.config))
    points = np.asarray(run.data.points.values)[: run.frames, :, : problem.risk.family.size]
    return Reopened(run.config, problem, problem.optimiser.particles(run.final), points)

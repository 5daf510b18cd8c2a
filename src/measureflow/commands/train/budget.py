"""The error budget of a training run, or of a configuration of one: training against its mean-field equation."""

from pathlib import Path
from typing import Any

from measureflow.commands.train import AbstractTraining
from measureflow.commands.train.data import Data
from measureflow.commands.train.job import MANY, built, flow_solver
from measureflow.commands.train.settings import FILES, HeadTraining, NeuronTraining, Training
from measureflow.runs.command import command
from measureflow.runs.reader import check_inputs
from measureflow.runs.reader import open as open_run
from measureflow.runs.session import in_float64
from measureflow.runs.trust import use_words_of
from measureflow.training import ErrorBudget, Text, TrainingRule, error_budget
from measureflow.words.outputs import numbers_beside, write_numbers
from measureflow.words.settings import InputError, read_toml
from measureflow.words.table import load
from measureflow.words.vocabulary import OPTIMISERS, TABLES_OF_DATA

FRAMES = 21
"""Times at which the mean-field equation is solved; runs are compared with it at every step."""

COMMAND = "measureflow train budget"
LEAST_POOL = 1024
"""Particles, at least, that stand for infinitely many."""


def config_of(path: str, trust: bool = False) -> Training:
    """The settings of a training run, or those that a TOML file describes."""
    if Path(path).is_file():
        return _from_toml(path)
    run = open_run(path)
    if not isinstance(run.command, AbstractTraining):
        raise InputError(f"{path!r} is no training run; `measureflow train heads` and `train neurons` make them.")
    check_inputs(run)
    use_words_of(run, trust)
    return run.config


def _from_toml(path: str) -> Training:
    """The settings in a file; those of neurons if it has options or data of neurons alone."""
    words = read_toml(path)
    data = str(words.get("data", ""))
    own = set(words) & (set(NeuronTraining.model_fields) - set(HeadTraining.with_options().model_fields))
    neurons = "heads" not in words and (own or data in TABLES_OF_DATA or data.endswith(FILES))
    return command("train neurons" if neurons else "train heads").settings({}, path)


def rule_of(config: Training) -> tuple[TrainingRule, Data]:
    """How a configuration trains, with the data that it has; a text stands for its first windows."""
    data = load(config.source)(config)
    if isinstance(data.source, Text):
        windows = data.source.windows(MANY)
        data = data._replace(source=windows, risk=windows)
    problem, flow = built(config, data)
    batch = config.batch if OPTIMISERS.choose(config).samples else None
    return TrainingRule(problem.optimiser, batch, flow.noise, flow_solver(config, config.step / 8)), data


def budget_of(config: Training, *, repeats: int = 16) -> ErrorBudget:
    """Measure the budget around what a configuration asks: fewer particles and shorter steps beside its own."""
    rule, data = rule_of(config)
    most = config.count
    counts = tuple(sorted({max(2, most // 16), max(2, most // 4), most}))
    if len(counts) < 3:
        raise InputError(f"`{config.noun}` must be at least 32 for a budget, which compares fewer; got {most}.")
    size = max(LEAST_POOL, repeats * most)
    pool = in_float64(lambda: data.risk.family.gaussian(size, data.scale, key=config.seed))
    steps = tuple(config.step / k for k in (1, 2, 4))
    sizes: Any = {"counts": counts, "steps": steps, "frames": FRAMES, "repeats": repeats}
    try:
        return error_budget(rule, pool, config.time, noun=config.noun, key=config.seed, **sizes)
    except ValueError as error:
        raise InputError(str(error)) from None


def figure(found: ErrorBudget, config: Training) -> Any:
    """Errors over numbers of particles and steps, beside what 95% of runs should stay below."""
    from measureflow.plotting.budgets import budget_figure

    title = f"{config.optimiser} of {config.noun} on {config.data} against the mean-field equation"
    return budget_figure(found.counts, found.steps, found.total, found.bounds, noun=found.noun, title=title)


def stored(found: ErrorBudget, error: float | None) -> dict[str, Any]:
    """All that was measured, as a JSON file keeps it."""
    terms = {
        term.name: {
            "settings": term.settings.tolist(),
            "risk": term.risk.values.tolist(),
            "test": term.test.values.tolist(),
        }
        for term in found.terms
    }
    whole = {
        name: getattr(found, name).tolist() for name in ("counts", "steps", "total", "total_test", "bounds", "ratios")
    }
    return {
        "budget": found.law._asdict(),
        "terms": terms,
        "rows": [list(row) for row in found.report(error).rows],
        **whole,
    }


def written(found: ErrorBudget, config: Training, error: float | None, picture: Path) -> dict[str, Path]:
    """Write the picture, and beside it the numbers; where both are."""
    data = numbers_beside(picture, COMMAND)
    try:
        figure(found, config).savefig(picture)
        write_numbers(data, COMMAND, stored(found, error))
    except OSError as problem:
        raise InputError(f"`out`: cannot write {str(picture)!r}: {problem.strerror or problem}.") from None
    return {"picture": picture, "data": data}

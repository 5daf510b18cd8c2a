"""The error budget of a training run, or of a configuration of one: training against its mean-field equation."""

import tomllib
from pathlib import Path
from typing import Any

from measureflow.commands.train.job import MANY, built
from measureflow.commands.train.neurons import NeuronTraining
from measureflow.commands.train.settings import AbstractTraining, Training
from measureflow.flows import Adaptive, Heun
from measureflow.runs.command import command
from measureflow.runs.reader import check_inputs
from measureflow.runs.reader import open as open_run
from measureflow.runs.session import in_float64
from measureflow.training import Adam, Descent, HeavyBall, Practice, Settlement, Text, langevin, settle
from measureflow.words.settings import InputError
from measureflow.words.table import load

FRAMES = 21
"""Times at which runs are compared."""


def config_of(path: str) -> Training:
    """The settings of a training run, or those that a TOML file describes."""
    if Path(path).is_file():
        try:
            keys = set(tomllib.loads(Path(path).read_text()))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise InputError(f"{path!r} is not a TOML file: {error}.") from None
        neurons = keys & (set(NeuronTraining.model_fields) - set(Training.model_fields))
        return command("train neurons" if neurons and "heads" not in keys else "train heads").settings({}, path)
    run = open_run(path)
    if not isinstance(run.command, AbstractTraining):
        raise InputError(f"{path!r} is no training run; `measureflow train heads` and `train neurons` make them.")
    check_inputs(run)
    return run.config


def practice_of(config: Training) -> tuple[Practice, Any]:
    """How a configuration trains, with the data that it has; a text stands for its first windows."""
    data = load(config.source)(config)
    if isinstance(data.source, Text):
        windows = data.source.windows(MANY)
        data = data._replace(source=windows, risk=windows)
    problem, _ = built(config, data)
    field = problem.field if isinstance(problem.field, HeavyBall | Adam) else problem.descent
    assert isinstance(field, Descent | HeavyBall | Adam)
    batch = config.batch if config.optimiser == "sgd" else None
    noise = langevin(config.beta) if config.optimiser == "langevin" else None
    solver = Heun(config.step / 8) if config.kinked else Adaptive(1e-6, 1e-8)
    return Practice(field, batch, noise, solver), data


def settled(config: Training, *, repeats: int = 16) -> Settlement:
    """Measure the budget around what a configuration asks: fewer particles and shorter steps beside its own."""
    practice, data = practice_of(config)
    most = config.count
    counts = tuple(sorted({max(2, most // 16), max(2, most // 4), most}))
    if len(counts) < 3:
        raise InputError(f"`{config.noun}` must be at least 32 for a budget, which compares fewer; got {most}.")
    scale = data.scale
    pool = in_float64(lambda: data.risk.family.gaussian(max(1024, repeats * most), scale, key=config.seed))
    steps = tuple(config.step / k for k in (1, 2, 4))
    try:
        return settle(
            practice,
            pool,
            config.time,
            counts=counts,
            steps=steps,
            frames=FRAMES,
            repeats=repeats,
            noun=config.noun,
            key=config.seed,
        )
    except ValueError as error:
        raise InputError(str(error)) from None


def figure(found: Settlement, config: Training) -> Any:
    """Errors over numbers of particles and steps, beside the sum of their terms."""
    from measureflow.plotting.settling import settlement_figure

    title = f"{config.optimiser} of {config.noun} on {config.data} against the mean-field equation"
    return settlement_figure(found.counts, found.steps, found.total, found.bounds, noun=found.noun, title=title)


def stored(found: Settlement, error: float | None) -> dict[str, Any]:
    """All that was measured, as a JSON file keeps it."""
    parts = ("settings", "risk", "test")
    terms = {term.name: {part: getattr(term, part).tolist() for part in parts} for term in found.terms}
    whole = {
        name: getattr(found, name).tolist() for name in ("counts", "steps", "total", "total_test", "bounds", "ratios")
    }
    return {
        "budget": found.budget._asdict(),
        "terms": terms,
        "rows": [list(row) for row in found.report(error).rows],
        **whole,
    }

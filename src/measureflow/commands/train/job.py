"""Training as a job, whatever is trained: the problem that a configuration describes, its flow, and what is found at the end."""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from measureflow.commands.train.data import Data
from measureflow.commands.train.settings import Training
from measureflow.energies import AbstractEnergy
from measureflow.flows import AbstractSolver, Adaptive, Flow, Heun, precision
from measureflow.measures import AbstractMeasure, Particles
from measureflow.runs.job import ExtraArrays, Job, Progress
from measureflow.runs.reader import Run
from measureflow.runs.session import in_float64
from measureflow.training import (
    AbstractObjective,
    AbstractOptimiser,
    AbstractRisk,
    Descent,
    Ridge,
    StochasticDescent,
    Text,
    dissipation,
    duality_gap,
)
from measureflow.training.perturbation import ritz_values, splitting, translation
from measureflow.wording import rounding
from measureflow.words import memory
from measureflow.words.series import Series
from measureflow.words.settings import InputError
from measureflow.words.table import load
from measureflow.words.vocabulary import MEASURES, OPTIMISERS, PROFILES

QUARTERS = 4
"""Parts of many particles whose risks tell how far the risk of all of them is from that of infinitely many."""

MANY = 128
"""Windows of a text whose mean risk the mean-field limit descends."""

BASIS = 2**26
"""Numbers that the basis of Lanczos may hold: 512 MiB in float64."""

WRITTEN = 80
"""Characters that trained heads write, to show what they have learned."""


class Problem(eqx.Module):
    """What is trained: where samples come from, the risk that is watched, the risk of data that are not trained on, the energy
    that is descended, and the optimiser along the descent of it."""

    source: AbstractObjective | Text
    risk: AbstractObjective
    unseen: AbstractObjective | None
    energy: AbstractEnergy
    optimiser: AbstractOptimiser

    def particles(self, mu: AbstractMeasure) -> Particles:
        """The heads or neurons alone, without velocities or averages."""
        return self.optimiser.particles(mu)


@dataclass(frozen=True, kw_only=True)
class TrainingJob(Job):
    """Training: it stops when particles become too stiff for the step, and ends with gap, spectra and, if asked, the limit."""

    problem: Problem

    @property
    def config(self) -> Training:
        """What was asked."""
        assert isinstance(self.settings, Training)
        return self.settings

    def stop(self, state: Progress) -> str | None:
        """Why the step no longer suits, with the limit."""
        config = self.config
        if not config.stepped or config.step <= (limit := self.problem.optimiser.step_limit(state.mu, state.time)):
            return None
        return (
            f"Stopped at t = {state.time:.6g}: the {config.noun} have become stiff, and the step {config.step:g} is beyond the "
            f"stability limit {limit:.4g}; take a shorter step, add `--decay`, or use `--optimiser flow`."
        )

    def finish(self, state: Progress) -> ExtraArrays:
        """The particles up to gauge at both ends, the spectra at the end, and the risk of very many of them."""
        problem, final = self.problem, self.problem.particles(state.mu)
        state.stats |= _bounds(problem, final) | worth(problem, final) | ({"learned": self.data} if self.data else {})
        state.stats |= _sample(problem.source, final, self.config.seed)
        ends = [
            jax.vmap(problem.risk.family.invariants)(mu.points) for mu in (problem.particles(self.flow.start), final)
        ]
        found: ExtraArrays = {
            "invariants": (("end", "token", "invariant"), np.stack([np.asarray(end) for end in ends])),
            "splitting": (("apart",), _spectrum(splitting, problem.energy, final)),
            "translation": (("together",), _spectrum(translation, problem.energy, final)),
        }
        if self.config.limit:
            found |= {name: (("limit_time",), values) for name, values in _limit(self.config, state.frames).items()}
        return found


def _spectrum(make: Any, energy: AbstractEnergy, mu: Particles) -> np.ndarray:
    """What Lanczos sees of a spectrum, in as many steps as fit into memory."""
    return np.asarray(ritz_values(make, energy, mu, int(np.clip(BASIS // mu.points.size, 3, 40))))


def job_of(config: Training) -> TrainingJob:
    """The job that a configuration describes; a step beyond the stability limit of the start is refused."""
    memory.check(config)
    try:
        data = load(config.source)(config)
        problem, flow = built(config, data)
        if config.stepped:
            problem.optimiser.check_step(flow.start, config.step)
    except ValueError as error:
        raise InputError(str(error)) from None
    step = f", step {config.step:g}" if config.stepped else ""
    layers = f" in each of {config.depth} layers" if config.depth > 1 else ""
    return TrainingJob(
        problem=problem,
        settings=config,
        flow=flow,
        word=MEASURES["particles"],
        word_name="particles",
        series=_series(problem, "risk with decay" if config.decay else "risk", precision(flow.start)),
        title=f"{config.count} {config.noun}{layers} on {config.data}: {config.optimiser}{step}, decay {config.decay:g}",
        frames_per_leg=config.frames_per_leg,
        command=f"train {config.noun}",
        data=data.words,
        seed=config.seed,
        verify=OPTIMISERS.choose(config).solver is None,
    )


def built(config: Training, data: Data) -> tuple[Problem, Flow[Particles]]:
    """The problem and the flow that a configuration describes."""
    word, profile, penalty = OPTIMISERS.choose(config), PROFILES.choose(config).build(config), _penalty(config)
    energy = data.risk if penalty is None else data.risk + penalty
    field = optimiser = word.field(config, Descent(energy, profile))
    if word.samples:
        sampled = StochasticDescent(data.source, config.seed, config.step, config.batch, profile, penalty)
        field = optimiser.along(sampled)
    first = in_float64(lambda: data.risk.family.gaussian(config.count, data.scale, key=config.seed))
    solver = flow_solver(config, config.step) if word.solver is None else load(word.solver)(config.step)
    noise = None if word.noise is None else word.noise.build(config)
    flow = Flow(field, optimiser.start(first), _times(config), solver, noise=noise, key=config.seed)
    return Problem(data.source, data.risk, data.unseen, energy, optimiser), flow


def _penalty(config: Training) -> Ridge | None:
    return Ridge(config.decay) if config.decay else None


def _series(problem: Problem, name: str, precision: np.dtype) -> tuple[Series, ...]:
    energy, zero = problem.energy, rounding(precision, problem.risk.baselines().uniform)

    def lost(mu: AbstractMeasure):
        return dissipation(energy, problem.particles(mu))

    return (
        Series("risk", lambda mu: energy(problem.particles(mu)), name, telling=True),
        # The gradient is rounded like the risk, and its square is dissipated.
        Series("dissipation", lost, "dissipation", ".4g", telling=True, rounding=zero**2),
    )


def flow_solver(config: Training, step: float, smooth: AbstractSolver | None = None) -> AbstractSolver:
    """The solver of a flow: one that chooses its steps, but steps of given length where kinks would stop it again and again."""
    return Heun(step) if config.kinked else smooth or Adaptive(1e-6, 1e-8)


def _times(config: Training) -> np.ndarray:
    steps = max(1, round(config.time / config.step))
    if not config.stepped:
        return np.linspace(0.0, config.time, config.frames)
    return config.step * np.unique(np.round(np.linspace(0, steps, config.frames)))


def _limit(config: Training, frames: int) -> dict[str, np.ndarray]:
    """The risk of the mean-field equation over time, by the characteristics of very many particles, with its standard error.

    Training on samples has the flow of their mean as its limit; beside it is the risk of as many particles on the samples of the
    run, whose noise no number of them removes. Langevin noise is drawn for every particle, so many are their own limit.
    """
    many = config.counting(config.limit)
    word = OPTIMISERS.choose(config)
    problem, flow = built(many, load(many.source)(many))
    limit = flow if word.noise is not None else mean_field(config, problem, flow)
    risk, error = _risks(problem, limit, config.frames_per_leg)
    found = {"limit": risk, "limit_error": error}
    if word.samples:
        found["on_samples"] = _risks(problem, flow, config.frames_per_leg)[0]
    return {name: values[:frames] for name, values in found.items()}


def mean_field(config: Training, problem: Problem, flow: Flow[Particles]) -> Flow[Particles]:
    """The flow of the risk that samples are drawn from, without steps or samples of its own."""
    descent, penalty = problem.optimiser.descent, _penalty(config)
    if OPTIMISERS.choose(config).samples:
        source = problem.source.windows(MANY) if isinstance(problem.source, Text) else problem.source
        descent = Descent(source if penalty is None else source + penalty, descent.profile)
    solver = flow_solver(config, config.step, Adaptive(1e-5, 1e-7))
    return Flow(problem.optimiser.along(descent), flow.start, flow.times, solver)


def _risks(problem: Problem, flow: Flow[Particles], size: int) -> tuple[np.ndarray, np.ndarray]:
    """The risk along a flow, and its standard error by quarters of the heads, which are independent but for what they share."""
    legs = [_risk_and_error(problem, path.measures) for path in flow.legs(size)]
    risks, errors = (np.concatenate([np.asarray(part) for part in parts]) for parts in zip(*legs, strict=True))
    return risks, errors


@eqx.filter_jit
def _risk_and_error(problem: Problem, measures: Particles):
    def one(mu):
        heads = problem.particles(mu)
        quarter = len(heads.points) // QUARTERS
        parts = heads.points[: QUARTERS * quarter].reshape(QUARTERS, quarter, heads.points.shape[1])
        risks = (
            jax.vmap(lambda points: problem.energy(Particles(heads.space, points)))(parts) if quarter else jnp.zeros(1)
        )
        return problem.energy(heads), jnp.std(risks, ddof=1) / QUARTERS**0.5 if quarter else jnp.full((), jnp.nan)

    return jax.lax.map(one, measures)


def _bounds(problem: Problem, mu: Particles) -> dict[str, Any]:
    """The gap among particles no larger than these, from a quick search; only what is convex in the measure has one."""
    if not isinstance(problem.risk, AbstractRisk):
        return {"risk": float(problem.risk(mu))}
    found = duality_gap(problem.risk, mu, problem.risk.family.hull(mu.points), starts=8, steps=30)
    return {name: getattr(found, name) for name in ("risk", "gap", "floor", "proof")}


def worth(problem: Problem, mu: Particles) -> dict[str, Any]:
    """What to hold against the risk: baselines, how good predictions are, and both on what was held out."""
    name = problem.risk.quality.replace(" ", "_")
    found: dict[str, Any] = {"quality": name, name: float(problem.risk.judged(mu))}
    found |= {name: value for name, value in problem.source.baselines()._asdict().items() if value is not None}
    unseen = problem.unseen
    if unseen is not None:
        found |= {"held_out_risk": float(unseen(mu)), f"held_out_{name}": float(unseen.judged(mu))}
    return found


def _sample(source: AbstractObjective | Text, mu: Particles, seed: int) -> dict[str, Any]:
    """How the heads continue a text."""
    if not isinstance(source, Text):
        return {}
    prompt = source.prompt()
    return {"prompt": prompt, "continuation": source.write(mu, prompt, WRITTEN, key=seed)}


def finished(run: Run) -> dict[str, np.ndarray]:
    """What a run that was killed has not stored of its end, computed from its last frame."""
    found = job_of(run.config).finish(Progress(run.final, run.frames, float(run.times[-1])))
    return {name: values for name, (_, values) in found.items()}

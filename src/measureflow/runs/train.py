"""Train heads leg by leg into a run folder, and read back what is needed for a certificate."""

import time
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from measureflow.energies import AbstractEnergy
from measureflow.fields import AbstractField
from measureflow.flows import AbstractSolver, Adaptive, Euler, Trajectory, legs
from measureflow.flows.evolve import prepared
from measureflow.measures import AbstractMeasure, Particles
from measureflow.runs.config import InputError, read
from measureflow.runs.folder import RunFolder, environment, is_run
from measureflow.runs.reading import Run
from measureflow.runs.simulate import in_thread
from measureflow.runs.training import HeadTraining
from measureflow.spaces import Product
from measureflow.training import (
    Adam,
    Constant,
    Descent,
    FullHeads,
    HeadRisk,
    HeavyBall,
    InverseTime,
    Ridge,
    StochasticDescent,
    Text,
    dissipation,
    duality_gap,
    extended,
    fixtures,
    langevin,
    marginal,
    step_limit,
)
from measureflow.training.dynamics import check_step

SERIES = ("risk", "dissipation")
PARTS = {"momentum": 2, "adam": 3}
"""How many vectors a particle holds: the head, its velocity or its averages."""


class Problem(NamedTuple):
    """Everything a training run needs: the risk that is watched, the energy that is descended, and how."""

    config: HeadTraining
    risk: HeadRisk
    energy: AbstractEnergy
    descent: Descent
    field: AbstractField
    solver: AbstractSolver
    start: Particles
    times: np.ndarray

    def heads(self, mu: AbstractMeasure) -> Particles:
        """The heads alone, without velocities or averages."""
        assert isinstance(mu, Particles)
        parts = PARTS.get(self.config.optimiser, 1)
        return mu if parts == 1 else marginal(mu, parts)

    @property
    def limited(self) -> Descent | HeavyBall | None:
        """The field whose curvature limits the step, where steps are fixed and a limit is known."""
        if self.config.optimiser in ("descent", "sgd", "langevin"):
            return self.descent
        return self.field if isinstance(self.field, HeavyBall) else None

    def legs(self):
        """The legs of the run."""
        field, start, times, solver = prepared(self.field, self.start, self.times, self.solver)
        noise = langevin(self.config.beta) if self.config.optimiser == "langevin" else None
        kicks = None if noise is None else noise.kicks(start, times, solver, self.config.seed)
        return legs(field, start, times, solver, self.config.frames_per_leg, kicks)


@dataclass
class Progress:
    """What is known of a training run so far, for whoever watches it."""

    path: Path
    problem: Problem
    final: Particles
    times: np.ndarray = field(default_factory=lambda: np.zeros(0))
    risk: np.ndarray = field(default_factory=lambda: np.zeros(0))
    dissipation: np.ndarray = field(default_factory=lambda: np.zeros(0))
    limit: np.ndarray | None = None
    gap: float = float("nan")
    outcome: str = "Running."
    ok: bool = True
    seconds: float = 0.0


def build(config: HeadTraining) -> Problem:
    """The training run that a configuration describes."""
    try:
        source, risk = data(config)
        energy = risk + Ridge(config.decay) if config.decay else risk
        profile = InverseTime() if config.profile == "inverse" else Constant()
        descent = Descent(energy, profile)
        start = risk.heads.gaussian(config.heads, config.scale, key=config.seed)
        penalty = Ridge(config.decay) if config.decay else None
        field = {
            "sgd": lambda: StochasticDescent(source, config.seed, config.step, config.batch, profile, penalty),
            "momentum": lambda: HeavyBall(descent, config.friction),
            "adam": lambda: Adam(descent, config.memory, 10 * config.memory),
        }.get(config.optimiser, lambda: descent)()
    except ValueError as error:
        raise InputError(str(error)) from None
    solver = Adaptive(1e-6, 1e-8) if config.optimiser == "flow" else Euler(config.step)
    start = extended(start, PARTS.get(config.optimiser, 1) - 1) if config.optimiser in PARTS else start
    return Problem(config, risk, energy, descent, field, solver, start, _times(config))


def data(config: HeadTraining) -> tuple[HeadRisk | Text, HeadRisk]:
    """Where samples come from, and the risk that is watched."""
    if config.data in ("f1", "f2"):
        risk = fixtures.f1() if config.data == "f1" else fixtures.f2()
        return risk, risk
    heads = FullHeads(config.dim, config.head_dim, config.head_dim)
    text = Text(Path(config.data), config.length, heads, key=config.seed)
    return text, text.windows(config.windows)


def _times(config: HeadTraining) -> np.ndarray:
    steps = max(1, round(config.time / config.step))
    if config.optimiser == "flow":
        return np.linspace(0.0, config.time, config.frames)
    return config.step * np.unique(np.round(np.linspace(0, steps, config.frames)))


def train(config: HeadTraining, watch: Callable[[Progress], None] = lambda progress: None) -> Progress:
    """Train, save each leg as it comes, and report to `watch` after each; stiffness beyond the step ends the run."""
    problem = build(config)
    _check_step(problem)
    n, dim = problem.start.points.shape
    folder = RunFolder.asked_for(
        config,
        "train",
        frames=len(problem.times),
        frames_per_leg=config.frames_per_leg,
        layout={"points": {"token": n, "coordinate": dim}} | {name: {} for name in SERIES},
        fixed={"weights": ("token", np.asarray(problem.start.weights))},
    )
    progress, begun = Progress(folder.path, problem, problem.start), time.perf_counter()
    watch(progress)
    try:
        for path in in_thread(problem.legs()):
            _save(folder, progress, path)
            progress.seconds = time.perf_counter() - begun
            watch(progress)
            if _too_stiff(progress):
                break
        if config.limit:
            progress.limit = _limit(problem)
    except KeyboardInterrupt:
        folder.save_info({"outcome": f"Interrupted after {folder.frames} of {len(problem.times)} frames.", "ok": False})
        raise
    progress.seconds = time.perf_counter() - begun
    folder.finish()
    folder.save_info(_info(progress))
    return progress


def _check_step(problem: Problem) -> None:
    """Refuse a step beyond the stability limit of the start, before any folder is made."""
    if problem.limited is not None:
        try:
            check_step(problem.limited, problem.start, problem.config.step)
        except ValueError as error:
            raise InputError(str(error)) from None


def _save(folder: RunFolder, progress: Progress, path: Trajectory) -> None:
    problem, final = progress.problem, path.final
    assert isinstance(final, Particles)
    risk, lost = (np.asarray(part) for part in _watched(problem.energy, jax.vmap(problem.heads)(path.measures)))
    if len(path):
        points = np.asarray(path.measures.points)  # pyright: ignore[reportAttributeAccessIssue]
        folder.append(np.asarray(path.times), {"points": points, "risk": risk, "dissipation": lost}, final)
    progress.times = np.concatenate([progress.times, path.times])
    progress.risk = np.concatenate([progress.risk, risk])
    progress.dissipation = np.concatenate([progress.dissipation, lost])
    progress.final, progress.outcome, progress.ok = final, str(path.outcome), bool(path.outcome.ok)
    if progress.ok:
        heads = problem.heads(final)
        progress.gap = duality_gap(problem.risk, heads, hull(problem.risk, heads), starts=8, steps=30).gap


@eqx.filter_jit
def _watched(energy: AbstractEnergy, measures):
    return jax.lax.map(lambda mu: (energy(mu), dissipation(energy, mu)), measures)


@eqx.filter_jit
def _risks(energy: AbstractEnergy, measures):
    return jax.lax.map(energy, measures)


def _too_stiff(progress: Progress) -> bool:
    """Whether the heads have become too stiff for the step; the outcome then says so, with the limit."""
    problem, now = progress.problem, float(progress.times[-1])
    if problem.limited is None or not progress.ok:
        return False
    limit = step_limit(problem.limited, progress.final, now)
    if problem.config.step <= limit:
        return False
    progress.ok = False
    progress.outcome = (
        f"Stopped at t = {now:.6g}: the heads have become stiff, and the step {problem.config.step:g} is beyond the "
        f"stability limit {limit:.4g}; take a shorter step, add `--decay`, or use `--optimiser flow`."
    )
    return True


def _limit(problem: Problem) -> np.ndarray:
    """The risk over time of the same training with very many heads."""
    wide = problem.config.model_copy(update={"heads": problem.config.limit})
    other = build(wide)
    return np.concatenate(
        [np.asarray(_risks(other.energy, jax.vmap(other.heads)(path.measures))) for path in other.legs()]
    )


def hull(risk: HeadRisk, mu: Particles) -> Product:
    """The balls that just hold the heads, block by block: the compact set in which they are compared."""
    blocks = jax.vmap(risk.heads.unfold)(mu.points)
    radii = {name: float(jnp.sqrt(jnp.sum(b.reshape(len(b), -1) ** 2, 1)).max()) for name, b in blocks.items()}
    return risk.heads.balls(**{name: max(radius, 1e-9) for name, radius in radii.items()})


def _info(progress: Progress) -> dict:
    return {
        "outcome": progress.outcome,
        "ok": progress.ok,
        "seed": progress.problem.config.seed,
        "seconds": round(progress.seconds, 3),
        "risk": float(progress.risk[-1]),
        "dissipation": float(progress.dissipation[-1]),
        "gap": progress.gap,
    } | environment()


def reopen(path: str) -> tuple[Problem, Particles]:
    """The problem of a training run and its last heads."""
    folder = Path(path)
    if not folder.is_dir() or not is_run(folder) or not (folder / "commit.json").is_file():
        raise InputError(f"{path!r} is not a training run with saved frames; `measureflow train heads` writes one.")
    words = tomllib.loads((folder / "config.toml").read_text())
    if "optimiser" not in words:
        raise InputError(f"{path!r} is not a training run; `measureflow train heads` writes one.")
    problem = build(read(HeadTraining, words))
    points = Run(folder).data.points.values[-1]
    mu = eqx.tree_at(lambda m: m.points, problem.start, jnp.asarray(points))
    return problem, problem.heads(mu)

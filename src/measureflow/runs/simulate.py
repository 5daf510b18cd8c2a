"""Run a simulation leg by leg into a folder."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from measureflow.fields import SinkhornAttention
from measureflow.flows import Outcome, Trajectory
from measureflow.flows.evolve import error_estimate
from measureflow.runs.build import Problem, build
from measureflow.runs.config import Simulation
from measureflow.runs.folder import RunFolder, environment
from measureflow.runs.kinds import KINDS


@dataclass
class Progress:
    """What is known of a simulation so far, for whoever watches it."""

    path: Path
    seen: Callable[[Any], Any]
    start: Any
    final: Any
    times: np.ndarray = field(default_factory=lambda: np.zeros(0))
    series: dict[str, np.ndarray] = field(default_factory=dict)
    stats: dict[str, Any] = field(default_factory=dict)
    outcome: Outcome | None = None
    seconds: float = 0.0


def simulate(config: Simulation, watch: Callable[[Progress], None] = lambda progress: None) -> Progress:
    """Run a simulation, save each leg as it comes, and report to `watch` at the start and after each.

    Bad input raises `InputError` before any folder is made. An interruption keeps every leg that was saved.
    """
    problem = build(config)
    kind = KINDS[config.measure]
    folder = RunFolder.asked_for(
        config,
        "simulate",
        frames=config.frame_count,
        frames_per_leg=config.frames_per_leg,
        layout=kind.layout(problem),
        fixed=kind.fixed(problem.start),
    )
    begun = time.perf_counter()
    progress = Progress(folder.path, problem.seen, problem.start, problem.start)
    watch(progress)
    try:
        for path in in_thread(problem.legs()):
            _save(folder, progress, path, problem, config)
            progress.seconds = time.perf_counter() - begun
            watch(progress)
        if config.verify and not config.layers and progress.outcome is not None and progress.outcome.ok:
            progress.stats["error"] = _error(problem, progress)
        if isinstance(problem.field, SinkhornAttention):
            progress.stats["marginal_error"] = float(problem.field.potentials(progress.final).error)
    except KeyboardInterrupt:
        folder.save_info(_info(config, progress, f"Interrupted after {folder.frames} of {config.frame_count} frames."))
        raise
    progress.seconds = time.perf_counter() - begun
    folder.finish()
    folder.save_info(_info(config, progress, str(progress.outcome)))
    return progress


def _save(folder: RunFolder, progress: Progress, path: Trajectory, problem: Problem, config: Simulation) -> None:
    kind = KINDS[config.measure]
    watched = kind.watched(problem, path.measures) if len(path) else {}
    if len(path):
        frames = {name: np.asarray(values) for name, values in kind.frames(path.measures).items()}
        folder.append(np.asarray(path.times), frames | watched, path.final)
    progress.times = np.concatenate([progress.times, path.times])
    for name, values in watched.items():
        progress.series[name] = np.concatenate([progress.series.get(name, values[:0]), values])
    for name in ("steps", "rejected"):
        progress.stats[name] = progress.stats.get(name, 0) + path.stats[name]
    progress.stats |= {name: value for name, value in path.stats.items() if name not in ("steps", "rejected")}
    progress.outcome, progress.final = path.outcome, path.final


def _error(problem: Problem, progress: Progress) -> float:
    assert progress.outcome is not None
    end = progress.outcome.time
    ends = (problem.start, progress.final, problem.times[0], end)
    return float(error_estimate(problem.field, *ends, problem.solver, problem.kicks, problem.config.merge))


def in_thread(items):
    """Compute each item in a worker, so that an interruption reaches us while a leg runs."""
    with ThreadPoolExecutor(1) as worker:
        try:
            while (item := worker.submit(next, items, None).result()) is not None:
                yield item
        except KeyboardInterrupt:
            worker.shutdown(wait=False)
            raise


def _info(config: Simulation, progress: Progress, outcome: str) -> dict[str, Any]:
    return {
        "outcome": outcome,
        "ok": bool(progress.outcome is not None and progress.outcome.ok and outcome == str(progress.outcome)),
        "seed": config.seed,
        "stats": progress.stats,
        "seconds": round(progress.seconds, 3),
        "frames": len(progress.times),
    } | environment()

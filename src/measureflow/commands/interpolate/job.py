"""Interpolation between measures as a job: from files to a plan, its flow, and what each of its stages did."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np

from measureflow.commands.interpolate.settings import Interpolating
from measureflow.fields import Packed
from measureflow.flows import Flow
from measureflow.measures import Particles
from measureflow.networks import Interpolation, interpolate
from measureflow.networks.interpolation import as_measures
from measureflow.networks.routing import unit
from measureflow.runs.job import ExtraArrays, Job, Progress
from measureflow.runs.session import in_float64
from measureflow.spaces import Sphere
from measureflow.transport import wasserstein
from measureflow.words import memory
from measureflow.words.files import numbers_in
from measureflow.words.series import Series
from measureflow.words.settings import InputError
from measureflow.words.vocabulary import MEASURES


@dataclass(frozen=True)
class InterpolationJob(Job):
    """A plan, and the measures that it maps."""

    plan: Interpolation | None = None
    inputs: tuple[Particles, ...] = ()
    targets: tuple[Particles, ...] = ()

    def finish(self, state: Progress) -> ExtraArrays:
        """What each stage did to each measure."""
        assert self.plan is not None
        found = self.plan.verify(self.inputs, self.targets)
        state.stats |= {
            "packed": [len(mu.points) for mu in self.inputs],
            "dim": self.inputs[0].space.dim,
            "switches": self.plan.switches,
            "stages": list(found.names),
            "ends": [0.0, *(stage.end for stage in self.plan.stages)],
            "parked": found.parked,
        }
        dims = ("stage", "measure")
        return {"stage_errors": (dims, found.errors), "stage_diameters": (dims, found.diameters)}


def job_of(config: Interpolating) -> InterpolationJob:
    """The job that a configuration describes; what is wrong with it is said before anything is written."""
    memory.check(config)
    try:
        inputs, targets = in_float64(lambda: measures_of(config))
        plan = in_float64(
            lambda: interpolate(
                inputs, targets, error=config.error, time=config.time, width=config.width, seed=config.seed
            )
        )
    except (ValueError, TypeError) as error:
        raise InputError(str(error)) from None
    pack = Packed(plan, [len(mu.points) for mu in inputs])
    times = np.union1d(np.linspace(0.0, plan.until, config.frames), plan.ends)
    times = times[np.append(np.diff(times) > 1e-9 * plan.until, True)]
    word = "particles"
    return InterpolationJob(
        flow=Flow(pack, Packed.pack(inputs), times),
        word=MEASURES[word],
        word_name=word,
        series=tuple(_series(pack, targets)),
        title=f"{len(inputs)} measures on {inputs[0].space.symbol} under one schedule of {plan.switches + 1} pieces",
        frames_per_leg=config.frames_per_leg,
        command="interpolate",
        settings=config,
        seed=config.seed,
        verify=config.verify,
        plan=plan,
        inputs=tuple(inputs),
        targets=tuple(targets),
    )


def _series(pack: Packed, targets: Sequence[Particles]) -> Iterator[Series]:
    """How far each measure is from its target, and the farthest."""

    def distance(k: int, mu: Particles) -> Any:
        return wasserstein(pack.unpack(mu)[k], targets[k])

    def farthest(mu: Particles) -> Any:
        return jnp.stack([distance(k, mu) for k in range(len(targets))]).max()

    yield Series("farthest", farthest, "largest W₂ to a target", telling=True)
    for k in range(len(targets)):
        yield Series(f"measure_{k + 1}", partial(distance, k), f"W₂ of measure {k + 1}", drawn=False)


def measures_of(config: Interpolating) -> tuple[list[Particles], list[Particles]]:
    """Inputs and targets: those of files, or overlapping clouds in one octant and random points."""
    if not config.files:
        return _drawn(config)
    inputs, targets = (_read(file, config.project) for file in config.files)
    if any(len(array) == 1 for array in inputs) and not any(len(array) > 1 for array in inputs):
        raise InputError(
            f"`files`: the measures of {config.files[0]!r} are single points; give arrays (n, d) of tokens."
        )
    space = Sphere(inputs[0].shape[1])
    made = ([Particles(space, points) for points in arrays] for arrays in (inputs, targets))
    return next(made), next(made)


def _drawn(config: Interpolating) -> tuple[list[Particles], list[Particles]]:
    if config.dim < 3:
        raise InputError(
            f"`dim` must be at least 3; got {config.dim}. On the circle no token passes another: interpolation is impossible."
        )
    rng, space = np.random.default_rng(config.seed), Sphere(config.dim)
    centres = unit(np.abs(rng.normal(size=(config.measures, config.dim))) + 0.2)
    scatter = 0.9 / np.sqrt(config.dim) * rng.normal(size=(config.measures, config.n, config.dim))
    targets = unit(rng.normal(size=(config.measures, config.dim)))
    return [Particles(space, unit(points)) for points in centres[:, None] + scatter], as_measures(targets, space)


def _read(file: str, project: bool) -> list[np.ndarray]:
    """The arrays of a file, one for each measure; points are measures of one token."""
    held = numbers_in(file, "files")
    found = [np.atleast_2d(array) for array in (held.values() if isinstance(held, dict) else np.atleast_1d(held))]
    if not found or len({array.shape[1:] for array in found}) != 1 or found[0].ndim != 2:
        shapes = ", ".join(str(array.shape) for array in found[:4]) or "none"
        raise InputError(f"`files`: {file!r} must hold tokens (n, d) for each measure, of one d; got {shapes}.")
    if not all(np.isfinite(array).all() and np.linalg.norm(array, axis=1).all() for array in found):
        raise InputError(f"`files`: {file!r} holds numbers that are not finite, or tokens that are zero.")
    return [unit(array) for array in found] if project else found

"""One schedule of attention and perceptrons brings several overlapping measures to points of their own."""

import numpy as np

from measureflow.fields import Packed
from measureflow.measures import Particles
from measureflow.networks import interpolate
from measureflow.networks.routing import unit
from measureflow.plotting import Figure, Record, TimeSeries
from measureflow.plotting.interpolation import interpolation_figure
from measureflow.spaces import Sphere
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_least, at_most
from measureflow.transport import wasserstein

CLAIM = Claim(
    "One piecewise-constant schedule sends N distinct input measures close to N distinct point targets, with O(dN) switches.",
    reference="ruiz:24",
    where="theorem A, Dirac targets in dimension at least three",
)


def clouds(dim: int, count: int, tokens: int, rng: np.random.Generator) -> list[Particles]:
    """Clouds in one octant that overlap."""
    centres = unit(np.eye(dim)[:count] + 0.4)
    points = centres[:, None] + 0.7 / np.sqrt(dim) * rng.normal(size=(count, tokens, dim))
    return [Particles(Sphere(dim), unit(part)) for part in points]


def gap(inputs: list[Particles]) -> float:
    """The smallest distance between tokens of different measures."""
    pairs = [(mu, nu) for i, mu in enumerate(inputs) for nu in inputs[:i]]
    return min(float(np.linalg.norm(mu.points[:, None] - nu.points[None], axis=-1).min()) for mu, nu in pairs)


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Three clouds of 60 tokens on the sphere, targets opposite; in full also in eight dimensions."""
    rng, checks, data = np.random.default_rng(seed), [], None
    for dim in size.pick((3,), (3, 8)):
        inputs, targets = clouds(dim, 3, 60, rng), -np.eye(dim)[:3]
        plan = interpolate(inputs, targets, seed=seed)
        found = plan.verify(inputs, targets)
        checks += [
            at_most(f"largest W₂ to a target at the end, d = {dim}", 1e-3, found.error),
            at_most(f"way of parked tokens while gates carry others, d = {dim}", 1e-12, found.parked),
            at_most(f"switches, d = {dim}", 60, plan.switches),
            at_least(
                f"switches that O(dN) allows with constant two, over those used, d = {dim}",
                1.0,
                6 * dim / plan.switches,
            ),
        ]
        if dim == 3:
            checks.append(
                at_most("closest tokens of different measures at the start: supports overlap", 0.1, gap(inputs))
            )
            data = plan, inputs, targets
    return CLAIM.judge(*checks, data=data)


def draw(data: tuple) -> Figure:
    """Measures at the ends of stages, and their distances to targets."""
    plan, inputs, targets = data
    times = np.union1d(np.linspace(0.0, plan.until, 121), np.append(0.0, plan.ends))
    path, ends = plan.path(inputs, times), [Particles(inputs[0].space, point[None]) for point in targets]
    frames = [Packed(plan, [60] * 3).unpack(path.at(i)) for i in range(len(times))]
    errors = np.array([[float(wasserstein(mu, end)) for mu, end in zip(row, ends, strict=True)] for row in frames]).T
    stages = [("start", 0.0), *((stage.name, stage.end) for stage in plan.stages)]
    shown = Record(path, {"error": TimeSeries(errors.max(0), "W₂")}, "three overlapping measures under one schedule")
    return interpolation_figure(shown, errors, np.repeat(np.arange(3), 60), stages)

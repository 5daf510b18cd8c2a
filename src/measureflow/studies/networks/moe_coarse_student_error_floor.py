"""A student with fewer values than a teacher of constant experts has an error that no training removes.

Two of eight constant experts have 28 sums. Whatever decides which of its values a student gives, its error is at least that of
the best clustering of the 28, and that is at least `(1 - Ns/Nt) D^2/2` where the sums are `D` apart. The catalogue's bound,
with a quarter in place of a half, follows. Equal distances attain the half.
"""

import jax
import numpy as np
from scipy.cluster.vq import kmeans2

from measureflow.networks import MixtureOfExperts
from measureflow.plotting import Curve, Figure, draw_curves, panels
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_least, equal
from measureflow.theory import experts as theory

CLAIM = Claim(
    "A student with fewer values than a constant-expert teacher has an error floor.",
    reference="boix:25",
    where="derived from the number of choices, as the theorem on constant experts has it",
)
EXPERTS, ACTIVE, OUTPUTS, DIM = 8, 2, 6, 16
VALUES = np.array([1, 2, 4, 8, 16, 24, 27, 28])


def sums(rng: np.random.Generator) -> np.ndarray:
    """The values of a teacher, found by routing many inputs."""
    teacher = MixtureOfExperts.constant(DIM, OUTPUTS, EXPERTS, ACTIVE, key=int(rng.integers(2**31)), gate=None)
    outputs = jax.jit(jax.vmap(teacher))(rng.normal(size=(20_000, DIM)))
    return np.unique(np.asarray(outputs).round(9), axis=0)


def best(points: np.ndarray, count: int, rng: np.random.Generator, starts: int) -> float:
    """The mean squared distance to the best of several clusterings into at most so many values, for equally likely points."""
    if count == len(points):
        return 0.0
    seeds = [points[rng.permutation(len(points))[:count]] for _ in range(starts)]
    centres = [kmeans2(points, seed, minit="matrix", iter=50)[0] for seed in seeds]
    return min(float(((points[:, None] - c[None]) ** 2).sum(-1).min(1).mean()) for c in centres)


def closest(points: np.ndarray) -> float:
    """The least distance between two points."""
    apart = np.linalg.norm(points[:, None] - points[None], axis=-1)
    return float(apart[~np.eye(len(points), dtype=bool)].min())


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """The 28 sums of two of eight normal constants in six dimensions, and 28 points at equal distances; fifty starts."""
    rng, starts = np.random.default_rng(seed), size.pick(50, 1000)
    teacher, simplex = sums(rng), np.eye(28)
    sets = {"two of eight experts": teacher, "equal distances": simplex}
    errors = {name: np.array([best(points, int(n), rng, starts) for n in VALUES]) for name, points in sets.items()}
    floors = {name: np.asarray(theory.error_floor(VALUES, 28, closest(points))) for name, points in sets.items()}
    return CLAIM.judge(
        equal("values of the teacher", 28, len(teacher), 0),
        *(
            at_least(
                f"error against the floor with a quarter, {name}", floors[name] / 2, errors[name], 1e-12
            )  # rounding
            for name in sets
        ),
        at_least(
            "error against the floor with a half", floors["two of eight experts"], errors["two of eight experts"], 1e-12
        ),
        equal("error at equal distances", floors["equal distances"], errors["equal distances"], 1e-12),
        data=(errors, floors),
    )


def draw(data: tuple[dict[str, np.ndarray], dict[str, np.ndarray]]) -> Figure:
    """The least error found against the number of values, over its floor."""
    errors, floors = data
    figure, axes = panels(2)
    for ax, name in zip(axes, errors, strict=True):
        curve = Curve("best clustering", VALUES, errors[name], floors[name])
        draw_curves(ax, [curve], "values of the student", "mean squared error", law="floor", title=name)
    return figure

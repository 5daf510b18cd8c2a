"""Two measures on the same points with other weights go to opposite poles under attention; without it they cannot part."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from measureflow.fields import Perceptron, SoftmaxAttention
from measureflow.flows import evolve
from measureflow.measures import Particles
from measureflow.plotting import Curve, Figure, curves_figure
from measureflow.spaces import Sphere
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_least, at_most, equal

CLAIM = Claim(
    "Uniform attention moves two measures with one support apart, to the poles that the signs of their means along α tell, which "
    "no field without attention can do.",
    reference="ruiz:24",
    where="section on disentangling, B = 0 and V = α α^T",
)
END = 400.0


@eqx.filter_jit
def paths(field, mu: Particles, times):
    """All tokens over time."""
    return evolve(field, mu, times).points


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """60 (full: 2000) points in a half sphere, with weights that lean to one side of α or to the other."""
    rng, n = np.random.default_rng(seed), size.pick(60, 2000)
    points = rng.normal(size=(n, 3))
    points[:, 2] = np.abs(points[:, 2])
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    alpha, space = np.array([1.0, 0.0, 0.0]), Sphere(3)
    lean = np.exp(2 * points @ alpha)
    one, other = Particles(space, points, lean), Particles(space, points, 1 / lean)
    attention = SoftmaxAttention(np.zeros((3, 3)), np.outer(alpha, alpha))
    alone = Perceptron(rng.normal(size=(3, 8)), rng.normal(size=(8, 3)), rng.normal(size=8))
    times = jnp.concatenate([jnp.linspace(0.0, 20.0, 41), jnp.array([END])])
    ways = [np.asarray(paths(attention, mu, times)) for mu in (one, other)]
    still = [np.asarray(paths(alone, mu, times[:21])) for mu in (one, other)]
    angles = [np.arccos(np.clip(way @ alpha, -1.0, 1.0)) for way in ways]
    signs = [np.sign(np.asarray(mu.weights @ mu.points) @ alpha) for mu in (one, other)]
    return CLAIM.judge(
        equal("signs of the means along α", [1.0, -1.0], signs, 0.0),
        # d<x, α>/dt = <m, α>(1 - <x, α>²) leaves an angle e^{-<m, α>t} of the start; over 200 seeds the least
        # mean is 0.33 for 60 points.
        at_most("largest angle from α at the end, of the measure that leans to it", 1e-3, angles[0][-1].max()),
        at_most("largest angle from -α at the end, of the other", 1e-3, (np.pi - angles[1][-1]).max()),
        at_least("smallest angle between tokens that started together", np.pi - 2e-3, (angles[1] - angles[0])[-1].min()),
        equal("gap of tokens that started together, under a perceptron alone", 0.0, np.abs(still[0] - still[1]).max(), 0.0),
        data=(np.asarray(times)[:-1], angles[0][:-1], angles[1][:-1]),
    )  # fmt: skip


def draw(data: tuple[np.ndarray, ...]) -> Figure:
    """The largest, mean and least angle from α over time, for both measures."""
    times, toward, away = data
    curves = [
        Curve(f"{name}, {word}", times, way(angles, axis=1))
        for name, angles in (("leans to α", toward), ("leans to -α", away))
        for word, way in (("farthest token", np.max), ("nearest token", np.min))
    ]
    return curves_figure(curves, "time t", "angle from α")

"""A perceptron of one unit moves what is within an angle of its centre and nothing else; gates in a row keep most of a mass."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from measureflow.fields import Perceptron
from measureflow.flows import evolve
from measureflow.measures import Particles
from measureflow.plotting import Curve, Figure, curves_figure
from measureflow.spaces import Sphere
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_least, at_most, equal

CLAIM = Claim(
    "The gate (<z, x> - cos R)_+ moves only points within angle R of z, and gates one after the other keep at least (1 - ε)^K.",
    reference="ruiz:24",
    where="lemma B.2, with its sign corrected, and the lemma on chained balls",
)
EPSILON = 0.01
RADIUS, BALLS, STEP, INNER = 0.5, 5, 0.4, 0.3
"""Of the gates: their radius, how many in a chain, how far apart, and the radius of the balls that mass is counted in."""


@eqx.filter_jit
def moved(gate: Perceptron, mu: Particles, time: float) -> Particles:
    """The points after a time under a gate."""
    return evolve(gate, mu, jnp.array([0.0, time])).final


def angle(points, centre) -> np.ndarray:
    """How far points are from a centre."""
    return np.arccos(np.clip(np.asarray(points) @ np.asarray(centre), -1.0, 1.0))


def chain(points: np.ndarray) -> tuple[np.ndarray, float]:
    """The shares that gates along an arc bring from a ball to the next, and the share that all of them bring to the last."""
    space, centres = Sphere(3), np.stack([[np.cos(s), np.sin(s), 0.0] for s in STEP * np.arange(BALLS + 1)])
    mu = Particles(space, points)
    start = inside = angle(mu.points, centres[0]) < INNER
    shares = []
    for k in range(BALLS):
        gate = Perceptron.gate((centres[k] + centres[k + 1]) / (2 * np.cos(STEP / 2)), 0.6, centres[k + 1], 20.0)
        mu = moved(gate, mu, 0.6)
        arrived = angle(mu.points, centres[k + 1]) < INNER
        shares.append((inside & arrived).sum() / inside.sum())
        inside = arrived & inside
    return np.array(shares), float(inside.sum() / start.sum())


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """1000 random points of the sphere, a random gate of radius 1/2 for unit time, and five gates in a row."""
    keys = jax.random.split(jax.random.key(seed), 3)
    space = Sphere(3)
    mu = Particles.iid(space, size.pick(1000, 20000), key=keys[0])
    z, towards = (space.sample(key) for key in keys[1:])
    gate = Perceptron.gate(z, RADIUS, towards)
    far, speeds = angle(mu.points, z), np.linalg.norm(gate(0.0, mu.points, mu), axis=1)
    away = np.abs(np.asarray(moved(gate, mu, 1.0).points - mu.points)).max(1)
    shares, kept = chain(np.asarray(mu.points))
    sharp = np.abs(far - RADIUS) > 1e-12  # at the edge itself rounding decides
    return CLAIM.judge(
        equal("points on the wrong side of the gate", 0, ((speeds > 0) != (far < RADIUS))[sharp].sum(), 0),
        at_most("largest speed outside", 0.0, speeds[far > RADIUS].max()),
        # Each step divides by the norm again, which rounds the last bit; there are some ten steps.
        at_most("largest way outside, in unit time", 5e-15, away[far > RADIUS].max()),
        at_least("smallest way well inside", 1e-3, away[far < 0.9 * RADIUS].min()),
        # Gates are open for long enough to lose less than ε each; open for half as long, the fourth loses most of the points.
        at_least("smallest share that a gate brings on, with ε = 0.01", 1 - EPSILON, shares.min()),
        at_least("share that five gates keep", (1 - EPSILON) ** BALLS, kept),
        data=(far, speeds),
    )  # fmt: skip


def draw(data: tuple[np.ndarray, np.ndarray]) -> Figure:
    """The speed of points against their angle from the centre of the gate."""
    far, speeds = data
    order = np.argsort(far)
    law = np.maximum(np.cos(far[order]) - np.cos(RADIUS), 0.0)
    curve = Curve("speed of 1000 points", far[order], speeds[order], law)
    return curves_figure([curve], "angle from the centre z", "speed", law="(<z, x> - cos R)₊")

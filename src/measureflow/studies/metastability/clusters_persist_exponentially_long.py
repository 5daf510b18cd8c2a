"""Tokens in separated caps gather quickly and then stay for a time exponential in beta."""

import jax.numpy as jnp
import numpy as np

from measureflow.fields import SoftmaxAttention
from measureflow.flows import Adaptive, evolve
from measureflow.measures import Particles
from measureflow.plotting import Curve, Figure, curves_figure
from measureflow.spaces import Sphere
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_least, at_most, equal
from measureflow.theory import metastability

CLAIM = Claim(
    "Separated tokens gather in their caps by a time T_1 and stay there at least until T_2, which is exponential in β.",
    reference="koubbi:24",
    where="theorem on dynamic metastability",
)

BETA, EPS, TOKENS = 10.0, 0.01, 4
CENTRES = np.array([[1.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [-1.0, 0.0]])
SOLVER = Adaptive(1e-9, 1e-12)


def overlap_of_caps() -> float:
    """The largest overlap of two points in opposite caps of twice the size."""
    return float(np.cos(np.pi - 2 * np.arccos(1 - 2 * EPS)))


def starts(rng: np.random.Generator, count: int) -> np.ndarray:
    """Tokens anywhere in their caps, two in each; the first start has them at the edges."""
    wide = np.arccos(1 - EPS)
    angles = rng.uniform(-wide, wide, (count, TOKENS))
    angles[0] = wide * np.array([1, -1, 1, -1])
    return angles + np.array([0.0, 0.0, np.pi, np.pi])


def inside(mu: Particles) -> jnp.ndarray:
    """How far each token is inside the cap of twice the size around its centre."""
    return (mu.points * jnp.asarray(CENTRES)).sum(-1) - (1 - 2 * EPS)


def gaps(points: np.ndarray) -> np.ndarray:
    """Squared distances within the caps, over frames."""
    return ((points[:, [0, 2]] - points[:, [1, 3]]) ** 2).sum(-1)


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Follow tokens from random places in two opposite caps past both times."""
    alpha = overlap_of_caps()
    gathered = float(metastability.gathering_time(TOKENS, BETA, EPS))
    until = float(metastability.persistence_time(alpha, TOKENS, BETA, EPS))
    times = np.concatenate([np.linspace(0.0, 20.0, 21), [gathered, until]])
    field = SoftmaxAttention.isotropic(2, BETA)
    paths = []
    for angles in starts(np.random.default_rng(seed), size.pick(3, 10)):
        mu = Particles(Sphere(2), np.stack([np.cos(angles), np.sin(angles)], 1))
        paths.append(evolve(field, mu, times, SOLVER, merge=1e-8, events=inside))
    frames = np.stack([np.asarray(path.points) for path in paths])
    within = np.stack([gaps(path) for path in frames])
    return CLAIM.judge(
        equal("largest overlap of the caps", -0.9208, alpha, 1e-4),  # digits as printed
        equal("margin of separation", 1.034, float(metastability.separation(alpha, TOKENS, BETA, EPS)), 1e-3),
        at_most("squared gaps at T_1", 2 * np.exp(-BETA), within[:, -2:]),
        equal("tokens that leave their caps before T_2", 0, sum(len(path.events) for path in paths), 0),
        equal("flows that reach T_2", len(paths), sum(bool(path.outcome.ok) for path in paths), 0),
        # The bound is far from tight: e^{2 beta} would be the waiting time of two clusters opposite each other.
        at_least("T_2 over T_1", 1e3, until / gathered),
        data=(times[:21], within[:, :21]),
    )


def draw(data: tuple) -> Figure:
    """Squared gaps within the caps over time."""
    times, within = data
    largest = np.where(within.max(2) > 0, within.max(2), np.nan)  # merged tokens have no gap
    curves = [Curve(f"start {i + 1}", times[1:], gap[1:]) for i, gap in enumerate(largest)]
    curves[0] = curves[0]._replace(law=np.full(len(times) - 1, 2 * np.exp(-BETA)))
    return curves_figure(
        curves, "time t", "largest squared gap in a cap", log="y", law="2 exp(-β), promised from T₁ on"
    )

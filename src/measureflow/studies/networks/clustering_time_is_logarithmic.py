"""Under attention that sees the mean a cloud in a hemisphere shrinks like e^{-t}: the time to a size is the logarithm of it."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from measureflow.fields import SoftmaxAttention
from measureflow.flows import Adaptive, evolve
from measureflow.measures import Particles
from measureflow.plotting import Curve, Figure, curves_figure
from measureflow.spaces import Sphere
from measureflow.studies.base import SMALL, Claim, Size, Verdict, equal

CLAIM = Claim(
    "With V = I and B = 0 in a hemisphere the time to shrink a cloud to diameter ε is log(1/ε), up to a constant.",
    reference="ruiz:24",
    where="lemma on clustering, time of order log 1/ε",
)
SIZES = np.geomspace(1e-1, 1e-5, 9)


def diameter(mu: Particles):
    """The largest distance between two tokens."""
    gaps = mu.points[:, None] - mu.points[None]
    return jnp.sqrt(jnp.sum(gaps**2, -1).max())


@eqx.filter_jit
def crossings(mu: Particles):
    """When the diameter passes each of the sizes."""
    field = SoftmaxAttention(np.zeros((3, 3)), np.eye(3))
    logs = jnp.log(jnp.asarray(SIZES))
    path = evolve(
        field, mu, jnp.array([0.0, 40.0]), Adaptive(rtol=1e-10, atol=1e-13), events=lambda mu: jnp.log(diameter(mu)) - logs,
        most_events=len(SIZES), keep=False,
    )  # fmt: skip
    assert path.events is not None
    return path.events.times


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """60 (full: 600) tokens in a half sphere, sizes from 1/10 to 1e-5."""
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(size.pick(60, 600), 3))
    points[:, 2] = np.abs(points[:, 2] + 2.0)
    mu = Particles(Sphere(3), points / np.linalg.norm(points, axis=1, keepdims=True))
    times = np.asarray(crossings(mu))
    slope = np.polyfit(np.log(1 / SIZES), times, 1)[0]
    last = (times[-1] - times[-2]) / np.log(SIZES[-2] / SIZES[-1])
    return CLAIM.judge(
        # At diameter ε the mean is 1 - O(ε²) long, so the rate is one up to 1e-3 at the largest size.
        equal("slope of the time against log 1/ε", 1.0, slope, 0.02),
        # There the rate is one up to 1e-9, and tolerances of 1e-10 and 1e-13 leave 1e-8 of a size of 1e-5.
        equal("its slope at the smallest sizes", 1.0, last, 1e-6),
        data=times,
    )


def draw(times: np.ndarray) -> Figure:
    """The time against the size."""
    law = times[-1] + np.log(SIZES[-1]) - np.log(SIZES)
    curve = Curve("a cloud in a hemisphere", 1 / SIZES, times, law)
    return curves_figure([curve], "1/ε", "time to diameter ε", log="x", law="log 1/ε + constant")

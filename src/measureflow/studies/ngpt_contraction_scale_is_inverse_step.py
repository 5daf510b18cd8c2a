"""In the normalised transformer tokens contract at a rate proportional to the step `alpha`.

Directions obey `u' = alpha P A / |A|` and near consensus `|A| = 1`, so the variance decays like `e^{-2 alpha t}`: the scale of
time is `1 / alpha`.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from measureflow.fields import NGPT, Normalised, SoftmaxAttention
from measureflow.flows import Adaptive, evolve
from measureflow.measures import AbstractMeasure, Particles
from measureflow.spaces import Sphere
from measureflow.studies.base import SMALL, Claim, Size, Verdict, equal

CLAIM = Claim(
    "ngpt-contraction-scale-is-inverse-step",
    "In nGPT normalisation the variance contracts at rate proportional to α_t, i.e. scale 1/α_t.",
    reference="normalization:25",
)

STEPS = np.array([0.5, 1.0, 2.0])


def hemisphere_start() -> Particles:
    """Sixteen random tokens in dimension 32, reflected into one hemisphere."""
    points = Particles.iid(Sphere(32), 16, key=0).points
    return Particles(Sphere(32), points.at[:, 0].set(jnp.abs(points[:, 0])))


def variance(mu: AbstractMeasure) -> Float[Array, ""]:
    """The mean squared distance of the tokens to their mean."""
    mean = mu.expect(lambda x: x)
    return mu.expect(lambda x: jnp.sum((x - mean) ** 2))


def late_slopes() -> np.ndarray:
    """The slope of the log variance between times 6 and 8, for each step."""
    slopes = []
    for alpha in STEPS:
        field = Normalised(SoftmaxAttention.isotropic(32, 1.0), NGPT(alpha))
        path = evolve(field, hemisphere_start(), [0.0, 6.0, 8.0], Adaptive(1e-10, 1e-12))
        slopes.append(np.diff(np.log(path.map(variance)))[1] / 2)
    return np.array(slopes)


def run(size: Size = SMALL) -> Verdict:
    """Follow 16 tokens in dimension 32 at beta = 1 with three constant steps."""
    slopes = late_slopes()
    return CLAIM.judge(
        # At alpha = 1/2 the tokens are not quite together by time 6, so |A| is not quite one.
        equal("slopes over that of alpha = 1, alpha = 1/2 and 2", [0.5, 2.0], slopes[[0, 2]] / slopes[1], [0.025, 0.1]),
        equal("slopes over -2 alpha", np.ones(3), slopes / (-2 * STEPS), 0.05),
    )

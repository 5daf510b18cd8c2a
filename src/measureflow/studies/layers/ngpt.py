"""The normalised transformer with constant steps, as two studies see it."""

import functools

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from measureflow.fields import NGPT, Normalised, SoftmaxAttention
from measureflow.flows import Adaptive, evolve
from measureflow.measures import AbstractMeasure, Particles
from measureflow.spaces import Sphere

STEPS = np.array([0.5, 1.0, 2.0])


def hemisphere_start() -> Particles:
    """Sixteen random tokens in dimension 32, reflected into one hemisphere."""
    points = Particles.iid(Sphere(32), 16, key=0).points
    return Particles(Sphere(32), points.at[:, 0].set(jnp.abs(points[:, 0])))


def variance(mu: AbstractMeasure) -> Float[Array, ""]:
    """The mean squared distance of the tokens to their mean."""
    mean = mu.expect(lambda x: x)
    return mu.expect(lambda x: jnp.sum((x - mean) ** 2))


@functools.cache
def late_slopes() -> np.ndarray:
    """The slope of the log variance between times 6 and 8, for each step."""
    slopes = []
    for alpha in STEPS:
        field = Normalised(SoftmaxAttention.isotropic(32, 1.0), NGPT(alpha))
        path = evolve(field, hemisphere_start(), [0.0, 6.0, 8.0], Adaptive(1e-10, 1e-12))
        slopes.append(np.diff(np.log(path.map(variance)))[1] / 2)
    return np.array(slopes)

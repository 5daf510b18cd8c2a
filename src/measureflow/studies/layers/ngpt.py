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
TIMES = np.linspace(0.0, 8.0, 17)


def hemisphere_start(seed: int) -> Particles:
    """Sixteen random tokens in dimension 32, reflected into one hemisphere."""
    points = Particles.iid(Sphere(32), 16, key=seed).points
    return Particles(Sphere(32), points.at[:, 0].set(jnp.abs(points[:, 0])))


def variance(mu: AbstractMeasure) -> Float[Array, ""]:
    """The mean squared distance of the tokens to their mean."""
    mean = mu.expect(lambda x: x)
    return mu.expect(lambda x: jnp.sum((x - mean) ** 2))


@functools.cache
def variances(seed: int) -> Float[np.ndarray, "steps times"]:
    """The variance over time, for each step."""
    fields = [Normalised(SoftmaxAttention.isotropic(32, 1.0), NGPT(alpha)) for alpha in STEPS]
    paths = [evolve(field, hemisphere_start(seed), TIMES, Adaptive(1e-10, 1e-12)) for field in fields]
    return np.stack([np.asarray(path.map(variance)) for path in paths])


def late_slopes(seed: int) -> Float[np.ndarray, " steps"]:
    """The slope of the log variance between times 6 and 8, for each step."""
    return np.log(variances(seed)[:, 16] / variances(seed)[:, 12]) / 2

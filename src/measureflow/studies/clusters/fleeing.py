"""Tokens that flee from what they attend to: softmax attention with minus the identity as value."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from measureflow.fields import SoftmaxAttention
from measureflow.flows import evolve
from measureflow.measures import Particles
from measureflow.spaces import Euclidean

TIMES = np.concatenate([np.linspace(0.0, 50.0, 251), [500.0, 5000.0]])
STARTS = 10


def flight() -> SoftmaxAttention:
    """Scores `<x, y>` and values `-y`."""
    return SoftmaxAttention(np.eye(2), -np.eye(2))


@eqx.filter_jit
def paths(clouds: jnp.ndarray, weights: jnp.ndarray) -> jnp.ndarray:
    """The tokens of several weighted clouds at all times."""

    def path(cloud, weight):
        return evolve(flight(), Particles(Euclidean(2), cloud, weight), TIMES).map(lambda mu: mu.points)

    return jax.lax.map(lambda start: path(*start), (clouds, weights))


def random_weights(rng: np.random.Generator, count: int) -> np.ndarray:
    """Weights that differ by factors up to three."""
    weights = rng.uniform(0.5, 1.5, (STARTS, count))
    return weights / weights.sum(1, keepdims=True)

"""A small set of data and neurons that see it."""

import jax
import jax.numpy as jnp
import numpy as np

from measureflow.measures import Particles
from measureflow.training import NeuronRisk, Neurons, Square


def drawn(rng: np.random.Generator, count: int) -> NeuronRisk:
    """The sum of squares of neurons with tanh on data in three dimensions."""
    neurons = Neurons(3, activation=jnp.tanh)
    return NeuronRisk(rng.normal(size=(count, 3)), rng.normal(size=count), neurons, Square(), reduction="sum")


def network(rng: np.random.Generator, risk: NeuronRisk, count: int) -> Particles:
    """Neurons with normal parameters, all of one weight."""
    return Particles(risk.neurons.space, rng.normal(size=(count, risk.neurons.size)))


@jax.jit
def second_differences(values: jax.Array) -> jax.Array:
    """How a curve on an even grid bends."""
    return values[2:] - 2 * values[1:-1] + values[:-2]

"""Heads drawn again and again from a normal law, and how much their risk exceeds that of the law."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from measureflow.measures import Particles
from measureflow.spaces import Euclidean
from measureflow.studies.base import Size
from measureflow.training import fixtures
from measureflow.training.chaos import bias_coefficient

COUNTS = np.array([4, 8, 16, 32, 64, 128])


@eqx.filter_jit
def excess(risk, features, key, N, draws: int):
    """The mean bias and the standard deviation of the risk of `N` heads."""
    z = features.mean(0)
    base, residuals = risk.loss(z), risk.residuals_of(z)

    def one(key):
        chosen = features[jax.random.randint(key, (COUNTS[-1],), 0, len(features))]
        drawn = jnp.tensordot(jnp.where(jnp.arange(float(COUNTS[-1])) < N, 1 / N, 0.0), chosen, 1)
        change = risk.loss(drawn) - base
        return change - jnp.vdot(residuals, drawn - z), change

    bias, change = jax.lax.map(one, jax.random.split(key, draws), batch_size=64)
    return bias.mean(), change.std()


def drawn_heads(count: int, seed: int) -> np.ndarray:
    """The first heads of a draw from the law."""
    return 0.7 * np.random.default_rng(seed + 3).standard_normal((count, 24))


@functools.cache
def biases(size: Size, seed: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Bias and fluctuation by number of heads, and the predicted coefficient of the bias."""
    risk = fixtures.f1()
    pool = drawn_heads(size.pick(4000, 20000), seed)
    features = eqx.filter_jit(lambda x: jax.lax.map(risk.features, x, batch_size=500))(jnp.asarray(pool))
    draws = size.pick(4000, 20000)
    found = [excess(risk, features, jax.random.key(1000 * seed + N), jnp.asarray(float(N)), draws) for N in COUNTS]
    coefficient = eqx.filter_jit(bias_coefficient)(risk, Particles(Euclidean(24), pool))
    bias, fluctuation = np.array(found, float).T
    return bias, fluctuation, float(coefficient)

"""Random weights: the ensembles from which studies draw matrices, and weights that wander in depth."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from measureflow import checks
from measureflow.annotations import Number


def gaussian(key: PRNGKeyArray, dim: int, rows: int | None = None) -> Float[Array, "r d"]:
    """Independent entries of variance `1 / dim`; singular values lie in `[0, 2]` as the dimension grows."""
    return jax.random.normal(key, (dim if rows is None else rows, dim)) / jnp.sqrt(dim)


def goe(key: PRNGKeyArray, dim: int) -> Float[Array, "d d"]:
    """The Gaussian orthogonal ensemble, with spectrum in `[-2, 2]` as the dimension grows: symmetric, rotation invariant."""
    G = jax.random.normal(key, (dim, dim))
    return (G + G.T) / jnp.sqrt(2 * dim)


def wigner(key: PRNGKeyArray, dim: int) -> Float[Array, "d d"]:
    """A symmetric matrix of random signs over the root of the dimension: the same semicircle without rotation invariance."""
    signs = jnp.triu(jax.random.rademacher(key, (dim, dim), dtype=float))
    return (signs + jnp.triu(signs, 1).T) / jnp.sqrt(dim)


def ornstein_uhlenbeck(
    key: PRNGKeyArray,
    centre: Float[Array, "..."],
    times: Float[Array, " k"],
    rate: Number = 1.0,
    spread: Number = 1.0,
) -> Float[Array, "k ..."]:
    """Entries that wander around a centre: exact samples of an Ornstein-Uhlenbeck process at given times.

    `dW = rate (centre - W) dt + spread sqrt(2 rate) dB`, started at the centre; its stationary deviation is `spread`.
    """
    rate, spread = checks.floating(rate), checks.floating(spread)
    decay = jnp.exp(-rate * jnp.diff(times, prepend=times[:1]))
    noises = jax.random.normal(key, (len(times), *centre.shape))

    def step(w, now):
        fade, noise = now
        w = fade * w + spread * jnp.sqrt(1 - fade**2) * noise
        return w, w

    return centre[None] + jax.lax.scan(step, jnp.zeros_like(centre), (decay, noises))[1]

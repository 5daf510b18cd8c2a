"""Runs of several widths in one program, and how sure a share of runs is."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from scipy.stats import beta

from measureflow.measures import Particles
from measureflow.spaces import AbstractSpace

NOTHING = 1e-30
"""The weight of particles beyond the width: too little to be seen, and they move like test particles."""


def of_width(space: AbstractSpace, points: Float[Array, "n D"], width: Int[Array, ""]) -> Particles:
    """The first particles with equal weights, in the shape of all of them."""
    return Particles(space, points, jnp.where(jnp.arange(len(points)) < width, 1.0, NOTHING))


def interval(successes: np.ndarray, runs: int) -> np.ndarray:
    """The share of successes with its 95% interval after Clopper and Pearson, in rows: low, share, high."""
    low = np.where(successes > 0, beta.ppf(0.025, successes, runs - successes + 1), 0.0)
    high = np.where(successes < runs, beta.ppf(0.975, successes + 1, runs - successes), 1.0)
    return np.stack([low, successes / runs, high])

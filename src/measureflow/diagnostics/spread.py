"""How widely a cloud is spread: in how many directions, and whether one half of the sphere holds it."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.optimize import nnls

from measureflow.measures import AbstractCloud
from measureflow.precision import keep_all

MOST_STEPS = 100
"""Steps of least squares for each token: three, which is usual, can be too few for tokens that nearly coincide."""


class Hemisphere(NamedTuple):
    """Whether an open hemisphere holds the directions of all tokens."""

    margin: float
    """The cosine of the farthest token from the pole: positive if and only if the hemisphere about it holds all tokens."""
    pole: np.ndarray
    """The middle of the hemisphere, of norm one."""


def effective_rank(mu: AbstractCloud) -> Float[Array, ""]:
    """In how many directions a cloud is spread: the exponential of the entropy of its second moment.

    `exp(-sum p_i log p_i)` with `p` the eigenvalues of `∫ x x^T dmu` over their sum: 1 at consensus, also at antipodes, and `d`
    for tokens spread evenly over all directions (roy:07).
    """
    rows = jnp.exp(mu.log_weights / 2)[:, None] * mu.points
    return rank_of(rows @ rows.T if len(rows) <= rows.shape[1] else rows.T @ rows)


def rank_of(moment: Float[Array, "k k"]) -> Float[Array, ""]:
    """The exponential of the entropy of the eigenvalues of a positive matrix, as parts of their sum."""
    values = jnp.maximum(jnp.linalg.eigvalsh(moment), 0.0)
    parts = values / values.sum()
    return jnp.exp(-jnp.sum(jnp.where(parts > 0, parts * jnp.log(jnp.where(parts > 0, parts, 1.0)), 0.0)))


def hemisphere(mu: AbstractCloud) -> Hemisphere:
    """The hemisphere that holds the directions of all tokens with the largest margin, if there is one.

    Its pole is the point of the convex hull nearest to the origin, by least squares with weights that are not negative; the
    margin is computed from the pole, so that a positive one is a proof. The tokens `e_1, e_2` have the margin `1/√2`. Where the
    hull holds the origin, no hemisphere does, and the margin is not positive. Looks at numbers on the host.
    """
    points = np.asarray(mu.points, float)
    rows = points / np.linalg.norm(points, axis=1, keepdims=True)
    system, ones = np.vstack([rows.T, np.ones(len(rows))]), np.append(np.zeros(rows.shape[1]), 1.0)
    weights = nnls(system, ones, maxiter=MOST_STEPS * len(rows))[0]
    nearest = weights @ rows
    pole = nearest / max(float(np.linalg.norm(nearest)), np.finfo(float).tiny)
    return Hemisphere(float((rows @ pole).min()), pole)


keep_all(globals())

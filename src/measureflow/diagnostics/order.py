"""How aligned a cloud is."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from measureflow.measures import AbstractCloud, AbstractMeasure, Particles
from measureflow.precision import keep_all

BLOCK = 1024
"""Rows of the overlap matrix that exist at once."""
FEW_COORDINATES = 4
"""Coordinates up to which inner products are written out."""


def order_parameter(mu: AbstractMeasure) -> Float[Array, ""]:
    """The length of the mean token: 1 at consensus, near 0 when tokens point everywhere; Kuramoto's `r`."""
    return jnp.linalg.norm(mu.expect(lambda x: x))


def share_of_met_pairs(mu: AbstractCloud, overlap: float = 0.999) -> Float[Array, ""]:
    """The share of ordered pairs of different tokens whose inner product exceeds `overlap`: 1 at consensus on the sphere.

    Of three unit tokens, two of which are the same and the third is orthogonal, a third of the pairs have met (geshkovski:25).
    """
    points, n = mu.points, len(mu.points)

    def with_others(x: Float[Array, " d"]) -> Int[Array, ""]:
        return jnp.sum(_scores(points, x) > overlap) - jnp.sum(_scores(x[None], x) > overlap)

    pairs = jax.lax.map(with_others, points, batch_size=min(n, BLOCK)).sum()
    return pairs.astype(points.dtype) / max(n * (n - 1), 1)


def _scores(points: Float[Array, "n d"], x: Float[Array, " d"]) -> Float[Array, " n"]:
    """Inner products, of few coordinates term by term, which many small clouds at once need."""
    if len(x) > FEW_COORDINATES:
        return points @ x
    return functools.reduce(jnp.add, [points[:, i] * x[i] for i in range(len(x))])


def mean_overlap(mu: AbstractCloud) -> Float[Array, ""]:
    """The mean inner product of two different tokens, `(|sum x|^2 - sum |x|^2) / (n (n - 1))`: rho for tokens that all meet at
    that overlap."""
    total, n = mu.points.sum(0), len(mu.points)
    return (total @ total - jnp.sum(mu.points**2)) / max(n * (n - 1), 1)


def overlap_histogram(mu: Particles, bins: int = 64) -> tuple[np.ndarray, np.ndarray]:
    """The law of the inner product of two different tokens, as masses of equal bins and their edges.

    The masses sum to one. On the sphere the bins cover [-1, 1], elsewhere the range that occurs. Two tokens at a right
    angle give one bin at 0 with mass 1.
    """
    points, weights = np.asarray(mu.points), np.asarray(mu.weights)
    bound = float((points**2).sum(-1).max()) * (1 + 1e-12)
    edges = np.linspace(-bound, bound, bins + 1)
    masses = np.zeros(bins)
    for first in range(0, len(points), BLOCK):
        rows = slice(first, first + BLOCK)
        pairs = weights[rows, None] * weights
        np.fill_diagonal(pairs[:, first:], 0.0)
        masses += np.histogram(points[rows] @ points.T, edges, weights=pairs)[0]
    total = masses.sum()
    return (masses / total if total > 0 else masses), edges


keep_all(globals())

"""Clusters of tokens: who has met whom, and when.

Two tokens belong together when a chain of tokens leads from one to the other in hops of at most the tolerance, measured
inside the space (single linkage). These functions look at numbers on the host; they are not meant to be traced.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from measureflow.flows import Trajectory
from measureflow.measures import AbstractCloud, Particles
from measureflow.measures.grouping import linked, means
from measureflow.spaces import AbstractSpace


class Clusters(NamedTuple):
    """The clusters of a cloud, heaviest first."""

    labels: np.ndarray
    """For each token the number of its cluster."""
    sizes: np.ndarray
    """How many tokens each cluster has."""
    masses: np.ndarray
    """The total weight of each cluster."""
    centres: np.ndarray
    """The weighted mean of each cluster, put back on the space."""


class ClusterChange(NamedTuple):
    """The number of clusters changed between two frames."""

    after: float
    before: float
    clusters: int


def clusters(mu: AbstractCloud, tolerance: float = 0.1) -> Clusters:
    """The groups of tokens linked by hops no longer than the tolerance.

    On the circle, tokens at angles 0, 0.05, 0.1 and 3 form two clusters at tolerance 0.06. Each token is compared once
    with the tokens not reached before it, so clustered clouds take linear and scattered ones quadratic time.
    """
    points, weights = np.asarray(mu.points), np.asarray(mu.weights)
    raw = linked(points, mu.space, tolerance)
    masses = np.bincount(raw, weights)
    order = np.argsort(-masses, kind="stable")
    labels = np.argsort(order)[raw]
    rows = means(points, weights, labels)
    # As many rows as tokens, so that another number of clusters is not another program.
    filled = rows[np.minimum(np.arange(len(points)), len(rows) - 1)]
    centres = np.asarray(_projected(mu.space, jnp.asarray(filled)))[: len(rows)]
    return Clusters(labels, np.bincount(labels), masses[order], centres)


@eqx.filter_jit
def _projected(space: AbstractSpace, points: Float[Array, "n d"]) -> Float[Array, "n d"]:
    return jax.vmap(space.project)(points)


def cluster_counts(path: Trajectory[Particles], tolerance: float = 0.1) -> np.ndarray:
    """The number of clusters in each frame."""
    space = path.final.space
    frames = np.asarray(path.measures.points)
    return np.array([linked(points, space, tolerance).max() + 1 for points in frames])


def merge_times(path: Trajectory[Particles], tolerance: float = 0.1) -> list[ClusterChange]:
    """When the number of clusters changes, each time enclosed by the frames around it."""
    return changes(np.asarray(path.times), cluster_counts(path, tolerance))


def changes(times: np.ndarray, counts: np.ndarray) -> list[ClusterChange]:
    """The changes in a sequence of cluster counts."""
    where = np.flatnonzero(np.diff(counts))
    return [ClusterChange(float(times[i]), float(times[i + 1]), int(counts[i + 1])) for i in where]

"""Clusters of tokens: who has met whom, and when.

Given a tolerance, two tokens belong together when a chain of tokens leads from one to the other in hops of at most the
tolerance, measured inside the space (single linkage). Without one, clusters are the groups that stand out from the cloud at
its own scale, and a token may be in none. These functions look at numbers on the host; but for `extent` they are not meant to
be traced.
"""

from itertools import pairwise
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from measureflow import checks
from measureflow.diagnostics.dendrogram import persistent
from measureflow.diagnostics.joining import partitions
from measureflow.flows import Trajectory
from measureflow.measures import AbstractCloud, Particles
from measureflow.measures.grouping import linked, means
from measureflow.precision import keep_all
from measureflow.spaces import AbstractSpace

BULK = 0.9
"""The size of a cloud is the distance from the origin within which this part of its tokens is: outliers do not set it."""


class Clusters(NamedTuple):
    """The clusters of a cloud, heaviest first."""

    labels: np.ndarray
    """For each token the number of its cluster; -1 for a token that is in none."""
    sizes: np.ndarray
    """How many tokens each cluster has."""
    masses: np.ndarray
    """The total weight of each cluster."""
    centres: np.ndarray
    """The weighted mean of each cluster, put back on the space."""


class ClusterChange(NamedTuple):
    """The number of clusters changed between two times, of two frames or of one event."""

    after: float
    before: float
    clusters: int


def clusters(mu: AbstractCloud, tolerance: float | None = None, *, size: float = 0.0) -> Clusters:
    """The groups of tokens linked by hops no longer than the tolerance; without one, those that stand out from the cloud.

    On the circle, tokens at angles 0, 0.05, 0.1 and 3 form two clusters at tolerance 0.06. Each token is compared once
    with the tokens not reached before it, so clustered clouds take linear and scattered ones quadratic time.

    Without a tolerance a cluster is at least three times narrower than the gap around it, and more where so few tokens might
    be together by chance. A cloud far narrower than its `size` (the `extent`, or the one given if that is larger, such as the
    extent at another time) is one cluster, and one that is evenly spread has none. Multiplying all tokens changes nothing.
    """
    points, weights = np.asarray(mu.points), np.asarray(mu.weights)
    raw = labels(mu, tolerance, size=size)
    inside = raw >= 0
    if not inside.any():
        return Clusters(raw, np.zeros(0, int), np.zeros(0), np.zeros((0, points.shape[1])))
    masses = np.bincount(raw[inside], weights[inside])
    order = np.argsort(-masses, kind="stable")
    ranked = np.where(inside, np.argsort(order)[raw], -1)
    rows = means(points[inside], weights[inside], ranked[inside])
    # As many rows as tokens, so that another number of clusters is not another program.
    filled = rows[np.minimum(np.arange(len(points)), len(rows) - 1)]
    centres = np.asarray(_projected(mu.space, jnp.asarray(filled, filled.dtype)))[: len(rows)]
    return Clusters(ranked, np.bincount(ranked[inside]), masses[order], centres)


def labels(mu: AbstractCloud, tolerance: float | None = None, *, size: float = 0.0) -> np.ndarray:
    """For each token the number of its cluster, in no particular order; -1 for a token that is in none."""
    return _labels(np.asarray(mu.points), mu.space, tolerance, size)


def extent(mu: AbstractCloud) -> float:
    """How far out tokens are, but for a tenth of them, which may be outliers; on a sphere its radius."""
    return _extent(mu.points, mu.space)


def _extent(points: Any, space: AbstractSpace) -> Any:
    if space.spherical:
        return 1.0
    if not checks.concrete(points):
        unit = jnp.where(points.any(), jnp.abs(points).max(), 1.0)
        return unit * jnp.quantile(jnp.linalg.norm(points / unit, axis=1), BULK)
    unit = float(np.abs(points := np.asarray(points)).max()) or 1.0
    return float(unit * np.quantile(np.linalg.norm(points / unit, axis=1), BULK))


def _labels(points: np.ndarray, space: AbstractSpace, tolerance: float | None, size: float = 0.0) -> np.ndarray:
    if tolerance is not None:
        return linked(points, space, tolerance)
    # Tokens may lie on a curve of their space, but seldom do: more than two directions would trust triples too much.
    freedom = min(space.intrinsic_dim, 2)
    unit = float(np.abs(points).max()) or 1.0  # squares of large coordinates overflow
    return persistent(points / unit, max(size, _extent(points, space)) / unit, freedom)


@eqx.filter_jit
def _projected(space: AbstractSpace, points: Float[Array, "n d"]) -> Float[Array, "n d"]:
    return jax.vmap(space.project)(points)


def cluster_counts(path: Trajectory[Particles], tolerance: float | None = None) -> np.ndarray:
    """The number of clusters in each frame; without a tolerance, at a scale no smaller than that of the first frame."""
    frames, space = np.asarray(path.measures.points), path.final.space
    size = _extent(frames[0], space)
    return np.array([_labels(points, space, tolerance, size).max() + 1 for points in frames])


def merge_times(path: Trajectory[Particles], tolerance: float | None = None) -> list[ClusterChange]:
    """When the number of clusters changes, each time enclosed by the frames around it.

    On a path evolved with `events=Linkage(tolerance)` they are the times of its events, located inside the steps.
    """
    if path.events is None or tolerance is None:
        return changes(np.asarray(path.times), cluster_counts(path, tolerance))
    counts = [(time, int(labels.max()) + 1) for time, labels in partitions(path, tolerance)]
    return [ClusterChange(time, time, count) for (_, old), (time, count) in pairwise(counts) if count != old]


def changes(times: np.ndarray, counts: np.ndarray) -> list[ClusterChange]:
    """The changes in a sequence of cluster counts."""
    where = np.flatnonzero(np.diff(counts))
    return [ClusterChange(float(times[i]), float(times[i + 1]), int(counts[i + 1])) for i in where]


keep_all(globals())

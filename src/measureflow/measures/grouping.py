"""Near tokens: which of them are linked, and which have met.

These functions look at numbers on the host; they are not meant to be traced.
"""

import numpy as np
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import cdist

from measureflow import checks
from measureflow.spaces import AbstractSpace

BLOCK = 1024
"""Tokens compared at once: all of a small cloud, and of a large one with those not yet reached, which bounds memory."""

ROUNDING = 64
"""Tokens within this many roundings of each other are one, whatever their velocities say."""


def met(
    points: np.ndarray, weights: np.ndarray, rates: np.ndarray, space: AbstractSpace, tolerance: float
) -> np.ndarray:
    """For each token the number of its group: tokens that have met, each other token alone.

    A group has met when it is no wider than the tolerance, every other token is farther than that, and its variance does
    not grow: `sum_i w_i <x_i - c, x_i'> <= 0`. So a thin place of a spread cloud and tokens that part stay as they are.
    """
    reach = float(np.asarray(space.chord(tolerance)))
    labels = linked(points, space, tolerance)
    centre = means(points, weights, labels)[labels]
    away = points - centre
    spread = np.zeros(labels.max() + 1)
    np.maximum.at(spread, labels, np.linalg.norm(away, axis=1))
    growth = np.bincount(labels, weights * np.sum(away * rates, 1))
    rounding = ROUNDING * np.finfo(points.dtype).eps * max(1.0, np.abs(points).max())
    good = (spread <= rounding) | ((2 * spread <= reach) & (growth <= 0))
    alone = np.where(good[labels], labels, len(labels) + np.arange(len(labels)))
    return np.unique(alone, return_inverse=True)[1]


def means(points: np.ndarray, weights: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The weighted mean of each group."""
    mass = np.bincount(labels, weights)
    share = weights / mass[labels]
    return np.stack([np.bincount(labels, share * column) for column in points.T], 1).astype(points.dtype)


def linked(points: np.ndarray, space: AbstractSpace, tolerance: float) -> np.ndarray:
    """For each token the number of its cluster, in the order in which clusters are met."""
    checks.positive("tolerance", tolerance)
    reach = float(np.asarray(space.chord(tolerance)))
    if len(points) <= BLOCK:
        return connected_components(csr_matrix(cdist(points, points) <= reach), directed=False)[1]
    labels = np.full(len(points), -1)
    waiting = np.arange(len(points))
    count = 0
    while len(waiting):
        front, waiting = waiting[:1], waiting[1:]
        while len(front):
            labels[front] = count
            met = _within(points[front], points[waiting], reach)
            front, waiting = waiting[met], waiting[~met]
        count += 1
    return labels


def _within(front: np.ndarray, others: np.ndarray, reach: float) -> np.ndarray:
    met = np.zeros(len(others), bool)
    for block in range(0, len(front), BLOCK):
        if not (left := np.flatnonzero(~met)).size:
            break
        met[left] = (cdist(front[block : block + BLOCK], others[left]) <= reach).any(0)
    return met

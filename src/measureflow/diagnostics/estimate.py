"""Modes of a density estimated from tokens on the line, none missed and none invented.

The estimate `g(t) = sum_i w_i e^{-β (t - x_i)²/2}` has the bandwidth `h = β^{-1/2}`. Its modes are where `g'` changes from plus
to minus. A grid alone may miss a pair of zeros; here cells are halved until each is proved to have none, because `g'` stays away
from zero, or at most one, because `g''` does. Bounds come from Taylor's formula with the largest `|g'''|` of each token over
the cell. Gaps between tokens longer than `4h` need no cells: beyond `h` from either end `g'` has at most one zero there, a
minimum, because the weight of the right tokens over that of the left ones grows faster than their leverage changes. Only where
a zero is double to rounding, as for two equal tokens at the distance `2h`, does the last halving decide; tops that are flat to
rounding are one mode.
"""

import numpy as np

from measureflow import checks
from measureflow.annotations import Numbers
from measureflow.measures import AbstractCloud
from measureflow.precision import keep_all

CELL = 0.25
"""The width of the first cells, in bandwidths."""
GAP = 4.0
"""Gaps between tokens that are wider than this, in bandwidths, need no cells in their middle."""
AROUND = 1.0371
"""How far from a token the cells beside it begin, in bandwidths: a little more than needed, so that no grid point is a token."""

REACH = 9.5
"""Tokens farther from a cell, in bandwidths, have below e^{-40} of the weight of the nearest one, which is within two."""

HALVINGS = 24
"""How often a cell is halved to find a mode."""
BLOCK = 64
"""Cells that are looked at together."""
ROUNDING = 1e-14
"""Below this part of the sum of sizes, a sum is zero."""


def modes(mu: AbstractCloud, beta: float | int) -> np.ndarray:
    """The places, from left to right, where tokens on the line are densest at the bandwidth `beta**-0.5`.

    Two equal tokens have two modes if they are more than two bandwidths apart, and else one. In one dimension the number never
    grows with the bandwidth.
    """
    if not mu.space.convex or mu.space.dim != 1:
        raise ValueError(f"`mu` must be tokens on the line, `Euclidean(1)`; got {mu.space}.")
    checks.positive("beta", beta)
    checks.finite("beta", beta)
    places, index = np.unique(np.asarray(mu.points, float)[:, 0], return_inverse=True)
    return line_modes(places, beta, np.bincount(index, np.asarray(mu.weights, float)))


def line_modes(places: Numbers, beta: float | int, weights: Numbers | None = None) -> np.ndarray:
    """The same from sorted places and their weights, equal unless given."""
    places = np.asarray(places, float)
    weights = np.ones(len(places)) if weights is None else np.asarray(weights, float)
    h = float(beta) ** -0.5
    ends = _separated(_cells(places, h), places, weights, h)
    signs = np.sign(_sums(ends, places, weights, h)[0])
    ends, signs = ends[signs != 0], signs[signs != 0]
    tops = np.flatnonzero((signs[:-1] > 0) & (signs[1:] < 0))
    low, high = ends[tops], ends[tops + 1]
    for _ in range(50):
        middle = (low + high) / 2
        rising = _sums(middle, places, weights, h)[0] > 0
        low, high = np.where(rising, middle, low), np.where(rising, high, middle)
    return (low + high) / 2


def _cells(places: np.ndarray, h: float) -> np.ndarray:
    """The ends of cells, rows of left and right, over all places that may be modes."""
    wide = np.flatnonzero(np.diff(places) > GAP * h)
    lefts, rights = places[np.append(0, wide + 1)] - AROUND * h, places[np.append(wide, len(places) - 1)] + AROUND * h
    counts = np.ceil((rights - lefts) / (CELL * h)).astype(int)
    width = np.repeat((rights - lefts) / counts, counts)
    number = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    left = np.repeat(lefts, counts) + number * width
    return np.stack([left, left + width], axis=1)


def _separated(cells: np.ndarray, places: np.ndarray, weights: np.ndarray, h: float) -> np.ndarray:
    """The ends of cells, halved until each has at most one zero of `g'`."""
    done = []
    for _ in range(HALVINGS):
        middle, radius = cells.mean(1), np.diff(cells, axis=1)[:, 0] / (2 * h)
        first, second, third = _sums(middle, places, weights, h, radius)
        away = np.abs(first) > np.abs(second) * radius + third * radius**2 / 2
        unsure = ~away & (np.abs(second) <= third * radius)
        done.append(cells[~unsure].ravel())
        (left, right), middle = cells[unsure].T, middle[unsure]
        cells = np.concatenate([np.stack([left, middle], 1), np.stack([middle, right], 1)])
        if not len(cells):
            break
    return np.unique(np.concatenate([*done, cells.ravel()]))


def _sums(
    t: np.ndarray, places: np.ndarray, weights: np.ndarray, h: float, radius: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """`g'` and `g''` at points in bandwidths, and the bound of `|g'''|` within a radius, over the weight of the nearest token."""
    order = np.argsort(t)
    found = np.zeros((3, len(t)))
    for some in np.array_split(order, -(-len(t) // BLOCK) or 1):
        if len(some):
            near = slice(*np.searchsorted(places, [t[some[0]] - REACH * h, t[some[-1]] + REACH * h]))
            u = (t[some, None] - places[near]) / h
            top = (u**2).min(1, keepdims=True)
            kernel = weights[near] * np.exp((top - u**2) / 2)
            slope, size = -(u * kernel).sum(1), (np.abs(u) * kernel).sum(1)
            found[0, some] = np.where(np.abs(slope) > ROUNDING * size, slope, 0.0)
            found[1, some] = ((u**2 - 1) * kernel).sum(1)
            if radius is not None:
                r = radius[some, None]
                nearest, farthest = np.maximum(np.abs(u) - r, 0.0), np.abs(u) + r
                bound = (farthest**3 + 3 * farthest) * np.exp((top - nearest**2) / 2)
                found[2, some] = (weights[near] * bound).sum(1)
    return found[0], found[1], found[2]


keep_all(globals())

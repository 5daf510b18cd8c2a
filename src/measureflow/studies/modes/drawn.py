"""Density estimates of normal tokens, drawn again and again, with their modes counted one by one."""

from typing import NamedTuple

import numpy as np
from scipy.signal import oaconvolve

from measureflow.diagnostics import line_modes

FINE = 32
"""Points of the grid to a bandwidth."""
REACH = 9
"""Tokens farther away, in bandwidths, are not seen."""
ROUNDING = 1e-9


class Counts(NamedTuple):
    """The mean number of modes over draws, and its standard error."""

    mean: float
    error: float


def counted(n: int, beta: float, draws: int, rng: np.random.Generator) -> Counts:
    """The modes of so many draws of n standard normal tokens."""
    found = [len(line_modes(np.sort(rng.normal(size=n)), beta)) for _ in range(draws)]
    return Counts(float(np.mean(found)), float(np.std(found, ddof=1) / np.sqrt(draws)))


def on_a_grid(tokens: np.ndarray, beta: float) -> int:
    """The modes of an estimate by its slope on a grid, which costs little more than to draw the tokens.

    Tokens are moved to the nearest point of the grid, and the slope is a convolution. A quarter is added to the points of a
    bandwidth, so that no distance on the grid is two bandwidths, at which two tokens turn from one mode into two.
    """
    points = FINE + 0.25
    at = np.rint((tokens - tokens.min()) * np.sqrt(beta) * points).astype(int)
    u = np.arange(-REACH * FINE, REACH * FINE + 1) / points
    slope = oaconvolve(np.bincount(at), -u * np.exp(-(u**2) / 2))
    signs = np.sign(slope[np.abs(slope) > ROUNDING])  # between tokens that are far apart the slope is rounding
    return int(((signs[:-1] > 0) & (signs[1:] < 0)).sum())

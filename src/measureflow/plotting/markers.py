"""The size of a token's marker: its area says how much mass lies together with it."""

import numpy as np
from scipy.spatial import KDTree

TOGETHER = 0.03
"""Tokens closer than this part of the picture's half width look like one marker."""


def company(places: np.ndarray, radius: float, weights: np.ndarray) -> np.ndarray:
    """The mass within a radius of each place `(n, 3)`, itself included: one when all tokens are together.

    Tokens are first gathered in boxes of an eighth of the radius, so that a collapsed cloud costs no more than a
    spread one; the answer is therefore right up to that eighth.
    """
    boxes, box = np.unique(np.round(places / (radius / 8)), axis=0, return_inverse=True)
    mass = np.bincount(box.ravel(), weights)
    one, other = KDTree(boxes).query_pairs(8.0, output_type="ndarray").T
    near = np.bincount(one, mass[other], len(boxes)) + np.bincount(other, mass[one], len(boxes))
    return (mass + near)[box.ravel()]


def smallest_area(n: int) -> float:
    """The area of the marker of one token alone among `n`, in points squared for a picture three inches wide."""
    return float(np.clip(4000 / n, 3.0, 34.0))


def areas(places: np.ndarray, reach: float, weights: np.ndarray | None = None) -> np.ndarray:
    """The marker areas in a picture of half width `reach`: the smallest for a token alone, growing with the mass around it."""
    n = len(places)
    mass = np.full(n, 1 / n) if weights is None else weights / weights.sum()
    return smallest_area(n) + 520.0 * company(places, TOGETHER * reach, mass)

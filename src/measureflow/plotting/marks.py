"""How a token looks: its colour says where it ends, its area says how many tokens are there with it."""

import numpy as np
from matplotlib.colors import to_rgb
from scipy.spatial import KDTree

from measureflow.annotations import Numbers

PALETTE = (
    "#0072B2", "#D55E00", "#009E73", "#E69F00", "#CC79A7", "#56B4E9", "#882255", "#F0E442", "#332288", "#000000",
)  # fmt: skip
"""Okabe and Ito's colours, with wine and indigo: no pair is closer for colour-blind eyes than the closest of theirs."""

GREY = "#B4B4B4"
"""The colour of the clusters beyond the palette, and of tokens in none."""

INK, FAINT = "#2E3440", "#9A9A9A"
"""Curves and text; thin lines behind them."""

TOGETHER = 0.03
"""Tokens closer than this part of the picture's half width are seen as one mark."""


def cluster_colours(labels: Numbers, most: int = len(PALETTE)) -> np.ndarray:
    """One colour `(n, 3)` for each token by the rank of its cluster; clusters beyond the `most` largest are grey.

    Ranks go by the number of tokens, ties by the label, so the largest cluster is blue in every figure. Tokens of no cluster,
    with negative labels, are grey. Where there are no clusters, or more than colours and no two tokens together, all are
    blue: ten of them would be no better than others.
    """
    numbers, cluster, sizes = np.unique(np.asarray(labels), return_inverse=True, return_counts=True)
    if numbers.max() < 0 or (sizes.max() == 1 and len(sizes) > most):
        return np.tile(to_rgb(PALETTE[0]), (len(cluster), 1))
    ranked = [which for which in np.argsort(-sizes, kind="stable") if numbers[which] >= 0]
    table = np.tile(to_rgb(GREY), (len(sizes), 1))
    for rank, which in enumerate(ranked[: min(most, len(PALETTE))]):
        table[which] = to_rgb(PALETTE[rank])
    return table[cluster]


def company(places: np.ndarray, radius: float, weights: np.ndarray) -> np.ndarray:
    """The mass within a radius of each place `(n, 3)`, itself included: one when all tokens are together.

    Tokens are first gathered in cells of an eighth of the radius, so that a collapsed cloud costs no more than a
    spread one; the answer is therefore right up to that eighth.
    """
    cells, cell = np.unique(np.round(places / (radius / 8)), axis=0, return_inverse=True)
    mass = np.bincount(cell.ravel(), weights)
    one, other = KDTree(cells).query_pairs(8.0, output_type="ndarray").T
    near = np.bincount(one, mass[other], len(cells)) + np.bincount(other, mass[one], len(cells))
    return (mass + near)[cell.ravel()]


def floor_area(n: int) -> float:
    """The area of one lonely token among `n`, in points squared for a picture three inches wide."""
    return float(np.clip(4000 / n, 3.0, 34.0))


def areas(places: np.ndarray, reach: float, weights: np.ndarray | None = None) -> np.ndarray:
    """The marker areas for a picture of half width `reach`: a floor for one token, growing with its company."""
    n = len(places)
    mass = np.full(n, 1 / n) if weights is None else weights / weights.sum()
    return floor_area(n) + 520.0 * company(places, TOGETHER * reach, mass)

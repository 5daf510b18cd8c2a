"""Clusters without a tolerance: groups that persist in the tree of all mergers.

Tokens are merged step by step, always the two groups of smallest mean distance (average linkage), so that single tokens
between groups make no bridge. A group persists when it stays what it is while the scale grows by a factor: it is much
narrower than the gap to its surroundings, of which a few tokens far off or close by do not matter. Everything is relative
to the size of the cloud, which may grow exponentially. These functions look at numbers on the host.
"""

from typing import NamedTuple

import numpy as np
from scipy.cluster.hierarchy import linkage
from scipy.spatial import KDTree

from measureflow.precision import keep_all

GAP = 3.0
"""A cluster is at least so many times as far from its surroundings as its own two halves are from each other."""

NEAR = 0.1
"""Groups closer than this part of the size of the cloud are one, as they are to the eye in a picture of it."""

CHANCE = 1e-4
"""How likely scattered tokens may look like a cluster, by a rough count; of clouds on the circle one in a hundred does."""

MOST_OF = 0.75
"""Where groups hold this part of all tokens, they and small ones beside them need twice the gap, but no such caution: so
much order seldom comes by chance."""

NEARBY = 0.25
"""Of as many tokens around a cluster as it has itself, this part may be close by: outliers, or tokens that are to join."""

TREE = 512
"""Tokens that make the tree, which takes quadratic time; of more, so many stand for all."""


def persistent(points: np.ndarray, size: float, freedom: int) -> np.ndarray:
    """For each token the number of its cluster, or -1 where it has none.

    `size` is that of the cloud, `freedom` the number of directions in which tokens move. A cloud narrower than a third of
    its size has collapsed and is one cluster; tokens spread evenly are in none.
    """
    if len(points) == 1:
        return np.zeros(1, int)
    if len(points) > TREE:
        some = points[np.random.default_rng(0).choice(len(points), TREE, replace=False)]
        return persistent(some, size, freedom)[KDTree(some).query(points)[1]]
    tree = _Tree.of(points, size)
    careful = tree.cut(_odds(tree.counts, len(points), freedom))
    bold = tree.cut(np.full(len(tree.counts), 1 / (2 * GAP)))
    if np.mean(careful >= 0) >= MOST_OF:
        return _with_small(careful, bold)
    return bold if np.mean(bold >= 0) >= MOST_OF else careful


def _with_small(labels: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Labels, with other groups added that have no token of theirs; a pair may be two outliers, and is not."""
    for number in range(others.max() + 1):
        group = others == number
        if group.sum() > 2 and (labels[group] < 0).all():
            labels = np.where(group, labels.max() + 1, labels)
    return labels


def _odds(counts: np.ndarray, n: int, freedom: int) -> np.ndarray:
    """How narrow, relative to its gap, a group must be that scattered tokens would not show.

    Among `n` tokens a group of `k` within a part `r` of the distance to others is expected `n r^(f(k - 1))` times where tokens
    have `f` directions. Half the power pays for the choice of the group after the tokens were seen.
    """
    odds = np.minimum(1 / GAP, (CHANCE / n) ** (2 / (freedom * (counts - 1))))
    odds[-1] = 1 / GAP  # all tokens together are not a choice among groups
    return odds


class _Tree(NamedTuple):
    """All mergers, from the narrowest to the whole: the two parts, their mean distance, the tokens, and the gap around.

    In the `order` of the leaves every group is a stretch, from `first` on; `points` are in that order, and `sums` add them up.
    """

    parts: np.ndarray
    widths: np.ndarray
    counts: np.ndarray
    gaps: np.ndarray
    size: float
    order: np.ndarray
    first: np.ndarray
    points: np.ndarray
    sums: np.ndarray

    @classmethod
    def of(cls, points: np.ndarray, size: float) -> "_Tree":
        rows, n = linkage(points, "average"), len(points)
        parts, widths, counts = rows[:, :2].astype(int), rows[:, 2], rows[:, 3].astype(int)
        tokens, gaps, first = [1] * n + counts.tolist(), [float(size)] * (2 * n - 1), [0] * (2 * n - 1)
        for i, (one, other), width in zip(
            reversed(range(n - 1)), parts[::-1].tolist(), widths[::-1].tolist(), strict=True
        ):
            first[one], first[other] = first[n + i], first[n + i] + tokens[one]
            # A merger with a part less than half as large is an outlier taken in, not the end of a group.
            gaps[one] = width if 2 * tokens[other] >= tokens[one] else gaps[n + i]
            gaps[other] = width if 2 * tokens[one] >= tokens[other] else gaps[n + i]
        order = np.argsort(first[:n])
        sums = np.concatenate([np.zeros((1, points.shape[1])), np.cumsum(points[order], 0)])
        outer, begin = np.array(gaps[n:]), np.array(first[n:])
        return cls(parts, widths, counts, outer, float(size), order, begin, points[order], sums)

    def cut(self, odds: np.ndarray) -> np.ndarray:
        """The labels of the groups that are narrow enough: the parts of a group where two of them are, else the group."""
        n = len(self.order)
        labels, found = np.full(n, -1), [[] for _ in range(n)]
        narrow = (self.widths <= odds * self.gaps) & (self.gaps >= NEAR * self.size)
        for i, (one, other) in enumerate(self.parts.tolist()):
            below = found[one] + found[other]
            found.append([i] if narrow[i] and len(below) < 2 and self._apart(i, odds[i]) else below)
        for number, i in enumerate(found[-1]):
            labels[self.order[self.first[i] : self.first[i] + self.counts[i]]] = number
        return labels

    def _apart(self, i: int, odds: float) -> bool:
        """Whether the tokens nearest to a group, as many as it has, are far off but for a few; mean distances skip near edges."""
        begin, own = self.first[i], self.counts[i]
        end, others = begin + own, len(self.order) - own
        if 2 * others < own:
            return True
        away = self.points - (self.sums[end] - self.sums[begin])[None] / own
        squares = np.einsum("nd,nd->n", away, away)
        squares[begin:end] = np.inf
        place = NEARBY * (min(own, others) - 1)
        below = int(place)
        one, other = np.sqrt(np.partition(squares, [below, below + 1])[below : below + 2])
        gap = float(one if place == below else one + (place - below) * (other - one))
        return bool(self.widths[i] <= odds * gap and gap >= NEAR * self.size)


keep_all(globals())

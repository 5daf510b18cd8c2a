"""Without hypotheses hardmax attention need not keep the vertices of a hull, and need not reach the origin.

A vertex that scores another token higher than itself leaves, even for the form `I`. And the hull only shrinks, so a cloud on
one side of the origin stays as far from it as its hull was.
"""

import numpy as np
from scipy.optimize import nnls
from scipy.spatial import ConvexHull

from measureflow.plotting import Figure, checks_figure
from measureflow.studies.base import SMALL, Check, Claim, Size, Verdict, at_least, at_most, equal
from measureflow.studies.clusters.frank_wolfe import steps

CLAIM = Claim(
    "As published: in the hardmax limit a positive key-query form keeps all hull vertices fixed, and a negative one contracts "
    "all tokens to 0.",
    reference="frankwolfe:25",
    where="theorems on positive and negative key-query forms",
)
REASON = (
    "A vertex stays only if it scores itself highest, as the tokens of largest norm do, and most normal clouds have another; "
    "under a negative form no token can leave the hull, so clouds beside the origin never reach it."
)
STARTS = 100


def distance_to_hull(tokens: np.ndarray) -> float:
    """How far the origin is from the convex hull of tokens."""
    heavy = 1e6  # makes the weights of the combination sum to one
    weights = nnls(np.vstack([tokens.T, np.full(len(tokens), heavy)]), np.append(np.zeros(2), heavy))[0]
    return float(np.linalg.norm(weights @ tokens))


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Hull vertices of 100 normal clouds under the form I, and 10 clouds around (2, 0) under -I."""
    rng = np.random.default_rng(seed)
    clouds = rng.normal(size=(STARTS, 12, 2))
    hulls = [ConvexHull(cloud).vertices for cloud in clouds]
    moved = [np.abs(steps(1.0, cloud) - cloud).max((0, 2)) for cloud in clouds]
    outscored = [(cloud @ cloud.T).argmax(1) != np.arange(12) for cloud in clouds]
    largest = [far[np.linalg.norm(cloud, axis=1).argmax()] for far, cloud in zip(moved, clouds, strict=True)]
    leaving = [(far[hull] > 1e-11).any() for far, hull in zip(moved, hulls, strict=True)]
    beside = np.array([2.0, 0.0]) + 0.5 * rng.normal(size=(10, 12, 2))
    ends = [np.linalg.norm(steps(-1.0, cloud)[-1], axis=1) for cloud in beside]
    away = [distance_to_hull(cloud) for cloud in beside]
    return CLAIM.judge(
        equal(
            "I: how far vertices of the hull move",
            0.0,
            max(f[h].max() for f, h in zip(moved, hulls, strict=True)),
            1e-11,
        ),
        at_most("-I: largest norm at the end, clouds around (2, 0)", 0.1, max(end.max() for end in ends)),
        instead=(
            # About 83 of 100 clouds, with a binomial standard error of 4: eight of them below.
            at_least("I: clouds of 100 with a vertex that leaves", 50, sum(leaving)),
            equal("I: tokens of largest norm stay", 0.0, max(largest), 1e-11),
            equal(
                "I: tokens that leave without being outscored, or stay outscored",
                0,
                sum(int(((f > 1e-11) != o).sum()) for f, o in zip(moved, outscored, strict=True)),
                0,
            ),
            # The hull is nested; the least combination of tokens is found to the weight of its penalty.
            at_least(
                "-I: least norm at the end minus the distance to the hull",
                -1e-9,
                min(e.min() - a for e, a in zip(ends, away, strict=True)),
            ),
            at_least("-I: distance of the origin to the hull", 0.1, np.median(away)),
        ),
        reason=REASON,
        data=[
            equal(
                "I: how far a vertex of each hull moves, as published",
                0.0,
                [f[h].max() for f, h in zip(moved, hulls, strict=True)],
                1e-11,
            ),
            equal("I: how far the token of largest norm moves", 0.0, largest, 1e-11),
            at_least(
                "-I: least norm at the end, at least the distance of the hull", away, [e.min() for e in ends], 1e-9
            ),
        ],
    )


def draw(data: list[Check]) -> Figure:
    """How far vertices move that should stay, and how near clouds beside the origin come to it."""
    return checks_figure(data)

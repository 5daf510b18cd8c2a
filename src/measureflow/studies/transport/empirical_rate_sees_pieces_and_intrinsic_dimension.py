"""The exceptions to the law by dimension: curves in high dimension are curves, and gaps between pieces cost extra.

Mass that a sample puts on the wrong one of two pieces, of order `n^{-1/2}`, has to cross the gap. In `W_1` that is the rate of
a line anyway; in `W_2` the root of the cost makes it `n^{-1/4}`, where one piece has `n^{-1/2}`.
"""

from collections.abc import Callable

import numpy as np

from measureflow.measures import Particles
from measureflow.spaces import Euclidean
from measureflow.studies.base import SMALL, Claim, Size, Verdict, equal, slope
from measureflow.transport import wasserstein

CLAIM = Claim(
    "The intrinsic dimension replaces d in the rate of empirical measures, and W_2 in one dimension decays like n^{-1/4} on "
    "two separate pieces but like n^{-1/2} on one.",
    reference="chewi:25",
    where="lectures on estimating Wasserstein distances",
)


def curve(u: np.ndarray) -> np.ndarray:
    """A closed curve in six dimensions, from numbers in `[0, 1]`."""
    turns = 2 * np.pi * u[..., :1] * np.array([1.0, 2.0, 3.0])
    return np.concatenate([np.cos(turns), np.sin(turns)], axis=-1) / np.array([1.0, 2.0, 3.0] * 2)


def pieces(u: np.ndarray) -> np.ndarray:
    """The two halves of an interval, moved one unit apart."""
    return u + (u > 0.5)


def mean_distance(place: Callable[[np.ndarray], np.ndarray], n: int, p: int, repeats: int) -> float:
    """The mean distance of two samples."""
    pairs = place(np.random.default_rng(n).random((repeats, 2, n, 1)))
    space = Euclidean(pairs.shape[-1])
    return float(np.mean([wasserstein(Particles(space, x), Particles(space, y), p) for x, y in pairs]))


def run(size: Size = SMALL) -> Verdict:
    """Fit the decay over 100 to 800 points."""
    sizes = size.pick((100, 800), (100, 200, 400, 800))
    many, few = size.pick(100, 400), size.pick(10, 40)
    found = [
        slope(sizes, [mean_distance(place, n, p, repeats) for n in sizes])
        for place, p, repeats in ((curve, 1, few), (np.asarray, 2, many), (pieces, 2, many))
    ]
    return CLAIM.judge(
        # One-dimensional distances fluctuate by half of themselves: slopes by .03 for 100 repeats and by .1 for ten.
        equal("W_1 of a curve in six dimensions", -0.5, found[0], size.pick(0.2, 0.1)),
        equal("W_2 of an interval", -0.5, found[1], 0.1),
        equal("W_2 of two intervals", -0.25, found[2], 0.1),
    )

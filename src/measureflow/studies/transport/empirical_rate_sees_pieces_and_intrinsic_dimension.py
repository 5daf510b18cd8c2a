"""The exceptions to the law by dimension: curves in high dimension are curves, and gaps between pieces cost extra.

Mass that a sample puts on the wrong one of two pieces, of order `n^{-1/2}`, has to cross the gap. In `W_1` that is the rate of
a line anyway; in `W_2` the root of the cost makes it `n^{-1/4}`, where one piece has `n^{-1/2}`. In six dimensions a curve has
the rate `n^{-1/2}` and a sheet of three dimensions `n^{-1/3}`: slopes must tell them apart, and both from `n^{-1/6}`.
"""

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np

from measureflow.measures import Particles
from measureflow.plotting import Figure, curves_figure, power_curve
from measureflow.spaces import Euclidean
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_most, equal, slope
from measureflow.transport import wasserstein

CLAIM = Claim(
    "The intrinsic dimension replaces d in the rate of empirical measures, and W_2 in one dimension decays like n^{-1/4} on "
    "two separate pieces but like n^{-1/2} on one.",
    reference="chewi:25",
    where="lectures on estimating Wasserstein distances",
)


class Law(NamedTuple):
    """A way to place points, from how many numbers each, the order of the distance, and how many pairs of samples."""

    place: Callable[[np.ndarray], np.ndarray]
    dim: int
    p: Literal[1, 2]
    repeats: int


def curve(u: np.ndarray) -> np.ndarray:
    """A closed curve in six dimensions, from numbers in `[0, 1]`."""
    turns = 2 * np.pi * u[..., :1] * np.array([1.0, 2.0, 3.0])
    return np.concatenate([np.cos(turns), np.sin(turns)], axis=-1) / np.array([1.0, 2.0, 3.0] * 2)


def sheet(u: np.ndarray) -> np.ndarray:
    """The product of three half circles in six dimensions, from three numbers in `[0, 1]`."""
    return np.concatenate([np.cos(np.pi * u), np.sin(np.pi * u)], axis=-1)


def pieces(u: np.ndarray) -> np.ndarray:
    """The two halves of an interval, moved one unit apart."""
    return u + (u > 0.5)


def distances(pairs: np.ndarray, p: Literal[1, 2]) -> np.ndarray:
    """The distances of several pairs of samples."""
    space = Euclidean(pairs.shape[-1])
    return np.array([float(wasserstein(Particles(space, x), Particles(space, y), p)) for x, y in pairs])


def fitted(rng: np.random.Generator, law: Law, sizes: tuple[int, ...]) -> tuple[float, float, list[float]]:
    """The slope of the mean distance in logarithms of the number of points, its standard error, and the means."""
    found = [distances(law.place(rng.random((law.repeats, 2, n, law.dim))), law.p) for n in sizes]
    relative = np.array([d.std(ddof=1) / d.mean() / np.sqrt(law.repeats) for d in found])
    x, means = np.log(sizes) - np.log(sizes).mean(), [float(d.mean()) for d in found]
    return slope(sizes, means), float(np.linalg.norm(x * relative) / (x @ x)), means


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Fit the decay over four sizes, with standard errors from the repetitions."""
    rng = np.random.default_rng(seed)
    sizes = size.pick((50, 100, 200, 400), (100, 200, 400, 800))
    long = tuple(4 * n for n in sizes)  # sorting is quick on a line, and few points on two pieces also see their length
    curves, sheets, lines = size.pick((80, 20, 200), (200, 40, 800))
    laws = Law(curve, 1, 1, curves), Law(sheet, 3, 1, sheets), Law(np.asarray, 1, 2, lines), Law(pieces, 1, 2, lines)
    fits = [fitted(rng, law, at) for law, at in zip(laws, (sizes, sizes, long, long), strict=True)]
    slopes, errors, means = zip(*fits, strict=True)
    return CLAIM.judge(
        # Distances on a curve or line fluctuate by a third to a half of themselves, so slopes by .02: .1 is four of these
        # beside a bias of .02 from small samples. On the sheet they hardly fluctuate.
        equal("W_1 of a curve in six dimensions", -1 / 2, slopes[0], 0.1),
        equal("W_1 of a sheet of three dimensions in six", -1 / 3, slopes[1], 0.05),
        equal("W_2 of an interval", -1 / 2, slopes[2], 0.1),
        equal("W_2 of two intervals", -1 / 4, slopes[3], 0.1),
        at_most("standard errors of the slopes", [0.025, 0.015, 0.025, 0.025], errors),
        data=list(zip((sizes, sizes, long, long), means, strict=True)),
    )


def draw(data: list[tuple[tuple[int, ...], list[float]]]) -> Figure:
    """Mean distances against the number of points, and powers with the predicted exponents."""
    names = "W₁, curve in six dimensions", "W₁, sheet of three in six", "W₂, an interval", "W₂, two intervals"
    laws = zip(names, data, (-1 / 2, -1 / 3, -1 / 2, -1 / 4), (0.1, 0.05, 0.1, 0.1), strict=True)
    curves = [power_curve(name, np.array(n), means, exponent, room) for name, (n, means), exponent, room in laws]
    return curves_figure(
        curves, "number of points n", "mean distance", log="xy", law="exponents −1/2, −1/3, −1/2, −1/4"
    )

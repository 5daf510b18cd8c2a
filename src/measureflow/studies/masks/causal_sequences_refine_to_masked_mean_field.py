"""Longer and longer causal sequences along one curve settle on masked mean-field attention.

Without scores a token moves with the mean of its past, and powers of the position are eigenfunctions of that mean: a
residual layer of step `h` multiplies `x_s = s^k` by `1 + h/(k+1)`. Along a curve the sums over the past are off by `1/n`. Where
tokens are independent draws, token `i` is off by `i^{-1/2}`, and the mean of `1/i` over the sequence is `log n / n`. Sequences
of different lengths are compared at the positions they share, in the distance that moves no position.
"""

import itertools

import numpy as np

from measureflow.fields import Causal, SoftmaxAttention
from measureflow.flows import layers
from measureflow.measures import Sequence
from measureflow.plotting import Curve, Figure, curves_figure
from measureflow.spaces import Euclidean
from measureflow.studies.base import SMALL, Claim, Size, Verdict, equal, slope
from measureflow.transport import conditional

CLAIM = Claim(
    "Causal attention on n tokens along a curve converges to masked mean-field attention at rate 1/n, and on independent "
    "tokens at rate √(log n/n), in the distance that compares tokens at equal positions.",
    reference="castin:25",
    where="slide that carries masked attention over to measures, part V of the talk; the rates are derived",
)
PLANE = Euclidean(2)
DEPTH, STEP = 4, 0.25


def deep(A: np.ndarray, V: np.ndarray, sequence: Sequence) -> Sequence:
    """The sequence after four masked layers."""
    return layers(Causal(SoftmaxAttention(A, V)), sequence, DEPTH, STEP).final


def power_error(n: int) -> float:
    """How far the curve `(s, s^2)` is from its closed form after layers without scores."""
    s = np.arange(1, n + 1)[:, None] / n
    curve = np.concatenate([s, s**2], axis=1)
    limit = curve * (1 + STEP / np.array([2.0, 3.0])) ** DEPTH
    return float(conditional(deep(np.zeros((2, 2)), np.eye(2), Sequence(PLANE, curve)), Sequence(PLANE, limit)))


def normal_error(n: int, repeats: int, seed: int) -> float:
    """How far independent normal tokens are from where the Gaussian limit takes them, in the mean square."""
    a, scale = -0.7, 1.0
    for _ in range(DEPTH):
        scale *= 1 + STEP * a * scale**2  # a layer on the Gaussian of variance scale^2 is linear
    starts = np.random.default_rng(seed).normal(size=(repeats, n, 2))
    ends = [(deep(a * np.eye(2), np.eye(2), Sequence(PLANE, x)), Sequence(PLANE, scale * x)) for x in starts]
    return float(np.sqrt(np.mean([float(conditional(found, limit)) ** 2 for found, limit in ends])))


def shared(sequence: Sequence) -> Sequence:
    """Every other token, at its position."""
    return Sequence(sequence.space, sequence.points[1::2], sequence.positions[1::2])


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Double the number of tokens and watch the distance to the limit, or to the next refinement."""
    sizes = size.pick((25, 50, 100, 200), (200, 400, 800, 1600))
    A, V = np.random.default_rng(seed).normal(size=(2, 2, 2)) / 2
    angles = [3 * np.arange(1, n + 1) / n for n in sizes]
    curves = [deep(A, V, Sequence(PLANE, np.stack([np.cos(t), t], 1))) for t in angles]
    steps = [float(conditional(coarse, shared(fine))) for coarse, fine in itertools.pairwise(curves)]
    n = np.array(sizes, float)
    random = np.sqrt(np.log(n) / n)
    powers = np.array([power_error(n) for n in sizes])
    normals = np.array([normal_error(n, size.pick(60, 200), seed) for n in sizes])
    return CLAIM.judge(
        # Before the asymptotic regime: the next order is one power of n smaller.
        equal("slope of the error of (s, s^2), no scores", -1.0, slope(sizes, powers), 0.05),
        equal("slope of the change by refinement, softmax", -1.0, slope(sizes[:-1], steps), 0.05),
        # The mean square over 60 sequences fluctuates by a tenth.
        equal(
            "slope over independent tokens",
            slope(sizes, random),
            slope(sizes, normals),
            0.1,
        ),
        data={
            "curve (s, s²), to its limit": (n, powers, 1 / n),
            "curve under softmax, to its refinement": (n[:-1], np.array(steps), 1 / n[:-1]),
            "independent tokens, to their limit": (n, normals, random),
        },
    )


def draw(found: dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]]) -> Figure:
    """Distances against the number of tokens, with their laws."""
    curves = [Curve(name, n, error, law * error[0] / law[0]) for name, (n, error, law) in found.items()]
    return curves_figure(curves, "tokens n", "distance at equal positions", log="xy", law="1/n or √(log n / n)")

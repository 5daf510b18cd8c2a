"""On the line every token ends up looking at one of the two extreme tokens.

Tokens that follow one leader keep their distances while they grow like `e^t`, so their scores part like `e^t` and the
attention matrix becomes Boolean doubly exponentially fast: what is missing from a one is `exp(-c e^t)`.
"""

import numpy as np
from scipy.special import log_softmax, logsumexp

from measureflow.fields import Rescaled, SoftmaxAttention
from measureflow.flows import evolve
from measureflow.measures import Particles
from measureflow.plotting import Figure, draw_table, panels
from measureflow.spaces import Euclidean
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_most, equal

CLAIM = Claim(
    "In one dimension with V>0 and QK>0 the attention matrix tends to rows that pick an extreme token, except for at most "
    "one row.",
    reference="geshkovski:23",
    where="theorem on one-dimensional tokens",
)

TIMES = [0.0, 1.0, 2.0, 6.0, 7.0, 8.0]


def log_attention(key: int) -> np.ndarray:
    """The logarithm of the attention matrix at all times, of 12 tokens numbered by their place at the start."""
    field = Rescaled(SoftmaxAttention(np.eye(1), np.eye(1)))
    mu = Particles(Euclidean(1), np.sort(np.asarray(Particles.iid(Euclidean(1), 12, key=key).points), axis=0))
    tokens = evolve(field, mu, TIMES).map(lambda frame: frame.points)
    scores = [field.scores(t, z, z) for t, z in zip(TIMES, tokens, strict=True)]
    return log_softmax(np.asarray(scores), axis=2)


def log_missing(log_weights: np.ndarray) -> np.ndarray:
    """For each row the logarithm of the weight not on the extreme token it prefers, sorted."""
    missing = [logsumexp(np.delete(log_weights, extreme, axis=2), axis=2) for extreme in (0, -1)]
    return np.sort(np.minimum(*missing), axis=1)


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Follow 10 random starts of 12 distinct tokens in the rescaled frame."""
    matrices = [log_attention(10 * seed + k) for k in range(10)]
    missing = np.stack([log_missing(matrix[3:])[:, -2] for matrix in matrices])  # the worst row but one
    ranks = [np.linalg.matrix_rank(np.exp(matrix[-1]), tol=1e-4) for matrix in matrices]
    return CLAIM.judge(
        # The constant in exp(-c e^t) is the gap between an extreme token and the next, which is small for some starts.
        at_most("distance to the Boolean set at T = 6, median", 1e-4, np.exp(np.median(missing[:, 0]))),
        at_most("distance to the Boolean set at T = 8, worst", 1e-4, np.exp(missing[:, 2].max())),
        at_most("rank at T = 8", 2, ranks),
        # The leaders' own e^t is reached up to terms of size e^{-t}.
        equal("growth rate of -log distance, t = 7 to 8", np.ones(10), np.log(missing[:, 2] / missing[:, 1]), 0.01),
        data=np.exp(matrices[0]),
    )


def draw(weights: np.ndarray) -> Figure:
    """The attention matrix of one start over time; tokens are in order."""
    figure, axes = panels(4, width=3.2, height=3.4)
    for ax, t, matrix in zip(axes, TIMES, weights, strict=False):
        draw_table(ax, matrix, f"t = {t:g}", top=1.0, names=("token seen", "token"))
    return figure

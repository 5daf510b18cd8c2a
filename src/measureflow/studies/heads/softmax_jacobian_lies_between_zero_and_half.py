"""Softmax contracts: its derivative `diag(p) - p p^T` has eigenvalues between zero and one half."""

import jax
import numpy as np

from measureflow.plotting import Curve, Figure, curves_figure, draw_allowed
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_least, at_most, equal
from measureflow.theory import heads

CLAIM = Claim(
    "Lemma 2.1: 0 <= S(p) <= I, so softmax is 1-Lipschitz; the sharp constant is 1/2.",
    reference="heads:26",
    where="lemma 2.1",
)
WORDS = range(2, 11)
"""Sizes of vocabularies."""


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Draw logits of all sizes for vocabularies of 2 to 10 words and diagonalise the derivatives of softmax."""
    rng = np.random.default_rng(seed)
    jacobians = jax.jit(jax.vmap(jax.jacfwd(jax.nn.softmax)))
    low, high = [], []
    for V in WORDS:
        logits = rng.normal(size=(size.pick(1000, 12000), V)) * 10 ** rng.uniform(-1, 1.5, size=(1, V))
        eigenvalues = np.linalg.eigvalsh(np.asarray(jacobians(logits)))
        low.append(eigenvalues.min())
        high.append(eigenvalues.max())
    coin = np.linalg.eigvalsh(np.asarray(heads.softmax_jacobian(np.array([0.5, 0.5, 0.0, 0.0]))))
    z = rng.normal(size=5)
    formula = heads.softmax_jacobian(jax.nn.softmax(z)) - jax.jacfwd(jax.nn.softmax)(z)
    return CLAIM.judge(
        # Rounding of an eigenvalue of a matrix of norm at most one half.
        at_least("least eigenvalue", 0.0, min(low), slack=1e-12),
        at_most("largest eigenvalue", 0.5, max(high), slack=1e-12),
        equal("largest eigenvalue at a fair coin", 0.5, coin[-1], 1e-12),
        equal("automatic derivative against diag(p) - p p^T", 0.0, np.abs(formula).max(), 1e-12),
        data=(low, high),
    )


def draw(data: tuple[list[float], list[float]]) -> Figure:
    """The extreme eigenvalues of all draws for each vocabulary."""
    low, high = data
    curves = [Curve("largest eigenvalue", list(WORDS), high, 0.5), Curve("least eigenvalue", list(WORDS), low, 0.0)]
    figure = curves_figure(curves, "words", "eigenvalue of the derivative of softmax", law="bounds 0 and 1/2")
    figure.axes[0].set_ylim(-0.05, 0.7)
    draw_allowed(figure.axes[0], 0.0, 0.5)
    return figure

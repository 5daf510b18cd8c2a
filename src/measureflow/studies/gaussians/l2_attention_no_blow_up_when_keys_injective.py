"""Keys that see every direction bound what L2 attention can feed back, so the covariance grows exponentially at most."""

import jax.numpy as jnp
import numpy as np

from measureflow.fields import L2Attention
from measureflow.flows import Adaptive, evolve
from measureflow.measures import Gaussian
from measureflow.plotting import Curve, Figure, curves_figure
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_most, equal
from measureflow.studies.gaussians.moments import covariance
from measureflow.theory import gaussian as theory

CLAIM = Claim(
    "With injective K the L2 covariance grows at most exponentially.",
    reference="castin:25",
    where="derived: the slide on variants with its hypothesis",
)
TIMES = np.linspace(0.0, 3.0, 13)


def scalar_error(v: float, q: float, k: float) -> float:
    """How unevenly the clock of one dimension runs."""
    field = L2Attention([[q]], [[k]], [[v]])
    s = evolve(field, Gaussian([0.0], [[1.5]]), TIMES, Adaptive(rtol=1e-12)).map(covariance)[:, 0, 0]
    return float(jnp.abs(theory.l2_clock(s, k) - theory.l2_clock(1.5, k) - 4 * v * q * k * TIMES).max())


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Random queries with keys near them, so that softmax attention of the same scores blows up before t = 3."""
    rng = np.random.default_rng(seed + 8)
    softmax, ratios, growths, reached = [], [], [], 0
    for _ in range(size.pick(5, 50)):
        Q, G = rng.normal(size=(2, 2, 2))
        Q *= 1.5 / np.linalg.norm(Q, 2)  # the largest eigenvalue of B is above 7 then, and the time below 0.7
        K, V, cov = Q + 0.3 * np.eye(2), np.eye(2), G @ G.T + 0.2 * np.eye(2)
        arrays = [jnp.asarray(x) for x in (cov, Q, K, V)]
        path = evolve(L2Attention(Q, K, V), Gaussian(np.zeros(2), cov), TIMES)
        norms = jnp.linalg.norm(path.map(covariance), 2, axis=(1, 2))
        bound = theory.l2_bound(TIMES, *arrays)
        growths.append((np.asarray(norms), np.asarray(bound)))
        ratios.append(float((norms / bound).max()))
        softmax.append(float(theory.blow_up_time(arrays[0], 2 * arrays[2].T @ arrays[1], arrays[3])))
        reached += int(path.outcome.ok)
    # The clock moves by up to 12 units and the solver works at 1e-12.
    return CLAIM.judge(
        at_most("blow-up time of softmax attention with the same scores", 3.0, max(softmax)),
        equal("runs that reach t = 3", len(ratios), reached, 0),
        # At t = 0 both are the same number, by two roads.
        at_most("largest norm over its bound", 1.0, max(ratios), slack=1e-12),
        equal("one dimension, growing: clock", 0.0, scalar_error(0.8, 0.6, 0.9), 1e-8),
        equal("one dimension, contracting: clock", 0.0, scalar_error(0.8, -0.6, 0.9), 1e-8),
        data=growths,
    )


def draw(growths: list[tuple[np.ndarray, np.ndarray]]) -> Figure:
    """The norms of some covariances over time, below their bounds."""
    curves = [Curve(f"draw {i + 1}", TIMES, norm, bound) for i, (norm, bound) in enumerate(growths[:3])]
    return curves_figure(curves, "time t", "norm of the covariance", log="y", law="bound")

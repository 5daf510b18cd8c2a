"""Training conserves two matrices of each head, because turning queries against keys and values against outputs is free."""

import jax
import numpy as np

from measureflow.flows import RK4, Euler, evolve
from measureflow.measures import Particles
from measureflow.plotting import Figure, curves_figure, power_curve
from measureflow.spaces import Euclidean
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_most, equal
from measureflow.training import Descent, FullHeads, Ridge, StochasticDescent, fixtures
from measureflow.training.chaos import power_law
from measureflow.training.convergence import balance_drift

CLAIM = Claim(
    "Each head conserves W_Q^TW_Q-W_K^TW_K and W_V^TW_V-W_OW_O^T; so stationary sets come in gauge continua.",
    reference="heads:26",
    where="derived: symmetries behind theorem 6.6 (5)",
)
STEPS = np.array([0.01, 0.005, 0.0025, 0.00125])
DECAY = 0.3


def run(size: Size = SMALL) -> Verdict:
    """Four heads up to t = 0.5: gradient flow, flow with weight decay, and one-sample descent with four steps."""
    risk, times = fixtures.f1(), np.array([0.0, 0.25, 0.5])
    heads = risk.heads
    assert isinstance(heads, FullHeads)
    mu = Particles(Euclidean(24), 1.5 * fixtures.f1_heads(4))
    flow = evolve(Descent(risk), mu, times, RK4(0.005))
    decayed = evolve(Descent(risk + Ridge(DECAY)), mu, times, RK4(0.005))
    before, after = (np.concatenate([np.ravel(m) for m in jax.vmap(heads.balance)(x)]) for x in _ends(decayed))
    drifts = [
        float(balance_drift(heads, evolve(StochasticDescent(risk, 0, eps), mu, times, Euler(eps)))[-1]) for eps in STEPS
    ]
    return CLAIM.judge(
        # Error of RK4 with a hundred steps.
        at_most("drift under gradient flow", 1e-9, float(balance_drift(heads, flow)[-1])),
        # Both matrices decay at twice the rate of the weights: exp(-4 λ t).
        equal("ratio under weight decay", np.exp(-4 * DECAY * 0.5), (before @ after) / (before @ before), 1e-6),
        # Each step breaks the law by its square; four steps and one sample path.
        equal("order in the step of stochastic descent", 1.0, power_law(STEPS, np.array(drifts)).exponent, 0.1),
        data=drifts,
    )


def _ends(path):
    return path.measures.points[0], path.measures.points[-1]


def draw(drifts: list[float]) -> Figure:
    """How far stochastic descent leaves what the flow conserves, against its step."""
    curve = power_curve("stochastic descent", STEPS, drifts, 1.0, 0.1)
    return curves_figure([curve], "step ε", "drift of the balance up to t = 0.5", log="xy", law="exponent 1 ± 0.1")

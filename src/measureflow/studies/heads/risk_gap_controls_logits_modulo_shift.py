"""Near realisable labels the risk gap bounds the distance of logits, but only up to a constant over the vocabulary."""

import jax
import jax.numpy as jnp
import numpy as np

from measureflow.plotting import Figure, checks_figure
from measureflow.studies.base import SMALL, Check, Claim, Size, Verdict, at_least, at_most, equal
from measureflow.theory import heads
from measureflow.training import FullHeads, HeadRisk

CLAIM = Claim(
    "Section 8, identifiability: near the optimum the risk gap bounds the squared logit distance only modulo the softmax "
    "shift.",
    reference="heads:26",
    where="section 8",
)
WORDS = 5


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Logits drawn at random, labels that realise them, and small changes of the logits."""
    rng, ratios, forms, shifts, gaps = np.random.default_rng(seed), [], [], [], []
    for _ in range(size.pick(20, 200)):
        z = jnp.asarray(rng.normal(size=(1, 1, WORDS)))
        p = jax.nn.softmax(z)
        risk = HeadRisk(np.zeros((1, 1, 2)), p, np.zeros((2, WORDS)), FullHeads(2, 1, 1))
        delta = rng.normal(size=WORDS)
        delta = (delta - delta.mean()) / np.linalg.norm(delta - delta.mean()) * 1e-3
        S = np.asarray(heads.softmax_jacobian(p[0, 0]))
        gap = float(risk.loss(z + jnp.asarray(delta)[None, None]) - risk.loss(z))
        forms.append(gap / (delta @ S @ delta / 2))
        ratios.append(gap / (np.linalg.eigvalsh(S)[1] / 2 * (delta @ delta)))
        gaps.append(gap)
        shifts.append(float(risk.loss(z + 3.7) - risk.loss(z)))
    return CLAIM.judge(
        # The cubic term at |δ| = 0.001 is of the order of a thousandth, rounding of 1e-7 by 1e-15 smaller still. Without the
        # half or with another matrix the ratio is far from one.
        equal("gap over δ^T S δ / 2", np.ones(len(forms)), forms, 0.01),
        # The bound meets the same cubic term when δ points along the weakest direction.
        at_least("gap over κ|δ|²", 1.0, min(ratios), slack=0.01),
        # Rounding of the logarithm of a sum.
        at_most("gap of a constant shift", 1e-14, np.abs(shifts).max()),
        data=[
            equal("gap over δ^T S δ / 2", 1.0, forms, 0.01),
            at_least("gap, at least κ|δ|²", np.divide(gaps, ratios), gaps, np.divide(gaps, ratios) / 100),
            equal("gap of a constant shift", 0.0, shifts, 1e-14),
        ],
    )


def draw(data: list[Check]) -> Figure:
    """The gap of small changes against the quadratic form and against its bound, and of shifts, which it does not see."""
    return checks_figure(data)

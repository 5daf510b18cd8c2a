"""One-sample descent fluctuates like the root of the step, and more heads do not help: all see the same sample."""

import numpy as np

from measureflow.plotting import Curve, Figure, curves_figure
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_least, equal
from measureflow.studies.training.crowd import FIELD, TIMES, heads
from measureflow.training import power_law, sample_error

CLAIM = Claim(
    "Theorem 5.2, martingale term: one-sample SGD fluctuates like √ε and this does not shrink with the number of heads.",
    reference="heads:26",
    where="theorem 5.2",
)
STEPS = np.array([0.025, 0.0125, 0.00625, 0.003125])
"""At 0.05 the bias of descent on samples, of the order of the step, is as large as the fluctuation of the risk."""


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Stochastic against full descent with the same step, for 8 and 64 heads."""
    few, many, seeds = heads(8, seed), heads(64, seed), size.pick(24, 64)
    errors = [sample_error(FIELD, many, float(step), TIMES, seeds=seeds, key=seed + 1) for step in STEPS]
    parts = {name: np.array([getattr(e, name) for e in errors], float) for name in ("heads", "risk")}
    each, risk = (power_law(STEPS, part).exponent for part in parts.values())
    small = sample_error(FIELD, few, float(STEPS[-1]), TIMES, seeds=seeds, key=seed + 1)
    return CLAIM.judge(
        # Sampling over the seeds, and what is left of the bias at the largest step.
        equal("slope of heads in the mean square", 0.5, each, 0.12),
        equal("slope of the risk", 0.5, risk, 0.12),
        at_least("distance of 64 heads over that of 8", 0.8, float(errors[-1].heads / small.heads)),
        data=parts,
    )


def draw(errors: dict[str, np.ndarray]) -> Figure:
    """The errors against the step."""
    curves = [Curve(name, STEPS, e, e[0] * np.sqrt(STEPS / STEPS[0])) for name, e in errors.items()]
    return curves_figure(curves, "step ε", "distance of one-sample to full descent", log="xy", law=r"$\propto ε^{1/2}$")

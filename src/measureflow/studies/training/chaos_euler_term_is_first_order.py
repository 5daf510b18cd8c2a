"""Full-batch descent follows the flow of heads with an error proportional to the step."""

import jax.numpy as jnp
import numpy as np

from measureflow.flows import RK4, evolve
from measureflow.plotting import Curve, Figure, curves_figure
from measureflow.studies.base import SMALL, Claim, Size, Verdict, equal
from measureflow.studies.training.crowd import FIELD, TIMES, heads
from measureflow.training.chaos import power_law, step_error

CLAIM = Claim(
    "Theorem 5.2, Euler term: full-batch descent differs from the flow by O(ε).",
    reference="heads:26",
    where="theorem 5.2",
)
STEPS = np.array([0.05, 0.025, 0.0125, 0.00625])


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Descent of 64 heads with four steps against a flow whose own error is of fourth order."""
    mu = heads(size.pick(64, 512), seed)
    exact = evolve(FIELD, mu, TIMES, RK4(0.005))
    errors = [step_error(FIELD, mu, step, TIMES, exact) for step in jnp.asarray(STEPS)]
    parts = {name: np.array([getattr(e, name) for e in errors], float) for name in ("worst", "risk")}
    worst, risk = (power_law(STEPS, part).exponent for part in parts.values())
    return CLAIM.judge(
        # The next order bends the slope by a few per cent at these steps.
        equal("slope of the worst head", 1.0, worst, 0.08),
        equal("slope of the risk", 1.0, risk, 0.08),
        data={"worst head": parts["worst"], "risk": parts["risk"]},
    )


def draw(errors: dict[str, np.ndarray]) -> Figure:
    """The errors against the step."""
    curves = [Curve(name, STEPS, e, e[0] * STEPS / STEPS[0]) for name, e in errors.items()]
    return curves_figure(curves, "step ε", "distance to the flow", log="xy", law=r"$\propto ε$")

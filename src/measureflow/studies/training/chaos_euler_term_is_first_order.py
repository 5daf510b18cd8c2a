"""Full-batch descent follows the flow of heads with an error proportional to the step."""

import jax.numpy as jnp
import numpy as np

from measureflow.flows import RK4, evolve
from measureflow.studies.base import SMALL, Claim, Size, Verdict, equal
from measureflow.studies.training.crowd import FIELD, TIMES, heads
from measureflow.training import power_law, step_error

CLAIM = Claim(
    "Theorem 5.2, Euler term: full-batch descent differs from the flow by O(ε).",
    reference="heads:26",
    where="theorem 5.2",
)
STEPS = np.array([0.05, 0.025, 0.0125, 0.00625])


def run(size: Size = SMALL) -> Verdict:
    """Descent of 64 heads with four steps against a flow whose own error is of fourth order."""
    mu = heads(size.pick(64, 512))
    exact = evolve(FIELD, mu, TIMES, RK4(0.005))
    errors = [step_error(FIELD, mu, step, TIMES, exact) for step in jnp.asarray(STEPS)]
    worst, risk = (
        power_law(STEPS, np.array([getattr(e, name) for e in errors], float)).exponent for name in ("worst", "risk")
    )
    return CLAIM.judge(
        # The next order bends the slope by a few per cent at these steps.
        equal("slope of the worst head", 1.0, worst, 0.08),
        equal("slope of the risk", 1.0, risk, 0.08),
    )

"""Full-batch descent follows the flow of heads with an error proportional to the step."""

import jax.numpy as jnp
import numpy as np

from measureflow.flows import RK4, evolve
from measureflow.measures import Particles
from measureflow.spaces import Euclidean
from measureflow.studies.base import SMALL, Claim, Size, Verdict, equal
from measureflow.studies.chaos_empirical_term_scales_like_inverse_root_n import FIELD, TIMES
from measureflow.training import power_law, step_error

CLAIM = Claim(
    "chaos-euler-term-is-first-order",
    "Theorem 5.2, Euler term: full-batch descent differs from the flow by O(ε).",
    reference="heads:26",
)
STEPS = np.array([0.05, 0.025, 0.0125, 0.00625])


def run(size: Size = SMALL) -> Verdict:
    """Descent of 64 heads with four steps against a flow whose own error is of fourth order."""
    points = 0.5 * np.random.default_rng(7).standard_normal((8192, 24))[: size.pick(64, 512)]
    mu = Particles(Euclidean(24), points)
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

"""Keys that miss a direction leave it free to feed itself: L2 attention then blows up like softmax attention.

With `K = e_1^T`, `Q = e_2^T`, `V = e_2 e_2^T` the first variance is constant and `Σ_12' = 2Σ_12^2/(1 + 2Σ_11)`.
"""

import numpy as np

from measureflow.fields import L2Attention
from measureflow.flows import evolve
from measureflow.measures import Gaussian
from measureflow.plotting import Curve, Figure, curves_figure
from measureflow.studies.base import SMALL, Claim, Size, Verdict, equal

CLAIM = Claim(
    "As published: L2 attention does not blow up in finite time.",
    reference="castin:25",
    where="slide that compares attention variants, part III of the talk",
)
TIMES = np.linspace(0.0, 5.0, 51)
REASON = "The sentence needs injective keys: with K = e_1^T the covariance is infinite at t = (1+2Σ_11)/(2Σ_12)."


def run(size: Size = SMALL) -> Verdict:
    """The example of the sheet, until t = 5 if it can, and the same with a second key."""
    cov = np.array([[1.0, 0.5], [0.5, 1.0]])
    query = [[0.0, 1.0], [0.0, 0.0]]  # a second row of zeros, so that the control has another key alone
    value, start = np.diag([0.0, 1.0]), Gaussian(np.zeros(2), cov)
    path = evolve(L2Attention(query, [[1.0, 0.0], [0.0, 0.0]], value), start, TIMES)
    injective = evolve(L2Attention(query, [[1.0, 0.0], [0.0, 0.3]], value), start, TIMES)
    return CLAIM.judge(
        equal("time reached", 5.0, path.outcome.time, 0.0),
        instead=(
            # The solver's tolerance of 1e-8 on the way, with a margin.
            equal(
                "time of the blow-up",
                (1 + 2 * cov[0, 0]) / (2 * cov[0, 1]),
                path.stats.get("blow_up_time", np.nan),
                1e-6,
            ),
            equal("time reached with a second key", 5.0, injective.outcome.time, 0.0),
        ),
        reason=REASON,
        data=[(np.asarray(each.times), np.asarray(each.map(lambda mu: mu.cov[0, 1]))) for each in (path, injective)],
    )


def draw(data: list[tuple[np.ndarray, np.ndarray]]) -> Figure:
    """The covariance of both coordinates over time, and the law that ends at t = 3."""
    (t, free), second = data
    t, free = t[t < 2.99], free[t < 2.99]  # the last frame is the end itself
    curves = [Curve("one key", t, free, 0.5 / (1 - t / 3)), Curve("with a second key", *second)]
    return curves_figure(curves, "time t", "covariance of the coordinates", log="y", law=r"$\Sigma_{12}(0)/(1 - t/3)$")

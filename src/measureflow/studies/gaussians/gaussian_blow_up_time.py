"""A direction in which the form B is positive feeds its own variance, which is infinite after finite time."""

import jax.numpy as jnp
import numpy as np

from measureflow.fields import SoftmaxAttention
from measureflow.flows import evolve
from measureflow.measures import Gaussian
from measureflow.plotting import Curve, Figure, curves_figure
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_least, equal
from measureflow.studies.gaussians.moments import covariance
from measureflow.theory import gaussian as theory

CLAIM = Claim(
    "If B has a positive eigenvalue the largest covariance eigenvalue diverges in finite time.",
    reference="castin:25",
    where="closed-form analysis, part III of the talk; the time is derived",
)

SHARES = np.concatenate([1 - np.geomspace(1.0, 1e-4, 30), [2.0]])
"""Times over the predicted one, closer and closer to it, and one beyond."""


def mixed_form(rng):
    """A random form whose symmetric part has eigenvalues of both signs."""
    while True:
        A = rng.normal(size=(2, 2))
        low, high = np.linalg.eigvalsh(A + A.T)
        if low < -0.2 and high > 0.2:
            return A


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Random forms and covariances until no step is short enough to follow."""
    rng = np.random.default_rng(seed + 5)
    ratios, traces, growths, ended = [], [], [], 0
    for _ in range(size.pick(4, 20)):
        A, G, identity = mixed_form(rng), rng.normal(size=(2, 2)), np.eye(2)
        cov = G @ G.T + 0.1 * identity
        predicted = float(theory.blow_up_time(*map(jnp.asarray, (cov, A, identity))))
        path = evolve(SoftmaxAttention(A, identity), Gaussian(rng.normal(size=2), cov), predicted * SHARES)
        ratios.append(path.stats.get("blow_up_time", np.nan) / predicted)
        traces.append(float(jnp.trace(path.final.cov)))
        growths.append(np.asarray(path.map(lambda mu: jnp.trace(covariance(mu))))[1 : len(SHARES) - 1])
        ended += int(path.outcome.blew_up)
    return CLAIM.judge(
        # The solver's tolerance of 1e-8 on the way, with a margin; the end itself is found to rounding.
        equal("time of the blow-up over 1/λ_max(Σ^{1/2}BΣ^{1/2})", np.ones(len(ratios)), ratios, 1e-6),
        equal("runs that end in a blow-up", len(ratios), ended, 0),
        at_least("least trace at the end", 1e8, min(traces)),
        data=growths,
    )


def draw(growths: list[np.ndarray]) -> Figure:
    """The trace of some covariances against the time that is left until the predicted blow-up."""
    left = 1 - SHARES[1:-1]
    curves = [Curve(f"draw {i + 1}", left, trace, trace[-1] * left[-1] / left) for i, trace in enumerate(growths[:4])]
    figure = curves_figure(curves, "1 - t/t*", "trace of the covariance", log="xy", law="C/(t* - t)")
    figure.axes[0].invert_xaxis()
    return figure

"""Where the form B is negative the variance is spent, and what is left lives on its kernel."""

import jax.numpy as jnp
import numpy as np

from measureflow.fields import SoftmaxAttention
from measureflow.flows import evolve
from measureflow.measures import Gaussian
from measureflow.plotting import Curve, Figure, curves_figure
from measureflow.studies.base import SMALL, Claim, Size, Verdict, equal
from measureflow.theory import gaussian as theory

CLAIM = Claim(
    "If B is negative semidefinite the covariance converges to a rank-deficient limit.",
    reference="castin:25",
    where="closed-form analysis, part III of the talk; the limit is derived",
)

LATE = np.geomspace(10.0, 1e5, 9)


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Forms of rank one and two in three dimensions, from t = 10 to 1e5."""
    checks, errors = [], {}
    for rank in (1, 2):
        rng = np.random.default_rng(10 * seed + rank)
        # Eigenvalues of order one: those of the form set the time from which on the limit is near.
        q, G = np.linalg.qr(rng.normal(size=(3, rank)))[0].T, rng.normal(size=(3, 3))
        A, cov, identity = map(jnp.asarray, (-q.T @ q, G @ G.T + 0.1 * np.eye(3), np.eye(3)))
        goal = theory.limit(cov, A, identity)
        error = np.array([float(jnp.linalg.norm(theory.covariance(t, cov, A, identity) - goal)) for t in LATE])
        errors[f"B of rank {rank}"], scaled = error, LATE * error
        flow = evolve(SoftmaxAttention(A, identity), Gaussian(jnp.zeros(3), cov), [0.0, 1e3]).final
        closed = theory.covariance(1e3, cov, A, identity)
        checks += [
            equal(f"rank of the limit, B of rank {rank}", 3 - rank, int(theory.rank(goal, 1e-6)), 0),
            # The error is C/t + O(1/t^2) with eigenvalues above 0.1. Laws t^{-1/2} or t^{-2} are off by factors of ten or more.
            equal(f"t·error at 1e3 over that at 1e5, B of rank {rank}", 1.0, scaled[4] / scaled[-1], 0.01),
            # A million times the solver's local error of 1e-10 would not reach the error 1/t that is resolved here.
            equal(f"flow at t = 1e3, B of rank {rank}", closed, flow.cov, 1e-6),
        ]
    return CLAIM.judge(*checks, data=errors)


def draw(errors: dict[str, np.ndarray]) -> Figure:
    """The distance to the limit over time."""
    curves = [Curve(name, LATE, error, error[-1] * LATE[-1] / LATE) for name, error in errors.items()]
    return curves_figure(curves, "time t", "distance of the covariance to its limit", log="xy", law="C/t")

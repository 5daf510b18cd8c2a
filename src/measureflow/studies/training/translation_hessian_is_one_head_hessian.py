"""Moving all heads together feels the Hessian of the one-head risk: `H_tr = H + K` with `K >= 0`."""

import jax
import numpy as np

from measureflow.measures import Particles
from measureflow.plotting import Figure, checks_figure
from measureflow.spaces import Euclidean
from measureflow.studies.base import SMALL, Check, Claim, Size, Verdict, at_least, equal
from measureflow.training import fixtures
from measureflow.training.perturbation import coupling, matrix, splitting, translation

CLAIM = Claim(
    "Remark 7.7 and (59): H_tr=H+K with K>=0 is the Hessian of the one-head risk.",
    reference="heads:26",
    where="remark 7.7, equation (59)",
)


def run(size: Size = SMALL) -> Verdict:
    """The first head of F1: derivatives of the gradient in the point and in the measure, and of the risk twice."""
    risk, theta = fixtures.f1(), fixtures.f1_heads(1)
    mu = Particles(Euclidean(24), theta)
    H, K, together = (np.asarray(matrix(make, risk, mu)) for make in (splitting, coupling, translation))
    one_head = np.asarray(jax.jit(jax.hessian(lambda x: risk(Particles(mu.space, x[None]))))(theta[0]))

    # K by its formula, J^T S(p) J summed over positions.
    J = np.asarray(jax.jit(jax.jacfwd(risk.features))(theta[0]))
    p = np.asarray(jax.nn.softmax(risk.features(theta[0])))
    S = p[..., None] * np.eye(4) - p[..., :, None] * p[..., None, :]
    formula = np.einsum("st,stva,stvw,stwb->ab", risk.shares, J, S, J)
    return CLAIM.judge(
        # Rounding.
        equal("H + K - Hessian of the one-head risk", 0.0, np.abs(H + K - one_head).max(), 1e-8),
        equal("H_tr - Hessian of the one-head risk", 0.0, np.abs(together - one_head).max(), 1e-8),
        equal("K - E Σ J^T S J", 0.0, np.abs(K - formula).max(), 1e-8),
        at_least("least eigenvalue of K", 0.0, np.linalg.eigvalsh(K)[0], slack=1e-12),
        data=[
            equal("entries of H + K", one_head, H + K, 1e-8),
            equal("entries of K", formula, K, 1e-8),
            at_least("eigenvalues of K", 0.0, np.linalg.eigvalsh(K), 1e-12),
        ],
    )


def draw(data: list[Check]) -> Figure:
    """The entries of both matrices against their formulas, and the eigenvalues of K."""
    return checks_figure(data)

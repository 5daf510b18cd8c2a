"""When the value matrix commutes with the rest, the inverse covariance moves on a straight line."""

import jax.numpy as jnp
import numpy as np

from measureflow.fields import SoftmaxAttention
from measureflow.flows import Adaptive, evolve
from measureflow.measures import Gaussian
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_least, equal
from measureflow.theory import gaussian as theory

CLAIM = Claim(
    "If V commutes with B=VA+A^TV^T and Σ_0, then Σ(t)=(Σ_0^{-1}-tB)^{-1}.",
    reference="castin:25",
    where="closed-form analysis, part III of the talk",
)


def deviation(cov, A, V) -> float:
    """The relative distance of flow and closed form at half the blow-up time, or at one."""
    cov, A, V = map(jnp.asarray, (cov, A, V))
    end = 0.5 * float(jnp.minimum(theory.blow_up_time(cov, A, V), 2.0))
    flow = evolve(SoftmaxAttention(A, V), Gaussian(jnp.zeros(3), cov), [0.0, end], Adaptive(rtol=1e-12)).final
    closed = theory.covariance(end, cov, A, V)
    return float(jnp.linalg.norm(flow.cov - closed) / jnp.linalg.norm(closed))


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Values that are the identity, that share eigenvectors with the rest, and that do neither."""
    rng = np.random.default_rng(seed + 4)
    A, G, V = rng.normal(size=(3, 3, 3)) / 2
    basis = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    cov, form, value = (basis @ np.diag(v) @ basis.T for v in rng.uniform(0.2, 1.5, size=(3, 3)) * [[1], [-1], [1]])
    return CLAIM.judge(
        equal("V = I", 0.0, deviation(G @ G.T + 0.1 * np.eye(3), A, np.eye(3)), 1e-9),  # the solver, at rtol 1e-12
        equal("V with the eigenvectors of the rest", 0.0, deviation(cov, form, value), 1e-9),
        at_least("control: V does not commute", 1e-3, deviation(G @ G.T + 0.1 * np.eye(3), A, V)),
    )

"""When the value matrix commutes with the rest, the inverse covariance moves on a straight line."""

import jax.numpy as jnp
import numpy as np

from measureflow.fields import SoftmaxAttention
from measureflow.flows import Adaptive, evolve
from measureflow.measures import Gaussian
from measureflow.plotting import Figure, checks_figure
from measureflow.studies.base import SMALL, Check, Claim, Size, Verdict, at_least, equal
from measureflow.theory import gaussian as theory

CLAIM = Claim(
    "If V commutes with B=VA+A^TV^T and Σ_0, then Σ(t)=(Σ_0^{-1}-tB)^{-1}.",
    reference="castin:25",
    where="closed-form analysis, part III of the talk",
)


def both(cov, A, V) -> tuple[np.ndarray, np.ndarray]:
    """The covariance by closed form and by the flow, at five times up to half the blow-up time, or to one."""
    cov, A, V = map(jnp.asarray, (cov, A, V))
    times = np.linspace(0.0, 0.5 * float(jnp.minimum(theory.blow_up_time(cov, A, V), 2.0)), 6)
    flow = evolve(SoftmaxAttention(A, V), Gaussian(jnp.zeros(3), cov), times, Adaptive(rtol=1e-12))
    closed = [theory.covariance(float(t), cov, A, V) for t in times[1:]]
    return np.asarray(closed), np.asarray(flow.map(lambda mu: mu.cov))[1:]


def deviation(closed: np.ndarray, flow: np.ndarray) -> float:
    """The relative distance of flow and closed form at the end."""
    return float(np.linalg.norm(flow[-1] - closed[-1]) / np.linalg.norm(closed[-1]))


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Values that are the identity, that share eigenvectors with the rest, and that do neither."""
    rng = np.random.default_rng(seed + 4)
    A, G, V = rng.normal(size=(3, 3, 3)) / 2
    basis = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    cov, form, value = (basis @ np.diag(v) @ basis.T for v in rng.uniform(0.2, 1.5, size=(3, 3)) * [[1], [-1], [1]])
    start = G @ G.T + 0.1 * np.eye(3)
    plain, shared, control = both(start, A, np.eye(3)), both(cov, form, value), both(start, A, V)
    return CLAIM.judge(
        equal("V = I", 0.0, deviation(*plain), 1e-9),  # the solver, at rtol 1e-12
        equal("V with the eigenvectors of the rest", 0.0, deviation(*shared), 1e-9),
        at_least("control: V does not commute", 1e-3, deviation(*control)),
        data=[
            equal("covariance, V = I", *plain, 1e-9 * np.abs(plain[0]).max()),
            equal("covariance, V with the eigenvectors", *shared, 1e-9 * np.abs(shared[0]).max()),
            equal("covariance, V does not commute", *control, 1e-9 * np.abs(control[0]).max()),
        ],
    )


def draw(data: list[Check]) -> Figure:
    """The entries of the covariance at five times against the closed form."""
    return checks_figure(data)

"""Under the Sinkhorn kernel keys are as spread as queries, so a covariance grows no faster than the value matrix allows."""

import jax.numpy as jnp
import numpy as np

from measureflow.fields import SinkhornAttention
from measureflow.flows import Adaptive, evolve
from measureflow.measures import Gaussian
from measureflow.plotting import Curve, Figure, curves_figure
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_most, equal
from measureflow.studies.gaussians.moments import covariance
from measureflow.theory import gaussian as theory

CLAIM = Claim(
    "The Sinkhorn covariance never blows up.",
    reference="castin:25",
    where="derived: the slide on variants, with a rate",
)
TIMES = np.linspace(0.0, 3.0, 7)


def scalar_error(v: float, a: float) -> float:
    """How unevenly the clock of one dimension runs."""
    field = SinkhornAttention([[a]], [[v]], symmetric=True)
    s = evolve(field, Gaussian([0.0], [[1.5]]), TIMES, Adaptive(rtol=1e-11)).map(covariance)[:, 0, 0]
    clock = theory.sinkhorn_clock(s, a) - theory.sinkhorn_clock(1.5, a)
    return float(jnp.abs(clock - 2 * v * np.sign(a) * TIMES).max())


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Symmetric forms under which softmax attention blows up before t = 3."""
    rng = np.random.default_rng(seed + 9)
    softmax, ratios, growths, reached = [], [], [], 0
    for _ in range(size.pick(3, 30)):
        H, G = rng.normal(size=(2, 2, 2))
        # No eigenvalue is below 1/2, so that the time is at most two.
        A, V, cov = H @ H.T + 0.5 * np.eye(2), np.eye(2), G @ G.T + 0.5 * np.eye(2)
        path = evolve(SinkhornAttention(A, V, symmetric=True), Gaussian(np.zeros(2), cov), TIMES)
        norms = jnp.linalg.norm(path.map(covariance), 2, axis=(1, 2))
        bound = theory.sinkhorn_bound(TIMES, jnp.asarray(cov), jnp.asarray(V))
        growths.append((np.asarray(norms), np.asarray(bound)))
        ratios.append(float((norms / bound).max()))
        softmax.append(float(theory.blow_up_time(*map(jnp.asarray, (cov, A, V)))))
        reached += int(path.outcome.ok)
    return CLAIM.judge(
        at_most("blow-up time of softmax attention", 3.0, max(softmax)),
        equal("runs that reach t = 3", len(ratios), reached, 0),
        # At t = 0 both are the same number, by two roads.
        at_most("largest norm over its bound", 1.0, max(ratios), slack=1e-12),
        # The sweeps stop at 1e-12 and the solver works at 1e-11.
        equal("one dimension, growing: clock", 0.0, scalar_error(0.7, 1.1), 1e-8),
        equal("one dimension, contracting: clock", 0.0, scalar_error(0.7, -1.1), 1e-8),
        data=growths,
    )


def draw(growths: list[tuple[np.ndarray, np.ndarray]]) -> Figure:
    """The norms of some covariances over time, below their bounds."""
    curves = [Curve(f"draw {i + 1}", TIMES, norm, bound) for i, (norm, bound) in enumerate(growths[:3])]
    return curves_figure(curves, "time t", "norm of the covariance", log="y", law="bound")

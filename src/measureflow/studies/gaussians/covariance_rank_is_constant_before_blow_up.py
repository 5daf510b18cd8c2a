"""An affine flow moves a covariance by congruence, `Σ(t) = ΦΣ_0Φ^T`, so its rank never changes in finite time.

The covariance equation itself is integrated too, by SciPy: there nothing is built in, and the rank stays all the same.
"""

import jax.numpy as jnp
import numpy as np

from measureflow.fields import L2Attention, LinearAttention, SoftmaxAttention
from measureflow.flows import evolve
from measureflow.measures import Gaussian
from measureflow.plotting import Curve, Figure, draw_allowed, draw_curves, panels
from measureflow.studies.base import SMALL, Claim, Size, Verdict, equal
from measureflow.studies.gaussians.moments import closed_moments
from measureflow.theory import gaussian as theory

CLAIM = Claim(
    "The covariance keeps its rank and stays positive semidefinite at finite times.",
    reference="castin:25",
    where="derived: the covariance moves by a linear flow",
)
TIMES = np.linspace(0.0, 1.0, 6)


def spectrum(mu):
    """The eigenvalues of the covariance over the largest."""
    values = jnp.linalg.eigvalsh(mu.cov)
    return values / values[-1]


def integrated(closure, mean, cov) -> np.ndarray:
    """The relative eigenvalues of the covariance, from its own equation."""
    values = np.linalg.eigvalsh(closed_moments(closure, mean, np.asarray(cov), TIMES)[1])
    return values / values[:, -1:]


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """A start of rank two in four dimensions under three kinds of attention with contracting parameters."""
    rng = np.random.default_rng(seed + 6)
    tall, q, mean = rng.normal(size=(4, 2)), rng.normal(size=(4, 4)) / 2, rng.normal(size=4) / 2
    cov, A, K, V = map(jnp.asarray, (tall @ tall.T, -q.T @ q, -q, np.eye(4)))
    Q, m = jnp.asarray(q), jnp.asarray(mean)
    variants = {
        "softmax": (SoftmaxAttention(A, V), lambda m, S: theory.softmax(m, S, A, V)),
        "L2": (L2Attention(Q, K, V), lambda m, S: theory.l2(m, S, Q, K, V)),
        "linear": (LinearAttention(A, V), lambda m, S: theory.linear(m, S, A, V)),
    }
    checks, spectra = [], {}
    for name, (field, closure) in variants.items():
        ours = np.asarray(evolve(field, Gaussian(m, cov), TIMES).map(spectrum))
        roads = spectra[name] = np.stack([ours, integrated(closure, mean, cov)])
        # Zeros are rounding of numbers of order one, times the growth of errors over unit time.
        checks.append(equal(f"{name}: ranks at 6 times, by two roads", np.full((2, 6), 2), (roads > 1e-9).sum(-1), 0))
        checks.append(equal(f"{name}: negative eigenvalues over the largest", 0.0, min(roads.min(), 0.0), 1e-9))
    return CLAIM.judge(*checks, data=spectra)


def draw(data: dict[str, np.ndarray]) -> Figure:
    """The eigenvalues over time by two roads: two stay, and two are zero up to rounding."""
    figure, axes = panels(len(data))
    for ax, (name, roads) in zip(axes, data.items(), strict=True):
        ours, theirs = np.maximum(np.abs(roads), 1e-18).transpose(0, 2, 1)
        curves = [Curve(f"eigenvalue {k + 1}", TIMES, ours[k], theirs[k]) for k in range(4)]
        draw_curves(ax, curves[::-1], "time t", "eigenvalue over the largest", log="y", law="by SciPy", title=name)
        ax.set_ylim(1e-19, 1e3)
        draw_allowed(ax, 1e-19, 1e-9)
    return figure

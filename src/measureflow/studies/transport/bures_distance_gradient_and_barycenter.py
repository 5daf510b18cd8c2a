"""Covariances have a distance with a closed form and a simple gradient, along which unit steps lead to the mean."""

import jax
import jax.numpy as jnp
import numpy as np
from scipy.linalg import sqrtm

from measureflow.plotting import Curve, Figure, curves_figure
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_most, equal
from measureflow.transport import bures, bures_barycenter, bures_map

CLAIM = Claim(
    "The Bures distance has the stated closed form and gradient, and the unit-step barycenter iteration decreases the "
    "objective and converges linearly.",
    reference="chewi:25",
    where="lectures on Wasserstein barycentres and the Bures geometry",
)
STEPS = 30


def closed_form(a: np.ndarray, b: np.ndarray) -> float:
    """The squared distance `tr(A + B - 2 (A^{1/2} B A^{1/2})^{1/2})`, with the roots of SciPy."""
    root = sqrtm(a)
    return float(np.trace(a + b - 2 * sqrtm(root @ b @ root)).real)


def differences(a: np.ndarray, b: np.ndarray, h: float = 1e-4) -> np.ndarray:
    """The gradient of half the squared distance in `A`, by central differences in symmetric directions."""
    gradient = np.zeros_like(a)
    for i, j in np.ndindex(a.shape):
        e = np.zeros_like(a)
        e[i, j] += 0.5
        e[j, i] += 0.5
        gradient[i, j] = (closed_form(a + h * e, b) - closed_form(a - h * e, b)) / (4 * h)
    return gradient


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Take five random covariances in three dimensions and 30 unit steps from the first."""
    factors = np.random.default_rng(seed).normal(size=(5, 3, 3))
    covs = factors @ factors.mT + np.eye(3) / 2
    a, b = covs[:2]
    maps = jax.jit(lambda a: jnp.stack([bures_map(a, c) for c in covs]).mean(0))
    steps, residuals = [jnp.asarray(a)], []
    for _ in range(STEPS):
        M = maps(steps[-1])
        residuals.append(float(jnp.linalg.norm(M - jnp.eye(3))))
        steps.append(M @ steps[-1] @ M)
    objective = [sum(closed_form(np.asarray(x), c) for c in covs) for x in steps]
    # Linear convergence: over the steps before rounding, the residual shrinks by a factor that stays below one.
    ratios = np.array(residuals[1:9]) / np.array(residuals[:8])
    return CLAIM.judge(
        equal("squared distance against the closed form", closed_form(a, b), bures(a, b) ** 2, 1e-12),  # rounding
        equal("distance of variances 4 and 9", 1.0, bures([[4.0]], [[9.0]]), 1e-12),
        # Central differences with h = 1e-4 leave h^2.
        equal("gradient (I - T)/2", differences(a, b), (np.eye(3) - bures_map(a, b)) / 2, 1e-6),
        at_most(
            "rise of the objective in a step", 0.0, np.diff(objective).max(), slack=1e-12
        ),  # rounding of a sum of order ten
        at_most("ratio of residuals from step to step", 0.9, ratios),
        equal("residual after 30 steps", 0.0, jnp.linalg.norm(maps(steps[-1]) - jnp.eye(3)), 1e-10),
        equal("against the barycenter from another start", steps[-1], bures_barycenter(covs).cov, 1e-10),
        data=np.array(residuals),
    )


def draw(residuals: np.ndarray) -> Figure:
    """How fast unit steps reach the mean of the covariances."""
    return curves_figure([Curve("", np.arange(len(residuals)), residuals)], "step", "residual |M - I|", log="y")

"""For heads with trained values and outputs the Hessian is never positive definite, so the stability theorem is empty.

Without decay its value and output blocks vanish. With decay they are `λ I`, but at the best head `u = (0, 0, W_V, W_O)` has
`H u = (-2λ W_Q, -2λ W_K, 0, 0)`, so that `u^T H u = 0` and some eigenvalue is negative.
"""

import jax.numpy as jnp
import numpy as np

from measureflow.energies import AbstractEnergy
from measureflow.measures import Particles
from measureflow.plotting import Figure, checks_figure
from measureflow.spaces import Euclidean
from measureflow.studies.base import SMALL, Check, Claim, Size, Verdict, at_least, at_most, equal
from measureflow.training import Ridge, fixtures
from measureflow.training.perturbation import matrix, rest_point, splitting

CLAIM = Claim(
    "As published (Theorem 7.5 applied to the trained W_Q,W_K,W_V,W_O): positive definiteness of H is a verifiable condition "
    "for attention heads.",
    reference="heads:26",
    where="theorem 7.5",
)
REASON = (
    "Features are linear in W_V and in W_O, so the Hessian has zero diagonal blocks there. With decay the best head still has "
    "rotations in its kernel and a negative direction: the hypothesis is empty without freezing or anchoring."
)
DECAYS = 0.05, 0.2


def hessian(energy: AbstractEnergy, theta: np.ndarray) -> np.ndarray:
    """The Hessian of the first variation at a head, with the measure frozen there."""
    return np.asarray(matrix(splitting, energy, Particles(Euclidean(24), jnp.asarray(theta)[None])))


def rotations(theta: np.ndarray) -> np.ndarray:
    """The directions in which decay lets a head turn: queries with keys, and values against outputs."""
    J, zero = np.array([[0.0, 1.0], [-1.0, 0.0]]), np.zeros(12)
    query, key, value = (theta[start : start + 6].reshape(3, 2) for start in (0, 6, 12))
    output = theta[18:].reshape(2, 3)
    turns = np.concatenate([query @ J, key @ J]), np.concatenate([(value @ J).ravel(), (-J @ output).ravel()])
    return np.stack([np.append(turns[0].ravel(), zero), np.append(zero, turns[1])])


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Hessians at 20 random heads of F1 without decay and at the best heads for decays 0.05 and 0.2."""
    risk, rng = fixtures.f1(), np.random.default_rng(seed)
    raw = [hessian(risk, theta) for theta in rng.standard_normal((20, 24))]
    best = [np.asarray(rest_point(risk + Ridge(r), jnp.asarray(0.5 * rng.standard_normal(24)))) for r in DECAYS]
    decayed = [hessian(risk + Ridge(r), theta) for r, theta in zip(DECAYS, best, strict=True)]
    pushes = [h[:, 12:] @ theta[12:] for h, theta in zip(decayed, best, strict=True)]
    shown = [np.append(-2 * r * theta[:12], np.zeros(12)) for r, theta in zip(DECAYS, best, strict=True)]
    lowest = np.array([np.linalg.eigvalsh(h)[0] for h in (*raw, *decayed)])
    return CLAIM.judge(
        at_least("largest of the least eigenvalues of H", 1e-6, lowest.max()),
        instead=(
            # Exactly zero, since features are linear there.
            equal("value and output blocks of H", 0.0, max(blocks(h) for h in raw), 0.0),
            equal(
                "the same with decay, minus λI",
                0.0,
                max(blocks(h - r * np.eye(24)) for r, h in zip(DECAYS, decayed, strict=True)),
                1e-14,
            ),
            at_most("least eigenvalues, no decay", np.full(20, 1e-12), lowest[:20]),
            # At the best heads two directions are strictly negative; a head that is zero or at a bifurcation would show none.
            at_most("least eigenvalues at the best heads", [-0.01, -0.01], lowest[20:]),
            equal("H (0, 0, W_V, W_O) + 2λ (W_Q, W_K, 0, 0)", 0.0, np.abs(np.subtract(pushes, shown)).max(), 1e-8),
            at_most(
                "H on rotations at the best heads",
                1e-8,
                max(np.abs(h @ rotations(theta).T).max() for h, theta in zip(decayed, best, strict=True)),
            ),
            at_least("norms of the best heads", [0.5, 0.5], [np.linalg.norm(theta) for theta in best]),
        ),
        reason=REASON,
        data=[
            at_least("least eigenvalue of H, 20 raw heads and 2 best", 1e-6, lowest),
            equal("H (0, 0, W_V, W_O) at the best heads", shown, pushes, 1e-8),
        ],
    )


def blocks(h: np.ndarray) -> float:
    """The largest entry of the value block and the output block."""
    return max(np.abs(h[12:18, 12:18]).max(), np.abs(h[18:, 18:]).max())


def draw(data: list[Check]) -> Figure:
    """The least eigenvalues, which as published should be positive, and the direction in which the form is zero."""
    return checks_figure(data)

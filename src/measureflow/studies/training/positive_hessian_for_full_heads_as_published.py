"""For heads with trained values and outputs the Hessian is never positive definite, so the stability theorem is empty."""

import jax.numpy as jnp
import numpy as np

from measureflow.measures import Particles
from measureflow.spaces import Euclidean
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_least, at_most, equal
from measureflow.training import fixtures
from measureflow.training.perturbation import matrix, splitting

CLAIM = Claim(
    "As published (Theorem 7.5 applied to the trained W_Q,W_K,W_V,W_O): positive definiteness of H is a verifiable condition "
    "for attention heads.",
    reference="heads:26",
    where="theorem 7.5",
)
REASON = (
    "Features are linear in W_V and in W_O, so the Hessian has zero diagonal blocks there, and gauge directions lie in its "
    "kernel at stationary heads: it is never positive definite, and the hypothesis is empty without freezing or anchoring."
)


def stationary_heads(rng: np.random.Generator) -> list[np.ndarray]:
    """The zero head, and heads with random queries and keys but no output, which rest wherever they are."""
    dead = np.concatenate([rng.standard_normal((3, 12)), np.zeros((3, 12))], axis=1)
    return [np.zeros(24), *dead]


def run(size: Size = SMALL) -> Verdict:
    """Hessians at 20 random and four stationary heads of F1."""
    risk, rng = fixtures.f1(), np.random.default_rng(0)
    at_rest = stationary_heads(rng)
    H = [
        np.asarray(matrix(splitting, risk, Particles(Euclidean(24), theta[None])))
        for theta in (*rng.standard_normal((20, 24)), *at_rest)
    ]
    blocks = max(max(np.abs(h[12:18, 12:18]).max(), np.abs(h[18:, 18:]).max()) for h in H)
    turned = [
        np.abs(h @ np.asarray(risk.heads.gauge(jnp.asarray(theta))).T).max()
        for h, theta in zip(H[20:], at_rest, strict=True)
    ]
    lowest = np.array([np.linalg.eigvalsh(h)[0] for h in H])
    return CLAIM.judge(
        at_least("largest of the least eigenvalues of H", 1e-6, lowest.max()),
        instead=(
            # Exactly zero, since features are linear there.
            equal("value and output blocks of H", 0.0, blocks, 0.0),
            at_most("least eigenvalues", np.full(24, 1e-12), lowest),
            at_most("H on gauge directions at rest", 1e-12, max(turned)),
        ),
        reason=REASON,
    )

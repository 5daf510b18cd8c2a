"""With weight decay and features that stay bounded, heads cannot run away."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from measureflow.energies import GradientFlow
from measureflow.flows import Adaptive, evolve
from measureflow.measures import Particles
from measureflow.spaces import Euclidean
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_least, at_most
from measureflow.training import Descent, Ridge, fixtures

CLAIM = Claim(
    "With ridge λ and features bounded in the query-key part the dissipative condition holds and second moments stay "
    "bounded.",
    reference="heads:26",
    where="derived: remark 6.7 with weight decay",
)


def in_ball(rng: np.random.Generator, count: int, radius: float) -> jnp.ndarray:
    """Heads with uniform norms up to a radius: small ones matter as much as large ones."""
    x = rng.standard_normal((count, 4))
    return jnp.asarray(x / np.linalg.norm(x, axis=1, keepdims=True) * radius * rng.uniform(size=(count, 1)))


def run(size: Size = SMALL) -> Verdict:
    """Score heads of F2 with norms up to 50 and ridges 0.3 and 0.1."""
    rng, risk = np.random.default_rng(0), fixtures.f2()
    mu = Particles(Euclidean(4), in_ball(rng, 8, 50.0))
    slope = eqx.filter_jit(lambda x: -GradientFlow(risk)(0.0, x, mu))
    # One per cent for a supremum that is taken over samples.
    C = 1.01 * float(jnp.linalg.norm(slope(in_ball(rng, 2000, 50.0)), axis=1).max())
    margins, moments = [], []
    for ridge in (0.3, 0.1):
        x = in_ball(rng, 500, 50.0)
        radial = np.asarray((x * (slope(x) + ridge * x)).sum(1))
        margins.append((radial - ridge / 2 * np.sum(np.asarray(x) ** 2, 1) + C**2 / (2 * ridge)).min())
        path = evolve(Descent(risk + Ridge(ridge)), mu, np.linspace(0.0, 10.0, 21), Adaptive(1e-6, 1e-8))
        second = np.asarray(path.map(lambda m: m.expect(lambda t: jnp.sum(t**2))))
        moments.append(second.max() / max(second[0], (C / ridge) ** 2))
    return CLAIM.judge(
        at_least("<θ,∇Ψ_λ> - λ|θ|²/2 + C²/(2λ), λ = 0.3, 0.1", [0.0, 0.0], margins),
        # By the condition the second moment stays below its start or (C/λ)², whichever is larger.
        at_most("largest second moment over its bound", [1.0, 1.0], moments),
    )

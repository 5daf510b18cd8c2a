"""Heads rest exactly when the gradient of `Psi` vanishes on them, and `Psi` itself is then known on the support."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from measureflow.energies import GradientFlow
from measureflow.flows import RK4, evolve
from measureflow.measures import Particles
from measureflow.spaces import Euclidean
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_least, at_most, equal
from measureflow.training import Descent, Ridge, dissipation, fixtures
from measureflow.training.perturbation import rest_point

CLAIM = Claim(
    "Theorem 6.3: a measure is stationary exactly when ∇Ψ vanishes on its support; being linear in W_O and W_V, Ψ is then "
    "zero on the support of an interior stationary measure (sharpens Remark 6.5).",
    reference="heads:26",
    where="theorem 6.3, remark 6.5",
)
DECAY = 0.05


def motion(energy, mu: Particles, end: float) -> float:
    """How far the fastest head moves up to a time."""
    path = evolve(Descent(energy), mu, [0.0, end], RK4(0.05))
    return float(jnp.abs(path.final.points - mu.points).max())


def euler_defect(mu: Particles) -> float:
    """How far `<W_O, dPsi> = <W_V, dPsi> = Psi` is from holding at the heads of a measure."""
    risk = fixtures.f1()
    psi, slope = eqx.filter_jit(lambda m: (risk.variation(m, m.points), -GradientFlow(risk)(0.0, m.points, m)))(mu)
    parts = mu.points * slope
    return float(jnp.abs(jnp.stack([parts[:, 12:18].sum(1), parts[:, 18:].sum(1)]) - psi[None]).max())


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """The optimum of F2, the zero head and a ridge optimum of F1, and random measures."""
    f1, f2 = fixtures.f1(), fixtures.f2() + Ridge(0.3)
    best = Particles(Euclidean(4), rest_point(f2, jnp.zeros(4))[None])
    zero = Particles(Euclidean(24), jnp.zeros((1, 24)))
    rng = np.random.default_rng(seed)
    moving = [Particles(Euclidean(24), rng.standard_normal((4, 24))) for _ in range(3)]
    ridged = f1 + Ridge(DECAY)
    head = rest_point(ridged, jnp.asarray(0.5 * rng.standard_normal(24)))
    psi = float(f1.variation(Particles(Euclidean(24), head[None]), head[None])[0])
    squares = [float(jnp.sum(head[part] ** 2)) for part in (slice(12, 18), slice(18, 24))]
    return CLAIM.judge(
        # Rounding over a long run of a stable rest point; the gradient of a zero head is exactly zero.
        at_most("dissipation at rest", 1e-10, [float(dissipation(f2, best)), float(dissipation(f1, zero))]),
        at_most("motion up to t = 10 at rest", 1e-10, [motion(f2, best, 10.0), motion(f1, zero, 10.0)]),
        at_least("dissipation of random measures", 1e-3, [float(dissipation(f1, mu)) for mu in moving]),
        at_least("motion of random measures up to t = 0.1", 1e-3, [motion(f1, mu, 0.1) for mu in moving]),
        equal("<W_O,∂Ψ> and <W_V,∂Ψ> minus Ψ", np.zeros(3), [euler_defect(mu) for mu in moving], 1e-10),
        # A numerical optimum.
        equal("Ψ at the ridge optimum: -λ|W_V|², -λ|W_O|²", [-DECAY * s for s in squares], [psi, psi], 1e-5),
        at_least("the ridge optimum is not trivial", 0.1, squares),
    )

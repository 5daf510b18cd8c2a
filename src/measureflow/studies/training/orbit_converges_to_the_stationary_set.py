"""A confined orbit settles: its risk converges, its dissipation vanishes, and late snapshots are close to each other.

The integral of the dissipation is what the risk falls, far below the bound of the theorem, which is the risk at the start. Here
the limit is one head with a positive Hessian, so snapshots approach each other at the rate of its least eigenvalue.
"""

import equinox as eqx
import numpy as np
from scipy.integrate import simpson

from measureflow.flows import RK4, evolve
from measureflow.measures import Particles
from measureflow.plotting import Curve, Figure, draw_curves, draw_paths, panels
from measureflow.spaces import Euclidean
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_most, equal
from measureflow.training import Descent, Ridge, dissipation, fixtures
from measureflow.training.convergence import confinement

CLAIM = Claim(
    "Theorem 6.6 (1)-(4) and Proposition 6.9: for a confined orbit the risk converges, D tends to 0 with ∫D dτ <= R(μ_0), "
    "and snapshots are covered by finitely many W_1 balls.",
    reference="heads:26",
    where="theorem 6.6 (1)-(4), proposition 6.9",
)
LIMIT = 4.913522914994
HEAD = -0.339828, 0.070092, -0.024014, -0.432983
LEAST = 0.232870
COUNT = 8
EARLY = 120
"""The frames of the first six units of time, a step of the integrator apart; later ones are ten steps apart."""


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Eight random heads of F2 with ridge 0.3 and weights of their own, up to τ = 120, that is t = 60."""
    energy, rng = fixtures.f2() + Ridge(0.3), np.random.default_rng(seed)
    mu = Particles(Euclidean(4), rng.standard_normal((COUNT, 4)), rng.uniform(0.5, 1.5, COUNT))
    times = np.concatenate([np.linspace(0, 6, EARLY + 1), np.linspace(6, 60, 109)[1:]])
    path = evolve(Descent(energy), mu, times, RK4(0.05))
    risk, lost = (np.asarray(eqx.filter_jit(path.map)(f)) for f in (energy, lambda m: dissipation(energy, m)))
    points, weights = np.asarray(path.measures.points), np.asarray(mu.weights)
    # The only plan to a single head; between late snapshots the plan that keeps labels costs no less than W_1.
    far = np.linalg.norm(points - np.array(HEAD), axis=2) @ weights
    left = np.linalg.norm(points - points[-1], axis=2) @ weights
    late = (times >= 30) & (times <= 50)
    fallen = [simpson(2 * lost[part], x=times[part]) for part in (slice(EARLY + 1), slice(EARLY, None))]
    norms = np.asarray(confinement(path))
    return CLAIM.judge(
        # The gap after τ = 120 is far below rounding.
        equal("limit of the risk", LIMIT, risk[-1], 1e-8),
        at_most("last dissipation", 1e-12, lost[-1]),
        at_most("increase of the risk between frames", 1e-13, np.diff(risk).max()),
        # Simpson's rule: the fourth power of the spacing, .05 and .5, the latter when D has fallen by e^-5.
        equal("∫ D dτ against the fall of the risk", risk[0] - LIMIT, sum(fallen), 1e-5),
        at_most("∫ D dτ over the risk at the start", 1.0, sum(fallen) / risk[0]),
        # Six printed digits in each of four coordinates.
        at_most("W_1 of the last snapshot to the stationary head", 1e-6, far[-1]),
        # The second eigenvalue is .2805: its share decays by e^{-.095 t}, which leaves less than 1% of the rate at t = 40.
        equal(
            "rate at which snapshots approach the last",
            2 * LEAST,
            -np.polyfit(times[late], np.log(left[late]), 1)[0],
            0.02 * LEAST,
        ),
        # Heads beyond |grad Psi| / λ, which is below 1.5, move in; the largest of eight is beyond but once in 10 000 draws.
        at_most("largest norm of a head over its start", 1 + 1e-12, norms.max() / norms[0]),
        data=(times, risk, lost, points),
    )


def draw(found: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]) -> Figure:
    """Risk and dissipation over time, and the ways of the heads to where they meet."""
    times, risk, lost, points = found
    figure, (left, middle, right) = panels(3, width=4.4)
    draw_curves(left, [Curve("", times, risk)], "time t", "risk with ridge")
    draw_curves(middle, [Curve("", times, lost)], "time t", "dissipation D", log="y")
    draw_paths(right, points[..., :2], names=("θ₁", "θ₂"))
    return figure

"""A confined orbit settles: its risk converges, its dissipation vanishes, and late snapshots are close to each other."""

import equinox as eqx
import numpy as np
from scipy.integrate import simpson
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from measureflow.flows import RK4, evolve
from measureflow.measures import Particles
from measureflow.plotting import Curve, Figure, draw_curves, draw_paths, panels
from measureflow.spaces import Euclidean
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_most, equal
from measureflow.training import Descent, Ridge, confinement, dissipation, fixtures

CLAIM = Claim(
    "Theorem 6.6 (1)-(4) and Proposition 6.9: for a confined orbit the risk converges, D tends to 0 with ∫D dτ <= R(μ_0), "
    "and snapshots are covered by finitely many W_1 balls.",
    reference="heads:26",
    where="theorem 6.6 (1)-(4), proposition 6.9",
)
LIMIT = 4.913522914994
COUNT = 8


def transport(xs: np.ndarray, ys: np.ndarray) -> float:
    """The distance W_1 of two clouds of equally many heads."""
    costs = cdist(xs, ys)
    return float(costs[linear_sum_assignment(costs)].mean())


def run(size: Size = SMALL) -> Verdict:
    """Eight random heads of F2 with ridge 0.3 up to τ = 120, that is t = 60."""
    energy = fixtures.f2() + Ridge(0.3)
    mu = Particles(Euclidean(4), np.random.default_rng(0).standard_normal((COUNT, 4)))
    times = np.concatenate([np.linspace(0, 6, 121), np.linspace(6, 60, 109)[1:]])
    path = evolve(Descent(energy), mu, times, RK4(0.05))
    risk, lost = (np.asarray(eqx.filter_jit(path.map)(f)) for f in (energy, lambda m: dissipation(energy, m)))
    points = np.asarray(path.measures.points)
    late = [transport(points[i], points[-1]) for i in (-81, -41, -21, -1)]
    return CLAIM.judge(
        # The gap after τ = 120 is far below rounding.
        equal("limit of the risk", LIMIT, risk[-1], 1e-8),
        at_most("last dissipation", 1e-12, lost[-1]),
        at_most("increase of the risk between frames", 1e-13, np.diff(risk).max()),
        # An inequality of the theorem; by the identity the integral is the fall of the risk.
        at_most("∫ D dτ", risk[0], simpson(2 * lost, x=times)),
        # Snapshots 40, 20, 10 and 0 before the end: distances fall to nothing.
        at_most("W_1 to the last snapshot", [1e-3, 1e-6, 1e-9, 0.0], late),
        at_most("largest norm of a head", float(confinement(path)[0]) + 1e-12, float(confinement(path).max())),
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

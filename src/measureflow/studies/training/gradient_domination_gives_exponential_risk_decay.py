"""Where the dissipation dominates the gap, the gap decays exponentially in training time.

The constant is not taken from the run that it bounds. The risk is convex in the measure, so if `Psi(.; mu)` has curvature at
least `m` in a ball around the best head, `gap <= ∫ (<grad Psi, x - x*> - m/2 |x - x*|²) dmu <= D / 2m` for measures in the
ball: `c = 2m`.
"""

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from measureflow.flows import RK4, evolve
from measureflow.measures import Particles
from measureflow.plotting import Curve, Figure, draw_curves, panels
from measureflow.spaces import Euclidean
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_least, at_most, equal
from measureflow.theory import heads
from measureflow.training import Constant, Descent, InverseTime, Ridge, dissipation, fixtures
from measureflow.training.convergence import kl_exponent
from measureflow.training.perturbation import rest_point

CLAIM = Claim(
    "Theorem 6.10 and Remarks 6.11-6.12 for α=1/2, and the PL statement of section 8: the gap decays like exp(-2c∫ξ).",
    reference="heads:26",
    where="theorem 6.10, remarks 6.11 and 6.12, section 8",
)
RADIUS = 0.05
CURVATURE = 0.226
"""A lower bound for `Psi` at heads within the radius of the best one: it is .2329 there, and .2265 is the least in the ball."""


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Eight heads of F2 with ridge 0.3 and weights of their own, under a constant and a falling rate."""
    energy, rng = fixtures.f2() + Ridge(0.3), np.random.default_rng(seed)
    rest = rest_point(energy, jnp.zeros(4))
    least = float(energy(Particles(Euclidean(4), rest[None])))
    mu = Particles(Euclidean(4), rng.standard_normal((8, 4)), rng.uniform(0.5, 1.5, 8))
    c, found, exponents, ratios, worst, slopes = 2 * CURVATURE, {}, [], [], [], []
    for profile, times in ((Constant(), np.linspace(0, 30, 301)), (InverseTime(10.0), np.linspace(0, 150, 301))):
        path = evolve(Descent(energy, profile), mu, times, RK4(0.1))
        risk, lost = (
            np.asarray(part) for part in eqx.filter_jit(path.map)(lambda m: (energy(m), dissipation(energy, m)))
        )
        gap = risk - least
        near = np.linalg.norm(np.asarray(path.measures.points) - np.asarray(rest), axis=2).max(1) < RADIUS
        # The tail in the ball, while the difference of two risks still has four digits.
        tail = np.flatnonzero(near & (gap > 1e-11))
        elapsed = np.asarray(profile.elapsed(times))[tail]
        bound = np.asarray(heads.gap_bound(gap[tail[0]], c, 0.5, elapsed - elapsed[0]))
        found[type(profile).__name__] = elapsed, gap[tail], bound
        exponents.append(kl_exponent(gap[tail], lost[tail], windows=2).value)
        ratios.append(lost[tail] / gap[tail])
        worst.append((gap[tail] / bound).max())
        slopes.append(-np.polyfit(elapsed, np.log(gap[tail]), 1)[0] / (2 * c))
    return CLAIM.judge(
        # A fit over six decades of the gap.
        equal("fitted α, constant and falling rate", [0.5, 0.5], exponents, 0.03),
        at_least("least D/gap within .05 of the best head, over c", [1.0, 1.0], [ratio.min() / c for ratio in ratios]),
        # Rounding of the first frame, where the bound is an equality.
        at_most("gap over its bound", np.full(2, 1 + 1e-9), worst),
        # The bound is nearly sharp: centred modes decay at 4 * .2329, and faster ones still have a share of the first frames.
        equal("decay rate over 2c", [1.05, 1.05], slopes, 0.05),
        data=dict(zip(("constant rate", "falling rate"), found.values(), strict=True)),
    )


def draw(found: dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]]) -> Figure:
    """The gap of the risk below its bound, against the time that the rate has let pass."""
    figure, axes = panels(2)
    for ax, (name, (elapsed, gap, bound)) in zip(axes, found.items(), strict=True):
        draw_curves(
            ax, [Curve("gap", elapsed, gap, bound)], "∫ξ dt", "risk above the least", log="y", law="bound", title=name
        )
    return figure

"""Where the dissipation dominates the gap, the gap decays exponentially in training time."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from measureflow.flows import RK4, evolve
from measureflow.measures import Particles
from measureflow.plotting import Curve, Figure, draw_curves, panels
from measureflow.spaces import Euclidean
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_least, at_most, equal
from measureflow.theory import heads
from measureflow.training import Constant, Descent, InverseTime, Ridge, dissipation, fixtures, kl_exponent, rest_point

CLAIM = Claim(
    "Theorem 6.10 and Remarks 6.11-6.12 for α=1/2, and the PL statement of section 8: the gap decays like exp(-2c∫ξ).",
    reference="heads:26",
    where="theorem 6.10, remarks 6.11 and 6.12, section 8",
)


def run(size: Size = SMALL) -> Verdict:
    """Eight heads of F2 with ridge 0.3 under a constant and a falling rate."""
    energy = fixtures.f2() + Ridge(0.3)
    best = Particles(Euclidean(4), rest_point(energy, jnp.zeros(4))[None])
    mu = Particles(Euclidean(4), np.random.default_rng(0).standard_normal((8, 4)))
    exponents, worst, slopes, found = [], [], [], {}
    for profile, times in ((Constant(), np.linspace(0, 20, 101)), (InverseTime(2.0), np.linspace(0, 100, 401))):
        path = evolve(Descent(energy, profile), mu, times, RK4(0.05))
        gap = np.asarray(eqx.filter_jit(path.map)(energy)) - float(energy(best))
        lost = np.asarray(path.map(lambda m: dissipation(energy, m)))
        # The tail where the gap is small and still well above rounding.
        tail = np.flatnonzero((gap < 1e-2) & (gap > 1e-9))
        c = (lost[tail] / gap[tail]).min()
        elapsed = np.asarray(profile.elapsed(times))
        bound = np.asarray(heads.gap_bound(gap[tail[0]], c, 0.5, elapsed[tail] - elapsed[tail[0]]))
        found[type(profile).__name__] = elapsed[tail], gap[tail], bound
        exponents.append(kl_exponent(gap[tail], lost[tail], windows=2).value)
        worst.append((gap[tail] / bound).max())
        slopes.append(-np.polyfit(elapsed[tail], np.log(gap[tail]), 1)[0] / (2 * c))
    return CLAIM.judge(
        # A fit over seven decades of the gap.
        equal("fitted α, constant and falling rate", [0.5, 0.5], exponents, 0.03),
        # Rounding of the first frame, where the bound is an equality.
        at_most("gap over its bound", np.full(2, 1 + 1e-9), worst),
        at_least("decay rate over 2c", [1.0, 1.0], slopes),
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

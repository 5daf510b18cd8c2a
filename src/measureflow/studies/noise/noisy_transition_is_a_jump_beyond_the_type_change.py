"""Whether order melts by degrees or at once: the Fokker-Planck equation from an ordered and from a disordered start.

Below the coupling at which the uniform state loses its stability, a nearly uniform density forgets. Where the transition is
continuous an ordered density forgets too; where it is a jump, order survives there, and the two starts part for good.
"""

import numpy as np

from measureflow.diagnostics import order_parameter
from measureflow.fields import UnnormalisedAttention
from measureflow.flows import Adaptive, Langevin, evolve
from measureflow.measures import CircleDensity
from measureflow.plotting import Curve, Figure, draw_allowed, draw_curves, panels
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_least, at_most, equal
from measureflow.theory import circle, noise

CLAIM = Claim(
    "Noisy tokens on the circle order continuously for β below 2.447 and by a jump above, where an ordered state survives "
    "below the threshold at which the uniform state loses its stability.",
    reference="noisy:26",
    where="theorem on the change of type; the branch is derived",
)
MODES, TEMPERATURE = 24, 0.5
SHARES = np.linspace(0.0, 1.0, 51)
BELOW, ABOVE = 0.95, 1.03
"""Couplings over the threshold."""


def orders_over_time(beta: float, share: float, concentration: float, time: float) -> np.ndarray:
    """The order up to a time, from a von Mises density, at a share of the threshold; not a number if it does not get there."""
    mu = CircleDensity.from_function(lambda t: circle.von_mises(t, concentration), MODES)
    field = share * noise.threshold(beta) * UnnormalisedAttention.isotropic(2, beta)
    path = evolve(field, mu, time * SHARES, Adaptive(1e-6, most_steps=10**6), noise=Langevin(TEMPERATURE))
    return np.where(path.outcome.ok, np.asarray(path.map(order_parameter)), np.nan)


def run(size: Size = SMALL) -> Verdict:
    """Follow the density from order and from disorder, on both sides of the threshold and of the type change."""
    # Below the threshold disturbances decay at the rate 0.05 T = 0.025 in the end, and e^{-0.025 * 250} = 0.002.
    time = size.pick(250.0, 1000.0)
    continuous, jump = 1.0, 5.0
    ordered, faint = 3.0, 0.02
    paths = {(beta, c): orders_over_time(beta, BELOW, c, time) for beta in (continuous, jump) for c in (ordered, faint)}
    orders = {start: path[-1] for start, path in paths.items()}
    # Above the threshold the continuous branch has r² = growth / -cubic to leading order in the distance.
    coupling = noise.threshold(continuous) * ABOVE
    amplitude = np.sqrt(-noise.growth(1, TEMPERATURE, continuous, coupling) / noise.cubic(continuous, coupling))
    above = orders_over_time(continuous, ABOVE, ordered, time)
    return CLAIM.judge(
        at_most("order left below the threshold, beta = 1, from disorder", 0.01, orders[continuous, faint]),
        at_most("order left below the threshold, beta = 1, from order", 0.01, orders[continuous, ordered]),
        at_most("order left below the threshold, beta = 5, from disorder", 0.01, orders[jump, faint]),
        at_least("order left below the threshold, beta = 5, from order", 0.5, orders[jump, ordered]),
        # The next order of the amplitude equation is smaller by the square of the amplitude, with a factor near one.
        equal(
            "order above the threshold, beta = 1",
            amplitude,
            above[-1],
            0.3 * amplitude,
        ),
        data=(time, paths, above, float(amplitude)),
    )


def draw(data: tuple[float, dict[tuple[float, float], np.ndarray], np.ndarray, float]) -> Figure:
    """The order over time from both starts: below the threshold on both sides of the type change, and above it."""
    time, paths, above, amplitude = data
    figure, axes = panels(3, width=4.6)
    t = time * SHARES
    for ax, beta, kept in zip(axes, (1.0, 5.0), ((0.0, 0.01), (0.5, 1.0)), strict=False):
        curves = [Curve(f"from {start}", t, paths[beta, c]) for start, c in (("order", 3.0), ("disorder", 0.02))]
        draw_curves(ax, curves, "time t", "order", title=f"below the threshold, β = {beta:g}")
        ax.set_ylim(-0.02, 1.0)
        draw_allowed(ax, *kept)
    grown = Curve("from near order", t, above, amplitude, (0.7 * amplitude, 1.3 * amplitude))
    draw_curves(axes[2], [grown], "time t", "order", law="amplitude equation", title="above the threshold, β = 1")
    axes[2].set_ylim(-0.02, 1.0)
    return figure

"""Whether order melts by degrees or at once: the Fokker-Planck equation from an ordered and from a disordered start.

Below the coupling at which the uniform state loses its stability, a nearly uniform density forgets. Where the transition is
continuous an ordered density forgets too; where it is a jump, order survives there, and the two starts part for good.
"""

import jax.numpy as jnp
import numpy as np

from measureflow.diagnostics import order_parameter
from measureflow.fields import UnnormalisedAttention
from measureflow.flows import Adaptive, Langevin, evolve
from measureflow.measures import CircleDensity
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_least, at_most, equal
from measureflow.theory import circle, noise

CLAIM = Claim(
    "Noisy tokens on the circle order continuously for β below 2.447 and by a jump above, where an ordered state survives "
    "below the threshold at which the uniform state loses its stability.",
    reference="noisy:26",
    where="theorem on the change of type; the branch is derived",
)
MODES, TEMPERATURE = 24, 0.5
BELOW, ABOVE = 0.95, 1.03
"""Couplings over the threshold."""


def final_order(beta: float, share: float, concentration: float, time: float) -> float:
    """The order left after a time, from a von Mises density, at a share of the threshold."""
    mu = CircleDensity.from_function(lambda t: circle.von_mises(t, concentration), MODES)
    field = share * noise.threshold(beta) * UnnormalisedAttention.isotropic(2, beta)
    path = evolve(field, mu, [0.0, time], Adaptive(1e-6, most_steps=10**6), noise=Langevin(TEMPERATURE))
    return float(jnp.where(path.outcome.ok, order_parameter(path.final), jnp.nan))


def run(size: Size = SMALL) -> Verdict:
    """Follow the density from order and from disorder, on both sides of the threshold and of the type change."""
    # Below the threshold disturbances decay at the rate 0.05 T = 0.025 in the end, and e^{-0.025 * 250} = 0.002.
    time = size.pick(250.0, 1000.0)
    continuous, jump = 1.0, 5.0
    ordered, faint = 3.0, 0.02
    orders = {(beta, c): final_order(beta, BELOW, c, time) for beta in (continuous, jump) for c in (ordered, faint)}
    # Above the threshold the continuous branch has r² = growth / -cubic to leading order in the distance.
    coupling = noise.threshold(continuous) * ABOVE
    amplitude = np.sqrt(-noise.growth(1, TEMPERATURE, continuous, coupling) / noise.cubic(continuous, coupling))
    return CLAIM.judge(
        at_most("order left below the threshold, beta = 1, from disorder", 0.01, orders[continuous, faint]),
        at_most("order left below the threshold, beta = 1, from order", 0.01, orders[continuous, ordered]),
        at_most("order left below the threshold, beta = 5, from disorder", 0.01, orders[jump, faint]),
        at_least("order left below the threshold, beta = 5, from order", 0.5, orders[jump, ordered]),
        # The next order of the amplitude equation is smaller by the square of the amplitude, with a factor near one.
        equal(
            "order above the threshold, beta = 1",
            amplitude,
            final_order(continuous, ABOVE, ordered, time),
            0.3 * amplitude,
        ),
    )

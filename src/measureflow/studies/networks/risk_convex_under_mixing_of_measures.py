"""The squared loss of a two-layer network is a convex parabola along mixtures of two measures of neurons.

The network is linear in the measure, `f = (1 - s) f_1 + s f_2`, so the second derivative in `s` is `2 sum_i (f_1 - f_2)^2(x_i)`.
"""

import jax.numpy as jnp
import numpy as np

from measureflow.measures import Particles
from measureflow.plotting import Curve, Figure, curves_figure
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_least, equal
from measureflow.studies.networks.data import drawn, network, second_differences

CLAIM = Claim(
    "The lifted loss is convex along linear mixtures of two parameter measures.",
    reference="chizat:18",
    where="deck 000, slide on the lift to measures",
)

SHARES = np.linspace(0.0, 1.0, 11)


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Eleven mixtures of two measures of 20 neurons on 5 data."""
    rng = np.random.default_rng(seed)
    risk = drawn(rng, 5)
    one, other = (network(rng, risk, 20) for _ in range(2))
    points = jnp.concatenate([one.points, other.points])
    mixed = [Particles(one.space, points, np.repeat([1 - s, s], 20)) for s in SHARES[1:-1]]
    values = jnp.array([risk(one), *(risk(mu) for mu in mixed), risk(other)])
    bends = np.asarray(second_differences(values)) / (SHARES[1] - SHARES[0]) ** 2
    bend = 2 * float(jnp.sum((risk.logits(one) - risk.logits(other)) ** 2))
    return CLAIM.judge(
        # Exact but for rounding, which a second difference over steps of a tenth enlarges a hundredfold.
        equal("second derivative over 2 Σ (f₁ - f₂)²", np.ones(9), bends / bend, 1e-10),
        at_least("second derivative", 0.0, bends),
        data=(np.asarray(values), bend),
    )


def draw(data: tuple) -> Figure:
    """The loss along the mixture, and the parabola through its ends."""
    values, bend = data
    law = values[0] + SHARES * (values[-1] - values[0]) - bend / 2 * SHARES * (1 - SHARES)
    return curves_figure([Curve("loss", SHARES, values, law)], "share of the second measure", "loss", law="parabola")

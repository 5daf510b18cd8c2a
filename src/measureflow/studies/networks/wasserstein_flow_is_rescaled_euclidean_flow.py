"""The Wasserstein flow of a finite network is the Euclidean gradient flow of its weights, on a clock that runs m times as fast.

`m grad_j L = grad (dL/dmu)(omega_j)`, so `theta_E(m t) = theta_W(t)`; the measure stays empirical.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from measureflow.annotations import Number
from measureflow.energies import AbstractEnergy, GradientFlow
from measureflow.fields import AbstractField
from measureflow.flows import RK4, evolve
from measureflow.measures import AbstractMeasure, Particles
from measureflow.plotting import Curve, Figure, curves_figure
from measureflow.studies.base import SMALL, Claim, Size, Verdict, equal
from measureflow.studies.networks.data import drawn, network

CLAIM = Claim(
    "Started at an empirical measure, the Wasserstein flow of the loss stays empirical and is Euclidean gradient flow with time "
    "divided by the width.",
    reference="chizat:18",
    where="deck 000, proposition on the correspondence of flows",
)

WIDTH, TIMES = 8, np.linspace(0.0, 1.0, 11)


class Weights(AbstractField):
    """Gradient descent of the weights of a network, all of them at once, as one would write it without measures."""

    energy: AbstractEnergy

    def __call__(self, t: Number, xs: Float[Array, "m d"], mu: AbstractMeasure) -> Float[Array, "m d"]:
        """Minus the gradient of the loss in every weight."""
        assert isinstance(mu, Particles)
        return -jax.grad(lambda points: self.energy(Particles(mu.space, points)))(mu.points)


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Both flows of 8 neurons on 6 data."""
    rng = np.random.default_rng(seed)
    risk = drawn(rng, 6)
    mu = network(rng, risk, WIDTH)
    slopes = jnp.stack([GradientFlow(risk)(0.0, mu.points, mu), WIDTH * Weights(risk)(0.0, mu.points, mu)])
    step = size.pick(1e-3, 2.5e-4)
    measure = evolve(GradientFlow(risk), mu, TIMES, RK4(step))
    weights = evolve(Weights(risk), mu, WIDTH * TIMES, RK4(WIDTH * step))
    apart = jnp.abs(measure.points - weights.points).max()
    return CLAIM.judge(
        equal("m ∇L over ∇ δL/δμ, largest difference", 0.0, float(jnp.abs(slopes[0] - slopes[1]).max()), 1e-10),
        # The same steps on two clocks: what differs is rounding, which a stiff start enlarges.
        equal("θ_E(mt) - θ_W(t)", 0.0, float(apart), 1e-8),
        data=(np.asarray(measure.map(risk)), np.asarray(weights.map(risk))),
    )


def draw(data: tuple) -> Figure:
    """The loss along both flows, each on the clock of the measure."""
    measure, weights = data
    curves = [Curve("weights, at time m t", TIMES, weights, measure)]
    return curves_figure(curves, "time t of the measure", "loss", log="y", law="flow of the measure")

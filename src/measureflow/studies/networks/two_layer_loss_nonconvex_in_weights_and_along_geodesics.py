"""The loss of a two-layer network is convex neither in its weights nor along geodesics of its measure, only along mixtures.

One datum and the neuron `a relu(w)`: the loss `(1 - a w)^2` is zero at (2, 1/2) and at (1/2, 2). The geodesic between these
two Dirac measures passes (5/4, 5/4), where the loss is `(1 - 25/16)^2`; their mixtures all have loss zero.
"""

import jax
import jax.numpy as jnp
import numpy as np

from measureflow.measures import Particles
from measureflow.plotting import Curve, Figure, draw_curves, panels
from measureflow.studies.base import SMALL, Claim, Size, Verdict, equal
from measureflow.training import NeuronRisk, Neurons

CLAIM = Claim(
    "The squared loss of a two-layer network is non-convex in its weights, and its lift to measures is not convex along "
    "optimal-transport geodesics.",
    reference="chizat:18",
    where="deck 000, slides on the loss in the weights and on its lift; numbers are derived",
)

NEURONS = Neurons(1)
RISK = NeuronRisk([[1.0]], [1.0], NEURONS)
ENDS = np.array([[2.0, 0.5], [0.5, 2.0]])
SHARES = np.linspace(0.0, 1.0, 21)


def loss(points: jax.Array) -> jax.Array:
    """The loss of neurons of one weight."""
    return RISK(Particles(NEURONS.space, points))


def run(size: Size = SMALL) -> Verdict:
    """The Hessian at a small weight, and the loss on both ways between two optima."""
    s = 0.1
    least = float(jnp.linalg.eigvalsh(jax.hessian(lambda theta: loss(theta[None]))(jnp.array([s, s])))[0])
    way = (1 - SHARES)[:, None] * ENDS[0] + SHARES[:, None] * ENDS[1]
    geodesic = np.array([loss(jnp.asarray(point[None])) for point in way])
    mixture = [Particles(NEURONS.space, ENDS, [1 - q, q]) for q in SHARES[1:-1]]
    mixed = np.array([0.0, *(float(RISK(mu)) for mu in mixture), 0.0])
    return CLAIM.judge(
        equal("least eigenvalue of the Hessian at a = w = 0.1", 6 * s**2 - 2, least, 1e-8),
        equal("loss of both ends", [0.0, 0.0], geodesic[[0, -1]], 1e-14),
        equal("loss half way along the geodesic", 0.31640625, float(geodesic[10]), 1e-14),
        equal("largest loss of a mixture", 0.0, float(np.abs(mixed).max()), 1e-14),
        data=(geodesic, mixed),
    )


def draw(data: tuple) -> Figure:
    """The loss over the plane of one neuron along a line, and along both ways between the optima."""
    geodesic, mixed = data
    figure, (left, right) = panels(2)
    s = np.linspace(-0.5, 1.5, 200)
    draw_curves(
        left, [Curve("a = w = s", s, (1 - s * np.maximum(s, 0)) ** 2)], "s = a = w", "loss", title="in the weights"
    )
    curves = [Curve("geodesic", SHARES, geodesic), Curve("mixture", SHARES, mixed)]
    draw_curves(right, curves, "share of the way", "loss", title="between two optima")
    return figure

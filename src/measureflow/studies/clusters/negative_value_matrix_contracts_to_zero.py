"""Tokens that move away from what they attend to meet at the origin, slowly.

With `V = -I` and scores `<x, y>` tokens descend `sum_ij e^{<x_i, x_j>}`. Once they are small, `x' = -(mean + Cx)`: the mean
is gone at once and the covariance `C' = -2 C^2` leaves norms of size `1 / sqrt(2t)`.
"""

import jax.numpy as jnp
import numpy as np
from jax.nn import softmax

from measureflow.fields import SoftmaxAttention
from measureflow.flows import evolve
from measureflow.measures import Particles
from measureflow.plotting import Curve, Figure, curves_figure
from measureflow.spaces import Euclidean
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_most, equal

CLAIM = Claim(
    "For V=-I and Q^TK=I all tokens tend to the origin and attention becomes uniform.",
    reference="geshkovski:23",
    where="theorem for minus the identity as value",
)

TIMES = np.concatenate([np.linspace(0.0, 50.0, 251), [500.0, 5000.0]])


def sizes_and_weights(mu: Particles):
    """The norms of the tokens and their attention matrix."""
    return jnp.linalg.norm(mu.points, axis=1), softmax(mu.points @ mu.points.T, axis=1)


def run(size: Size = SMALL) -> Verdict:
    """Follow 10 random starts of 10 tokens in the plane up to time 50, and on to 5000 for the law of the decay."""
    attention = SoftmaxAttention(np.eye(2), -np.eye(2))
    paths = [evolve(attention, Particles.iid(Euclidean(2), 10, key=seed), TIMES) for seed in range(10)]
    norms, weights = (np.stack(parts) for parts in zip(*(path.map(sizes_and_weights) for path in paths), strict=True))
    largest = norms.max(2)
    slopes = np.log(largest[:, -1] / largest[:, -2]) / np.log(10.0)
    return CLAIM.judge(
        # No slack. It is the largest norm that falls from these starts; a token near the origin may first be pushed out by
        # the mean, and so may the largest of a cloud that is not centred, such as one token at .11 and nine at -.1.
        at_most("growth of the largest norm between frames, 10 starts", 0.0, np.diff(largest, axis=1).max()),
        at_most("growth of any norm between frames after t = 10", 0.0, np.diff(norms[:, 50:], axis=1).max()),
        # The decay is slow: norms at T are near 1/10, so weights differ from 1/n by a few hundredths of it.
        equal("attention weights at T = 50 against 1/n, worst", 0.0, np.abs(weights[:, 250] - 0.1).max(), 1e-2),
        # Corrections to the law are of size log(t)/t.
        equal("slope of log norm against log t, t = 500 to 5000", np.full(10, -0.5), slopes, 0.01),
        data=largest,
    )


def draw(largest: np.ndarray) -> Figure:
    """The largest norm from some starts, and the power of time that it comes to follow."""
    t, late = TIMES[1:], largest[:4, 1:]
    curves = [Curve(f"start {i + 1}", t, norm, norm[-1] * (t / t[-1]) ** -0.5) for i, norm in enumerate(late)]
    return curves_figure(curves, "time t", "largest norm of a token", log="xy", law=r"$\propto t^{-1/2}$")

"""The same tokens in the plane under five kinds of attention, and how far they spread over time."""

import jax.numpy as jnp
import numpy as np

from measureflow.fields import L2Attention, LinearAttention, SigmoidAttention, SinkhornAttention, SoftmaxAttention
from measureflow.flows import Flow
from measureflow.measures import Particles
from measureflow.plotting import Curve, Figure, draw_curves, draw_paths, panels
from measureflow.spaces import Euclidean

A = -np.array([[0.8, 0.3], [0.3, 0.5]])
"""A negative form, under which tokens contract."""
TIMES = np.linspace(0.0, 8.0, 81)


def figure() -> Figure:
    """The paths of sixty tokens for each kind, and the trace of their second moment."""
    key, V = np.linalg.cholesky(-A).T, np.eye(2)
    kinds = {
        "softmax": SoftmaxAttention(A, V),
        "L2": L2Attention(-key, key, V),
        "Sinkhorn": SinkhornAttention(A, V),
        "sigmoid": SigmoidAttention(A, V),
        "linear": LinearAttention(A, V),
    }
    half = Particles.iid(Euclidean(2), 30, key=0).points
    start = Particles(Euclidean(2), jnp.concatenate([half, -half]))  # a mean of zero stays zero
    page, axes = panels(3, 2, width=4.2, height=3.8)
    moments = []
    for ax, (name, field) in zip(axes, kinds.items(), strict=False):
        points = np.asarray(Flow(field, start, jnp.asarray(TIMES)).run().measures.points)
        draw_paths(ax, points, title=name)
        moments.append(Curve(name, TIMES, (points**2).sum(2).mean(1)))
    draw_curves(axes[-1], moments, "time t", "mean squared norm", log="y")
    return page

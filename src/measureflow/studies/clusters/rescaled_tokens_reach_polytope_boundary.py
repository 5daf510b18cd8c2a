"""Tokens that grow like `e^t`, seen in a frame that grows with them, end on the boundary of a polytope.

In `z = e^{-t} x` each token moves towards an average of the others, so the convex hulls shrink. Scores grow like `e^{2t}`,
so in the end a token follows the vertex `v` of largest `<Bz, v>` alone, and rests where that is its own `<Bz, z>`.
"""

import jax.numpy as jnp
import numpy as np

from measureflow.diagnostics import clusters
from measureflow.fields import Rescaled, SoftmaxAttention
from measureflow.measures import Particles
from measureflow.plotting import Figure, draw_hull, draw_paths, panels
from measureflow.spaces import Euclidean
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_least, at_most, equal
from measureflow.studies.clusters.polytopes import excess, frames, off_boundary, off_rest

CLAIM = Claim(
    "For V=I and positive definite key-query form the rescaled tokens converge to 0 or to the boundary of a polytope, which "
    "for typical starts has far fewer vertices than tokens.",
    reference="geshkovski:23",
    where="theorem for the identity as value; slide on clustering of the particle system, part I of the talk",
)

FORM = np.eye(2)
TIMES = np.linspace(0.0, 15.0, 31)
"""Long enough for late tokens, and not so long that rounding shows in the scores, which grow like e^{2t}."""


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Follow 10 random starts of 40 rescaled tokens in the plane up to time 15."""
    attention = SoftmaxAttention(FORM, np.eye(2))
    starts = [Particles.iid(Euclidean(2), 40, key=10 * seed + k) for k in range(10)]
    runs = [frames(Rescaled(attention), mu, jnp.asarray(TIMES)) for mu in starts]
    limits = [path[-1] for path in runs]
    counts = [len(clusters(Particles(Euclidean(2), tokens), 1e-2).sizes) for tokens in limits]
    grown = frames(attention, starts[0], jnp.array([0.0, 1.0]))[-1]
    return CLAIM.judge(
        # A sum of rounding errors and those of the solver, in tokens of size one.
        at_most(
            "how far tokens leave the hull of the frame before",
            1e-9,
            max(excess(path[i], path[i + 1]).max() for path in runs for i in range(len(path) - 1)),
        ),
        # Tokens reach their limits like e^{-t}, and those near a tie are late by the logarithm of what they are off it. The
        # worst of 500 starts is off by 3e-5, with a tail of one over the distance.
        at_most("off the boundary, all tokens", 1e-3, max(off_boundary(tokens).max() for tokens in limits)),
        at_most(
            "off |Az|² = max_j <Az, Av_j>, all tokens", 1e-3, max(off_rest(tokens, FORM).max() for tokens in limits)
        ),
        at_most("distinct limits of 40 tokens, most", 10, max(counts)),
        at_least("distinct limits of 40 tokens, fewest", 2, min(counts)),  # they do not just meet
        # Two runs with tolerance 1e-10.
        equal("e^{-t} x against z at t = 1", 0.0, np.abs(np.exp(-1) * grown - runs[0][2]).max(), 1e-8),
        data=runs[1:4],
    )


def draw(runs: list[np.ndarray]) -> Figure:
    """The ways of three clouds, with their hulls at the start and at the end."""
    figure, axes = panels(3, width=4.0, height=4.0)
    for ax, path in zip(axes, runs, strict=False):
        draw_paths(ax, path, names=("z₁", "z₂"))
        draw_hull(draw_hull(ax, path[0]), path[-1], filled=True)
    return figure

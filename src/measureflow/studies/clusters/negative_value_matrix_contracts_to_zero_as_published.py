"""Tokens that flee from what they attend to all end at the origin, but they do not all approach it from the start.

`|x|^2` changes at the rate `-2 <x, tilted mean>`, which is at most `-2 <x, mean>` by convexity of the log mass along `x`. So a
norm can grow only where `<x, mean> < 0`: nine tokens at -0.1 first push a tenth at 0.11 away.
"""

import jax
import jax.numpy as jnp
import numpy as np

from measureflow.measures import Particles
from measureflow.plotting import Curve, Figure, draw_allowed, draw_curves, panels
from measureflow.spaces import Euclidean
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_least, at_most
from measureflow.studies.clusters.fleeing import STARTS, TIMES, flight, paths, random_weights

CLAIM = Claim(
    "As published: for V=-I and Q^TK=I the norm of every token decreases to 0, and the largest norm with it.",
    reference="geshkovski:23",
    where="theorem for minus the identity as value",
)
REASON = (
    "All norms tend to 0, but the mean pushes tokens on its far side out at first: single norms grow in most clouds that are "
    "not centred, and so does the largest one when it is on that side."
)


def pushed(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """One token to the right of nine of nearly its norm on the left, with weights of their own."""
    clouds = np.concatenate([np.tile([0.11, 0.0], (STARTS, 1, 1)), np.tile([-0.1, 0.0], (STARTS, 9, 1))], axis=1)
    return clouds + 0.002 * rng.uniform(-1, 1, clouds.shape), random_weights(rng, 10)


@jax.jit
@jax.vmap
def rates(cloud: jnp.ndarray, weights: jnp.ndarray) -> jnp.ndarray:
    """The rate of `|x|^2` of each token, and what it is at most: `2 <x, v> + 2 <x, mean>`."""
    velocity = flight()(0.0, cloud, Particles(Euclidean(2), cloud, weights))
    return 2 * jnp.sum(cloud * (velocity + (weights @ cloud)[None]), axis=1)


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Follow 10 clouds around random centres, and 10 with one token apart from nine."""
    rng = np.random.default_rng(seed)
    shift, weights = rng.normal(size=(STARTS, 1, 2)), random_weights(rng, 10)
    apart, apart_weights = pushed(rng)
    starts = np.concatenate([shift + rng.normal(size=(STARTS, 10, 2)), apart]), np.concatenate([weights, apart_weights])
    x = np.asarray(paths(*map(jnp.asarray, starts)))
    norms = np.linalg.norm(x, axis=3)
    growing = (np.diff(norms[:STARTS], axis=1) > 0).any((1, 2)).sum()
    largest = norms.max(2)
    return CLAIM.judge(
        at_most("growth of a norm between frames, uncentred clouds", 0.0, np.diff(norms[:STARTS], axis=1).max()),
        at_most("growth of the largest norm, one token against nine", 0.0, np.diff(largest[STARTS:], axis=1).max()),
        instead=(
            # The claim is about limits, and these are right: sqrt(28/t), as in the twin of this study.
            at_most("largest norm at t = 5000", np.sqrt(28 / TIMES[-1]), largest[:, -1].max()),
            at_least(
                "growth of the largest norm over its start, one against nine",
                1.1,
                (largest.max(1) / largest[:, 0])[STARTS:].min(),
            ),
            # About nine of ten, so fewer than three have a probability below 1e-6.
            at_least("clouds of 10 with a norm that grows", 3, int(growing)),
            # A theorem at every moment, so no slack but rounding.
            at_most("rate of |x|² at the start plus 2<x, mean>", 1e-12, float(rates(*map(jnp.asarray, starts)).max())),
        ),
        reason=REASON,
        data=largest,
    )


def draw(largest: np.ndarray) -> Figure:
    """The largest norm over its start, which as published never grows, and over long times under the bound."""
    figure, (left, right) = panels(2)
    early = TIMES <= 20
    grown = [
        Curve("" if k else "one against nine", TIMES[early], n[early] / n[0])
        for k, n in enumerate(largest[STARTS:][:3])
    ]
    draw_curves(left, grown, "time t", "largest norm over its start", title="band: as published")
    draw_allowed(left, 0.0, 1.0)
    t = TIMES[1:]
    falling = [Curve(f"cloud {k + 1}", t, n[1:], np.sqrt(28 / t)) for k, n in enumerate(largest[:3])]
    draw_curves(right, falling, "time t", "largest norm", log="xy", law="bound √(28/t)")
    return figure

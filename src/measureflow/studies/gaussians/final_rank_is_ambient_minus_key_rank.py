"""What attention leaves of a covariance lives on the kernel of the keys, so its rank is known before any draw."""

import jax.numpy as jnp
import numpy as np

from measureflow.plotting import Curve, Figure, draw_curves, panels
from measureflow.studies.base import SMALL, Claim, Size, Verdict, equal
from measureflow.theory import gaussian as theory

CLAIM = Claim(
    "For V=I, K=-Q with Q of rank ⌊d/2⌋ the limiting covariance has rank d-⌊d/2⌋ for every draw.",
    reference="castin:25",
    where="derived: rank of the limit in the histograms",
)
MOST = 25
"""Draws in a picture."""


def run(size: Size = SMALL) -> Verdict:
    """The draws of the published histograms in dimensions 3, 4 and 5."""
    keys = np.random.RandomState(40)
    ranks = {}
    for d in (3, 4, 5):
        starts = np.random.RandomState(41)
        limits = []
        for _ in range(size.pick(30, 100)):
            Q, G = keys.randn(d // 2, d), starts.randn(d, d)
            form = jnp.asarray(-Q.T @ Q / np.sqrt(d))
            limits.append(theory.limit(jnp.asarray(G @ G.T), form, jnp.eye(d)))
        ranks[d] = np.asarray(theory.rank(jnp.stack(limits)))
    return CLAIM.judge(
        *(
            equal(f"ranks in dimension {d}, least and largest", [d - d // 2] * 2, [r.min(), r.max()], 0)
            for d, r in ranks.items()
        ),
        data=ranks,
    )


def draw(ranks: dict[int, np.ndarray]) -> Figure:
    """The rank of the limit for each draw."""
    figure, axes = panels(len(ranks), width=3.4)
    for ax, (d, r) in zip(axes, ranks.items(), strict=True):
        first = r[:MOST]
        curve = Curve("", np.arange(1, len(first) + 1), first, d - d // 2)
        draw_curves(ax, [curve], "draw", "rank of the limit", law="d − ⌊d/2⌋", title=f"d = {d}").set_ylim(0, d)
    return figure

"""Densities with a mean collapse to a point, at least as fast as the theorem says and far faster.

The theorem asks for a density in L² whose mean is not zero, and for a small beta of either sign. The starts here are as uneven
as that: one is zero on the half sphere about the antipode, one is largest at the antipode of its mean.
"""

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np

from measureflow.fields import UnnormalisedAttention
from measureflow.plotting import Curve, Figure, draw_curves, panels
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_least, at_most
from measureflow.studies.rates.graded import distances, heights, start

CLAIM = Claim(
    "For small |β| a regular start with non-zero mean collapses to a Dirac at least as fast as e^{-t/100}.",
    reference="chen:25",
    where="main theorem",
)

BETAS = np.array([-0.1, 0.0, 0.1, 0.3])
TIMES = np.linspace(0.0, 15.0, 61)
RATE = 0.01
TRANSIENT = 1.0
"""After which the distance must fall; a time that depends on the start, in the theorem."""

STARTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "tilted": lambda z: 1 + z / 2,
    "half the sphere": lambda z: np.where(z > 0, 1.0, 1e-30),
    "heavy at the antipode": lambda z: 0.3 + np.exp(-8 * (z + 1)) + 1.6 * np.exp(-2 * (1 - z)),
}


def run(size: Size = SMALL) -> Verdict:
    """Follow three starts for four betas on the circle, and one on the sphere (in full all)."""
    p, times, betas = heights(24.0, size.pick(0.5, 0.3)), jnp.asarray(TIMES), jnp.asarray(BETAS)
    found = {
        name: np.asarray(distances(UnnormalisedAttention, betas, start(2, density, p), times, 1e-6))
        for name, density in STARTS.items()
    }
    many, some = size.pick(({"tilted"}, betas[-1:]), (set(STARTS), betas))
    ball = [
        np.asarray(distances(UnnormalisedAttention, some, start(3, density, p), times, 1e-6))
        for name, density in STARTS.items()
        if name in many
    ]
    every = np.concatenate([*found.values(), *ball])
    late = TIMES >= TRANSIENT
    scaled = every[:, late] * np.exp(RATE * TIMES[late])
    return CLAIM.judge(
        at_least("mean of a start", 0.01, 1 - every[:, 0] ** 2 / 2),  # since W_2² = 2 - 2 m
        at_most("largest step of W_2 e^{t/100} after t = 1", 0.0, np.diff(scaled, axis=-1).max()),
        # A rate of 0.27 or more, by the law of the antipode: e^{-0.27 (15 - 5)} times the distance once mass moves.
        at_most("W_2 at t = 15", 0.1, scaled[..., -1]),
        data=found,
    )


def draw(found: dict[str, np.ndarray]) -> Figure:
    """The distance to the point over time on the circle, from each start, against the rate of the theorem."""
    figure, axes = panels(len(found), width=4.2, height=3.7)
    law = np.exp(-RATE * TIMES)
    for ax, (name, distance) in zip(axes, found.items(), strict=True):
        curves = [
            Curve(f"β = {beta:g}", TIMES, each, law * each[0]) for beta, each in zip(BETAS, distance, strict=True)
        ]
        draw_curves(ax, curves, "time t", "distance W₂ to the point", log="y", law="exp(-t/100)", title=name)
    return figure

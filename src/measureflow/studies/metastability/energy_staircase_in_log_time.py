"""Over the logarithm of time the energy is a staircase: plateaus of clusters that wait, and jumps where the closest two meet."""

import jax.numpy as jnp
import numpy as np

from measureflow.plotting import Curve, Figure, draw_curves, panels
from measureflow.studies.base import SMALL, Claim, Size, Verdict, equal
from measureflow.studies.metastability.angles import Angles, energy, follow, on_line
from measureflow.theory import metastability

CLAIM = Claim(
    "In logarithmic time the energy is a staircase whose jumps are mergers of the closest pair; under softmax attention they meet at "
    "the mean weighted by squared masses.",
    reference="koubbi:24",
    where="theorem on the energy profile; times and places of mergers are derived from the equation",
)

START = np.array([0.0, 0.35, 1.05, 1.95, 2.9])
LEVELS = np.array([0.2, 0.28, 0.44, 0.52, 1.0])
SIMULATED = np.array([0.0494, 0.3431, 0.4027, 1.4582])
"""Jumps at `beta` 400 found by displacement-limited steps."""


def jumps(beta: float, tolerance: float) -> tuple[np.ndarray, np.ndarray]:
    """When the energy passes the middle between two plateaus, as `log(t) / beta`, and the tokens there."""
    middles = (LEVELS[1:] + LEVELS[:-1]) / 2
    end = np.exp(min(1.6 * beta, 700.0))  # after the last merger, and below the largest double
    found = follow(Angles(beta), on_line(START), end, lambda mu: energy(mu, beta) - jnp.asarray(middles), tolerance)
    return found.log_times / beta, found.angles


def plateaus(angles: np.ndarray, beta: float) -> np.ndarray:
    """The energy of tokens in clusters: those that a jump has not moved apart."""
    return np.array([float(energy(on_line(row), beta)) for row in angles])


def run(size: Size = SMALL) -> Verdict:
    """Follow five tokens at `beta` 400, and at 200 and 100 in full, to their last merger."""
    betas = size.pick([400.0], [400.0, 200.0, 100.0])
    found = {beta: jumps(beta, 1e-9) for beta in betas}
    laws = {beta: metastability.staircase(START, beta) for beta in betas}
    law, (measured, _) = laws[400.0], found[400.0]
    wrong = metastability.staircase(START, 400.0, model=metastability.unnormalised)
    return CLAIM.judge(
        # Laplace's method leaves out a part of order 1/beta of the time, here 1e-5; the catalogue allows 2e-3.
        equal("first three jumps, beta 400", law.jumps[:3], measured[:3], 2e-3),
        # The place of the third merger is off by beta^-1/2 of the distance, which moves the last jump by its slope.
        equal("last jump, beta 400", law.jumps[3], measured[3], 0.02),
        equal("jumps, beta 400, against other steps", SIMULATED, measured, 1e-4),  # the digits that are printed
        equal("levels of the plateaus", LEVELS, law.levels, 1e-12),  # sums of squared masses, exact
        # The rule of the centroid is not that of softmax: the last jump tells.
        equal("last jump by the centroid", 1.378, wrong.limits[3], 1e-3),
        data=(found, laws),
    )


def draw(data: tuple) -> Figure:
    """The staircase for each beta, over its law and the limit."""
    found, laws = data
    figure, (ax,) = panels(width=7.0, height=4.4)
    curves = []
    for beta, (times, _) in found.items():
        s = np.concatenate([[0.0], np.repeat(times, 2), [1.6]])
        law = laws[beta]
        curves.append(Curve(f"β = {beta:g}", s, np.repeat(LEVELS, 2), np.interp(s, s, np.repeat(law.levels, 2))))
    draw_curves(ax, curves, "logarithm of time, log(t) / β", "energy", law="")
    return figure

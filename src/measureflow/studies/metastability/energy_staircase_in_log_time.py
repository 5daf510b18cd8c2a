"""Over the logarithm of time the energy is a staircase: plateaus of clusters that wait, and jumps where the closest two meet.

At `beta` 400 the last two clusters meet at a time of 1e253.
"""

import jax.numpy as jnp
import numpy as np

from measureflow.diagnostics import plateaus
from measureflow.plotting import Curve, Figure, curves_figure
from measureflow.studies.base import SMALL, Claim, Size, Verdict, equal
from measureflow.studies.metastability.angles import Angles, energy, follow, on_line
from measureflow.theory import metastability

CLAIM = Claim(
    "In logarithmic time the energy is a staircase whose jumps are mergers of the closest pair, which under softmax attention "
    "meets at the mean weighted by squared masses.",
    reference="koubbi:24",
    where="theorem on the energy profile; times and places of mergers are derived from the equation",
)

START = np.array([0.0, 0.35, 1.05, 1.95, 2.9])
LEVELS = np.array([0.2, 0.28, 0.44, 0.52, 1.0])
PRINTED = np.array([0.0494, 0.3431, 0.4027, 1.4582])
"""Jumps at `beta` 400, found elsewhere by steps of limited displacement, to four digits."""
PARTS = np.array([0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99])
"""At these parts of a jump the time is told; the first is more than what the tails of the kernel add at the start."""


def jumps(beta: float) -> np.ndarray:
    """When the energy has made parts of each jump, as `log(t) / beta`, by rows."""
    marks = (LEVELS[:-1, None] + np.diff(LEVELS)[:, None] * PARTS).ravel()
    end = np.exp(min(1.6 * beta, 700.0))  # after the last merger, and below the largest double
    found = follow(Angles(beta), on_line(START), end, lambda mu: energy(mu, beta) - jnp.asarray(marks), len(marks))
    return found.log_times.reshape(len(LEVELS) - 1, -1) / beta


def run(size: Size = SMALL) -> Verdict:
    """Follow five tokens at `beta` 400, and at 200 and 100 in full, to their last merger."""
    found = {beta: jumps(beta) for beta in size.pick([400.0], [400.0, 200.0, 100.0])}
    law, measured = metastability.staircase(START, 400.0), found[400.0][:, len(PARTS) // 2]
    centroid = metastability.staircase(START, 400.0, model=metastability.unnormalised)
    scale, heights = curve(found[400.0])
    waits = plateaus(scale, heights, least=0.02)
    return CLAIM.judge(
        # Laplace's method leaves out a part of order 1/beta of the time, so 1e-5 of its logarithm over beta.
        equal("first three jumps, beta 400", law.jumps[:3], measured[:3], 2e-3),
        # The place of the third merger is off by beta^-1/2 of a distance of 0.8, and the last distance with it.
        equal("last jump, beta 400", law.jumps[3], measured[3], 0.02),
        equal("jumps, beta 400, against other steps", PRINTED, measured, 1e-4),  # the digits that are printed
        equal("levels", LEVELS, law.levels, 1e-12),  # sums of squared masses, exact
        # A plateau is read within a fiftieth of the range, and its jump from parts of it that are a tenth apart.
        equal("plateaus of the curve", LEVELS, waits.heights, 0.02),
        equal("jumps of the curve", measured, waits.jumps, 1e-3),
        equal("last limit if pairs met at their centroid", 1.378, centroid.limits[3], 1e-3),  # not what is measured
        data=found,
    )


def curve(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The energy over `log(t) / beta`, from before its first jump to after its last."""
    marks = (LEVELS[:-1, None] + np.diff(LEVELS)[:, None] * PARTS).ravel()
    return np.concatenate([[0.0], rows.ravel(), [1.6]]), np.concatenate([[LEVELS[0]], marks, [LEVELS[-1]]])


def draw(found: dict[float, np.ndarray]) -> Figure:
    """The energy over the logarithm of time, and the limits of the jumps."""
    curves = [Curve(f"β = {beta:g}", *curve(rows)) for beta, rows in found.items()]
    limits = metastability.staircase(START, 400.0).limits
    steps = Curve("β → ∞", np.concatenate([[0.0], np.repeat(limits, 2), [1.6]]), np.repeat(LEVELS, 2))
    return curves_figure([*curves, steps], "logarithm of time, log(t) / β", "energy, normalised")

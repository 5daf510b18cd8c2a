"""The energy that staircase pictures show is the mean of `e^{β(<x_i, x_j> - 1)}`; the printed normalisation is not that."""

import numpy as np

from measureflow.energies import InteractionEnergy
from measureflow.measures import Particles
from measureflow.plotting import Curve, Figure, curves_figure
from measureflow.spaces import Sphere
from measureflow.studies.base import SMALL, Claim, Size, Verdict, equal

CLAIM = Claim(
    "As published: the normalised energy Σ e^{β<x_i,x_j>} / (2β e^β n²) rises to 1 at consensus.",
    reference="koubbi:24",
    where="definition of the normalised energy",
)

BETAS = np.array([4.0, 25.0, 100.0, 400.0])
TOKENS = 5


def run(size: Size = SMALL) -> Verdict:
    """Both normalisations at consensus, by the library's energy and by the sum itself."""
    mu = Particles(Sphere(2), np.tile([[0.6, 0.8]], (TOKENS, 1)))
    # The printed one is e^{-beta} times the energy E = 1/(2 beta n^2) sum_ij e^{beta <x_i, x_j>}, the true one E over its peak.
    energies = [InteractionEnergy(beta) for beta in BETAS]
    printed = np.array([float(energy(mu)) * np.exp(-beta) for energy, beta in zip(energies, BETAS, strict=True)])
    true = np.array([float(energy(mu) / energy.peak) for energy in energies])
    points = np.asarray(mu.points)
    means = np.array([np.exp(beta * (points @ points.T - 1)).mean() for beta in BETAS])
    return CLAIM.judge(
        equal("printed energy at consensus", np.ones(4), printed, 1e-12),
        instead=(
            equal("printed energy at consensus is 1 / (2 beta)", 1 / (2 * BETAS), printed, 1e-12),  # rounding
            equal("energy over its maximum at consensus", np.ones(4), true, 1e-12),
            equal("mean of e^{beta (<x_i, x_j> - 1)} at consensus", np.ones(4), means, 1e-12),
        ),
        reason="The printed sum is divided by 2β as well, so it is at most 1/(2β); the mean of e^{β(<x_i,x_j> - 1)} reaches 1.",
        data=(printed, true),
    )


def draw(data: tuple) -> Figure:
    """Both at consensus, over beta."""
    printed, true = data
    curves = [Curve("as printed", BETAS, printed, 1 / (2 * BETAS)), Curve("over its maximum", BETAS, true)]
    return curves_figure(curves, "β", "energy at consensus", log="xy", law="1 / (2β)")

"""One token under unnormalised attention is repelled from the origin by itself and is gone in finite time.

`x' = x e^{x^2}` gives `∫ e^{-x^2} dx / x = t`, so the end is at `T* = E_1(x_0^2) / 2`.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import exp1

from measureflow.energies import InteractionEnergy
from measureflow.fields import UnnormalisedAttention
from measureflow.flows import evolve
from measureflow.measures import Particles
from measureflow.plotting import Curve, Figure, curves_figure
from measureflow.spaces import Euclidean
from measureflow.studies.base import SMALL, Claim, Size, Verdict, equal

CLAIM = Claim(
    "The energy at a Dirac is -e^{|z|^2}, unbounded below, and a single token escapes in finite time.",
    reference="deck:25",
    where="slide on divergence after the proposition on unnormalised attention; the time is derived",
)


def energy_at_dirac(z):
    """The energy `-∬e^{<x,y>}` of the deck, which is minus twice the interaction energy, at one token."""
    return -2 * InteractionEnergy(1.0)(Particles(Euclidean(1), z[None, None]))


def run(size: Size = SMALL) -> Verdict:
    """Follow one token from 0.7 until no step is short enough."""
    times = np.append(exp1(0.7**2) / 2 * (1 - np.geomspace(1, 1e-4, 25)), 1.0)
    path = evolve(UnnormalisedAttention.isotropic(1, beta=1.0), Particles(Euclidean(1), [[0.7]]), times)
    z = jnp.array([0.0, 1.0, 3.0, 5.0])
    energies = np.asarray(jax.vmap(energy_at_dirac)(z)) / np.exp(np.asarray(z) ** 2)
    return CLAIM.judge(
        # The run stops when time no longer resolves its steps; the rest is the tolerance of the solver on the way.
        equal("time of the blow-up", exp1(0.7**2) / 2, path.outcome.time, 1e-6),
        equal("ends in a blow-up", 1, int(path.outcome.blew_up), 0),
        equal("E_1(x_0^2)/2", 0.2860444180, exp1(0.7**2) / 2, 5e-11),  # the digits of the sheet
        equal("energy at a Dirac over e^{|z|^2}, z = 0, 1, 3, 5", -np.ones(4), energies, 1e-12),  # rounding at e^25
        data=(np.asarray(path.times)[:-1], np.asarray(path.map(lambda mu: mu.points[0, 0]))[:-1]),
    )


def draw(data: tuple[np.ndarray, np.ndarray]) -> Figure:
    """The time at which the token is at a place, and the law, which ends at `E_1(x_0²)/2`."""
    t, x = data
    law = (exp1(0.7**2) - exp1(jnp.asarray(x) ** 2)) / 2
    curves = [Curve("token", x, t, law), Curve("end of time", x, np.full(len(x), float(exp1(0.7**2)) / 2))]
    return curves_figure(curves, "place x", "time t", law=r"$(E_1(x_0^2) - E_1(x^2))/2$")

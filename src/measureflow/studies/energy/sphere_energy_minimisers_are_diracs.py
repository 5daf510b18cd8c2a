"""On the sphere the energy of attention is least when all tokens agree.

The exponential is convex, so `e^s <= e - (1 - s)(e - 1/e)/2` on `[-1, 1]`, and the excess of the energy over `-e` is at
least `(e - 1/e)/4` times the mean squared distance of two tokens: it vanishes only at point masses.
"""

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float

from measureflow.energies import AbstractEnergy, GradientFlow, InteractionEnergy
from measureflow.flows import evolve
from measureflow.measures import AbstractMeasure, Particles
from measureflow.plotting import Curve, Figure, curves_figure
from measureflow.spaces import Sphere
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_least, equal

CLAIM = Claim(
    "On the sphere the energy -∬e^{<x,y>} is smallest exactly at point masses.",
    reference="geshkovski:25",
    where="section on the interaction energy; slide on concentration of the lecture deck",
)

TIMES = np.concatenate([np.linspace(0.0, 5.0, 51), [20.0]])


def energy() -> AbstractEnergy:
    """The energy `-∬e^{<x,y>}`, which is minus twice the interaction energy."""
    return -2.0 * InteractionEnergy(1.0)


def spread(mu: AbstractMeasure) -> Float[Array, ""]:
    """The mean squared distance of two tokens, `2 - 2 |∫x dmu|²` on the sphere."""
    return 2 - 2 * (mu.expect(lambda x: x) ** 2).sum()


def random_measure(key: Array) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """The energy and the spread of 20 random tokens with random weights."""
    of_points, of_weights = jax.random.split(key)
    points = Particles.iid(Sphere(3), 20, key=of_points).points
    mu = Particles(Sphere(3), points, jax.random.exponential(of_weights, (20,)))
    return energy()(mu), spread(mu)


def minimised(key: Array) -> tuple[Float[Array, " times"], Float[Array, ""]]:
    """The energy over time and the last spread while descending from 20 random tokens."""
    path = evolve(GradientFlow(energy()), Particles.iid(Sphere(3), 20, key=key), TIMES)
    return path.map(energy()), spread(path.final)


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Evaluate 200 random measures, and descend from 20 starts."""
    keys = jax.random.split(jax.random.key(seed), 220)
    F, spreads = map(np.asarray, eqx.filter_jit(jax.vmap(random_measure))(keys[:200]))
    falling, last_spreads = map(np.asarray, eqx.filter_jit(jax.vmap(minimised))(keys[200:]))
    minima = falling[:, -1]
    dirac = energy()(Particles(Sphere(3), np.tile([0.6, 0.0, 0.8], (20, 1))))
    return CLAIM.judge(
        at_least("least energy", -np.e, F.min(), slack=1e-12),  # rounding of a sum of 400 terms
        at_least("least (energy + e) / spread", (np.e - 1 / np.e) / 4, ((F + np.e) / spreads).min()),
        equal("energy of a Dirac", -np.e, dirac, 1e-12),  # rounding
        # Descent is exponential; the final time leaves less than a millionth.
        equal("attained minima, furthest from -e", -np.e, minima[np.abs(minima + np.e).argmax()], 1e-6),
        equal("spread at the minima", 0.0, last_spreads.max(), 1e-6),
        data=falling,
    )


def draw(energies: np.ndarray) -> Figure:
    """The energy over time from some starts, down to that of a Dirac mass."""
    curves = [Curve(f"start {i + 1}", TIMES[:-1], F[:-1], -np.e) for i, F in enumerate(energies[:6])]
    return curves_figure(curves, "time t", "energy", law="point mass, -e")

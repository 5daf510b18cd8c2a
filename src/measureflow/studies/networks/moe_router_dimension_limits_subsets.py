"""A linear router in few dimensions chooses few of the sets of experts that there are.

Sets change only where two scores are equal. Random routers need many dimensions to choose most sets; the least dimension in which
any router chooses them all is `2k`, and one on the trigonometric moment curve does: for every set there is a polynomial of
degree `k` in the angle that is zero on it and negative elsewhere.
"""

import itertools
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from measureflow.networks import ConstantExperts, MixtureOfExperts
from measureflow.plotting import Curve, Figure, draw_curves, panels
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_least, at_most, equal
from measureflow.theory import experts as theory

CLAIM = Claim(
    "A linear router in low dimension realises only a fraction of all subsets of experts.",
    reference="boix:25",
    where="derived from the regions of a central arrangement of hyperplanes, beside the theorem on linear routing",
)
EXPERTS, ACTIVE, INPUTS = 16, 4, 100_000
MEANS = {2: 17.0, 3: 75.7, 5: 417.0, 10: 1309.0, 30: 1810.0}
"""Numbers of chosen sets over 300, 60, 20, 14 and 6 routers, whose deviations are 1.9, 4.8, 20, 61 and 4."""
ALL = math.comb(EXPERTS, ACTIVE)


@eqx.filter_jit
def choices(router: jax.Array, xs: jax.Array) -> jax.Array:
    """The set that each input chooses, as the binary digits of a number."""
    layer = MixtureOfExperts(router, ConstantExperts(jnp.zeros((len(router), 1))), ACTIVE, None)
    return jnp.sum(2 ** jax.vmap(layer.route)(xs), 1)


def sets(router: np.ndarray, xs: np.ndarray) -> int:
    """The number of different sets that inputs choose."""
    return len(np.unique(choices(jnp.asarray(router), jnp.asarray(xs))))


def on_the_moment_curve() -> tuple[np.ndarray, np.ndarray]:
    """Experts at equal angles of the curve in `R^2k`, and an input for each set: minus the product of `1 - cos(t - t_i)`."""
    at = 2 * np.pi * np.arange(EXPERTS) / EXPERTS
    wave = np.arange(1, ACTIVE + 1)
    router = np.concatenate([np.cos(at[:, None] * wave), np.sin(at[:, None] * wave)], 1)
    fine = 2 * np.pi * np.arange(4 * EXPERTS) / (4 * EXPERTS)
    inputs = []
    for chosen in itertools.combinations(range(EXPERTS), ACTIVE):
        bumps = -np.prod(1 - np.cos(fine[:, None] - at[list(chosen)]), axis=1)
        modes = np.fft.fft(bumps)[1 : ACTIVE + 1]
        inputs.append(np.concatenate([modes.real, -modes.imag]))
    return router, np.array(inputs)


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Four of sixteen experts, 100000 normal inputs, the mean over four routers (full: thirty) for each dimension."""
    rng, routers = np.random.default_rng(seed), size.pick(4, 30)
    dims = np.array([1, 2, 3, 5, 10, int(theory.router_dimension(EXPERTS, ACTIVE)), 30])
    counts = np.array(
        [[sets(rng.normal(size=(EXPERTS, d)), rng.normal(size=(INPUTS, d))) for _ in range(routers)] for d in dims]
    )
    bounds = np.array([theory.subsets(EXPERTS, ACTIVE, int(d)) for d in dims])
    means = {int(d): float(row.mean()) for d, row in zip(dims, counts, strict=True)}
    special = sets(*on_the_moment_curve())
    return CLAIM.judge(
        at_most("sets that are chosen", bounds[:, None], counts),
        # More than three standard errors of the mean over four routers, and what the last inputs find.
        equal("mean number of sets over the expected one", 1.0, [means[d] / n for d, n in MEANS.items()], 0.2),
        equal("sets on a line", 2, counts[0], 0),
        at_least("share of sets in the dimension of the rule of thumb", 0.8, means[int(dims[-2])] / ALL),
        equal(f"sets in {theory.least_dimension(ACTIVE)} dimensions, on the moment curve", ALL, special, 0),
        data=(dims, counts, bounds),
    )


def draw(data: tuple[np.ndarray, np.ndarray, np.ndarray]) -> Figure:
    """The number of chosen sets against the dimension, under its bound."""
    dims, counts, bounds = data
    figure, (ax,) = panels(width=6.4, height=4.4)
    random = Curve("random routers", dims, counts.mean(1), bounds)
    special = Curve("on the moment curve", [theory.least_dimension(ACTIVE)], [ALL])
    draw_curves(ax, [random, special], "dimension of the router", "sets of four experts", log="xy", law="bound")
    return figure

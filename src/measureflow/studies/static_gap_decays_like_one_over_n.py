"""Heads drawn from a law have a risk above it by a bias like `1/N`, though it fluctuates like the root of that.

The first-order part `∫ Psi d(mu_N - mu)` has mean zero. Without it the mean over draws is the same and the scatter is of
the order of the bias itself, so that few draws are enough.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from measureflow.measures import Particles
from measureflow.spaces import Euclidean
from measureflow.studies.base import SMALL, Claim, Size, Verdict, equal
from measureflow.training import bias_coefficient, fixtures, power_law

CLAIM = Claim(
    "static-gap-decays-like-one-over-n",
    "The same gap decays at least like 1/N, because the loss is convex and 1/2-smooth.",
    reference="heads:26",
)
COUNTS = np.array([4, 8, 16, 32, 64, 128])


@eqx.filter_jit
def excess(risk, features, key, N, draws: int):
    """The mean bias and the mean size of the fluctuation of the risk of `N` heads."""
    z = features.mean(0)
    base, residuals = risk.loss(z), risk.residuals_of(z)

    def one(key):
        chosen = features[jax.random.randint(key, (COUNTS[-1],), 0, len(features))]
        drawn = jnp.tensordot(jnp.where(jnp.arange(float(COUNTS[-1])) < N, 1 / N, 0.0), chosen, 1)
        change = risk.loss(drawn) - base
        return change - jnp.vdot(residuals, drawn - z), jnp.abs(change)

    bias, size = jax.lax.map(one, jax.random.split(key, draws), batch_size=64)
    return bias.mean(), size.mean()


def biases(size: Size) -> tuple[np.ndarray, np.ndarray, float]:
    """Bias and fluctuation by number of heads, and the predicted coefficient of the bias."""
    risk = fixtures.f1()
    pool = 0.7 * np.random.default_rng(3).standard_normal((size.pick(4000, 20000), 24))
    features = eqx.filter_jit(lambda x: jax.lax.map(risk.features, x, batch_size=500))(jnp.asarray(pool))
    draws = size.pick(400, 4000)
    found = [excess(risk, features, jax.random.key(N), jnp.asarray(float(N)), draws) for N in COUNTS]
    coefficient = eqx.filter_jit(bias_coefficient)(risk, Particles(Euclidean(24), pool))
    bias, fluctuation = np.array(found, float).T
    return bias, fluctuation, float(coefficient)


def run(size: Size = SMALL) -> Verdict:
    """Draw 4 to 128 heads again and again from a normal law and average their excess risk."""
    bias, fluctuation, coefficient = biases(size)
    return CLAIM.judge(
        # Ten per cent: sampling, and the next order in 1/N for few heads.
        equal("N times the bias, N = 32, 64, 128", np.full(3, coefficient), (COUNTS * bias)[3:], 0.1 * coefficient),
        # The pool of the catalogue gives 1.129; a smaller one differs by its own sampling.
        equal("predicted coefficient", 1.129, coefficient, size.pick(0.05, 0.01)),
        # Sampling of the slope.
        equal("slope of the bias", -1.0, power_law(COUNTS, bias).exponent, 0.1),
        equal("slope of the fluctuation", -0.5, power_law(COUNTS, fluctuation).exponent, 0.1),
    )

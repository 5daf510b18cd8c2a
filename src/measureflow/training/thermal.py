"""Mean-field Langevin training: descent with noise lowers the free energy `R(mu) + Ent(mu) / beta`.

The risk is convex in the measure, so the free energy has one minimiser, which solves `mu ~ exp(-beta Psi(.; mu))`. How far
a cloud of heads is from that self-consistency is measured by the kernel Stein discrepancy with the score `-beta grad Psi`.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.spatial import KDTree
from scipy.special import digamma, gammaln

from measureflow.energies import AbstractEnergy, GradientFlow
from measureflow.measures import Particles
from measureflow.precision import keep_all


def entropy(mu: Particles, neighbours: int = 3) -> float:
    """The negative entropy `∫ rho log rho` of the law behind equally weighted heads, from nearest neighbours.

    Kozachenko and Leonenko's estimator; its bias falls like `N^{-1/d}`, so it is meant for few parameters.
    """
    x = np.asarray(mu.points, float)
    n, d = x.shape
    if n <= neighbours:
        raise ValueError(f"`neighbours` {neighbours} needs more heads than that; got {n}.")
    radius = KDTree(x).query(x, neighbours + 1)[0][:, -1]
    ball = d / 2 * np.log(np.pi) - gammaln(d / 2 + 1)
    return -float(digamma(n) - digamma(neighbours) + ball + d * np.log(radius).mean())


def free_energy(energy: AbstractEnergy, mu: Particles, inverse_temperature: float) -> float:
    """The energy plus the negative entropy over the inverse temperature."""
    return float(energy(mu)) + entropy(mu) / inverse_temperature


def self_consistency(energy: AbstractEnergy, mu: Particles, inverse_temperature: float) -> float:
    """How far a measure is from `exp(-beta Psi(.; mu))`: the kernel Stein discrepancy, zero only at the fixed point.

    The kernel is the inverse multiquadric `(1 + |x - y|^2)^{-1/2}`. For `N` independent draws from the fixed point it is
    of order `N^{-1/2}`.
    """
    return float(_discrepancy(energy, mu, jnp.asarray(inverse_temperature, mu.points.dtype)))


@eqx.filter_jit
def _discrepancy(energy: AbstractEnergy, mu: Particles, inverse_temperature: Float[Array, ""]) -> Float[Array, ""]:
    x = mu.points
    score = inverse_temperature * GradientFlow(energy)(0.0, x, mu)

    def row(x_i, s_i, w_i):
        r = x_i[None] - x
        base = 1 + jnp.sum(r**2, -1)
        k, k1, k2 = base**-0.5, base**-1.5, base**-2.5
        trace = x.shape[1] * k1 - 3 * k2 * jnp.sum(r**2, -1)
        # Row by row the Stein kernel: score score k + score grad' k + score' grad k + trace grad grad' k.
        u = (score @ s_i) * k + k1 * (r @ s_i) - k1 * jnp.sum(score * r, -1) + trace
        return w_i * (mu.weights @ u)

    total = jax.lax.map(lambda pack: row(*pack), (x, score, mu.weights), batch_size=64)
    return jnp.sqrt(jnp.maximum(total.sum(), 0.0))


def virial(energy: AbstractEnergy, mu: Particles, inverse_temperature: float) -> Float[Array, ""]:
    """The ratio `beta ∫ <theta, grad Psi> dmu / D`, which is one at the fixed point."""
    slope = -GradientFlow(energy)(0.0, mu.points, mu)
    return inverse_temperature * (mu.weights @ jnp.sum(mu.points * slope, -1)) / mu.points.shape[1]


keep_all(globals())

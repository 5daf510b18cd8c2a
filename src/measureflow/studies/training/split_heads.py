"""Two heads that one head parts into: a stationary measure that is no Dirac, and what its condition of monotonicity compares."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import minimize

from measureflow.energies import GradientFlow
from measureflow.measures import Particles
from measureflow.spaces import Euclidean
from measureflow.training import Ridge, fixtures
from measureflow.training.perturbation import rest_point

ENERGY = fixtures.f2(2.0) + Ridge(0.1)
"""Here a single head at rest is a saddle: its Hessian has a negative eigenvalue."""


def law(points: jnp.ndarray, weights: jnp.ndarray | None = None) -> Particles:
    """The measure of some heads."""
    return Particles(Euclidean(4), points, weights)


@eqx.filter_jit
def gradients(points: jnp.ndarray, weights: jnp.ndarray | None = None) -> jnp.ndarray:
    """The gradients of `Psi` of a measure at its own heads."""
    mu = law(points, weights)
    return -GradientFlow(ENERGY)(0.0, mu.points, mu)


@eqx.filter_jit
def hessian(points: jnp.ndarray) -> jnp.ndarray:
    """The derivative of all gradients in all heads: what a small displacement of heads is pulled back by."""
    flat = jax.jacfwd(lambda x: gradients(x.reshape(points.shape)).ravel())(points.ravel())
    return (flat + flat.T) / 2


def split(seed: int) -> jnp.ndarray:
    """The two heads of equal mass with the least energy, from a random pair about the single head at rest."""
    single = rest_point(ENERGY, jnp.zeros(4))
    start = np.asarray(single) + 0.3 * np.random.default_rng(seed).standard_normal((2, 4))
    value = jax.jit(lambda x: ENERGY(law(x.reshape(2, 4))))
    slope = lambda x: np.asarray(gradients(jnp.asarray(x.reshape(2, 4)))).ravel() / 2  # noqa: E731
    found = minimize(lambda x: float(value(x)), start.ravel(), jac=slope, options={"gtol": 1e-8}).x
    for _ in range(4):
        found = found - np.linalg.solve(np.asarray(hessian(jnp.asarray(found.reshape(2, 4)))), 2 * slope(found))
    return jnp.asarray(found.reshape(2, 4))

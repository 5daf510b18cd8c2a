"""Gaussians in the plane: the example of the talk's proposition, nodes to integrate against one, and its covariance.

Their closed equations are solved by SciPy, as a road to the moments that shares nothing with the flows it judges.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.integrate import solve_ivp

from measureflow.theory import gaussian as theory

MEAN, COV = np.array([0.5, 0.0]), np.array([[1.0, 0.3], [0.3, 0.5]])
A, V = -np.array([[0.6, 0.1], [0.0, 0.4]]), np.array([[1.0, 0.2], [-0.1, 0.8]])
"""A start and weights under which it contracts."""


def covariance(mu) -> Float[Array, "d d"]:
    """The covariance of a Gaussian."""
    return mu.cov


def nodes(count: int) -> tuple[np.ndarray, np.ndarray]:
    """A product of Gauss-Hermite rules for the standard normal law in the plane."""
    z, w = np.polynomial.hermite_e.hermegauss(count)
    return np.stack(np.meshgrid(z, z, indexing="ij"), -1).reshape(-1, 2), np.outer(w, w).ravel() / (2 * np.pi)


def closed_moments(
    closure: Callable[..., theory.Affine], mean: np.ndarray, cov: np.ndarray, times: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Means and covariances over time from their own equations; `closure` gives the affine field of two moments."""
    d = len(mean)

    @jax.jit
    def rate(y):
        m, S = y[:d], y[d:].reshape(d, d)
        dm, dS = theory.moment_rates(closure(m, S), m, S)
        return jnp.concatenate([dm, dS.ravel()])

    def rates(_, y):
        return np.asarray(rate(jnp.asarray(y)))

    start, ends = np.concatenate([mean, np.ravel(cov)]), (times[0], times[-1])
    path = solve_ivp(rates, ends, start, "DOP853", times, rtol=1e-12, atol=1e-14).y.T
    return path[:, :d], path[:, d:].reshape(-1, d, d)

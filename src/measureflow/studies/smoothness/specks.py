"""The mean-field map on clouds of the line that differ by a speck of mass far away."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from measureflow.fields import SoftmaxAttention
from measureflow.measures import Particles
from measureflow.spaces import Euclidean

RADII = np.array([1.0, 1.5, 2.0, 2.5])

Cloud = tuple[np.ndarray, np.ndarray]  # points on the line and their weights, which sum to one


@eqx.filter_jit
def outputs(points: Float[Array, " n"], weights: Float[Array, " n"]) -> Float[Array, " n"]:
    """The outputs of attention with `A = -1` and `V = 1` at the points themselves."""
    mu = Particles(Euclidean(1), points[:, None], weights)
    return SoftmaxAttention([[-1.0]], [[1.0]])(0.0, mu.points, mu)[:, 0]


def image(mu: Cloud) -> Cloud:
    """The mean-field map: the law of the output of attention."""
    return np.asarray(outputs(*map(jnp.asarray, mu))), mu[1]


def steps(mu: Cloud) -> Cloud:
    """The points in increasing order, and the levels at which the quantile steps from one to the next."""
    order = np.argsort(mu[0])
    return mu[0][order], np.cumsum(mu[1][order])[:-1]


def wasserstein(mu: Cloud, nu: Cloud, p: int) -> float:
    """The distance W_p on the line, which is that of the quantile functions."""
    (xs, x_levels), (ys, y_levels) = steps(mu), steps(nu)
    cuts = np.unique(np.concatenate([[0.0, 1.0], x_levels, y_levels]))
    middles = (cuts[1:] + cuts[:-1]) / 2
    gaps = xs[np.searchsorted(x_levels, middles)] - ys[np.searchsorted(y_levels, middles)]
    return float(np.diff(cuts) @ np.abs(gaps) ** p) ** (1 / p)


def stretch(mu: Cloud, nu: Cloud, p: int) -> float:
    """How much farther apart than two clouds their images are."""
    return wasserstein(image(mu), image(nu), p) / wasserstein(mu, nu, p)


def speck_stretch(R: float) -> float:
    """How attention separates, in W_1, a Dirac mass at R from the same with `1e-3 e^{-2R²}` of it moved to -R."""
    speck = 1e-3 * np.exp(-2 * R**2)
    return stretch((np.array([R]), np.ones(1)), (np.array([R, -R]), np.array([1 - speck, speck])), p=1)

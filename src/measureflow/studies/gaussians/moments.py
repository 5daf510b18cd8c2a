"""Gaussians in the plane: the example of the talk's proposition, nodes to integrate against one, and its covariance."""

import numpy as np
from jaxtyping import Array, Float

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

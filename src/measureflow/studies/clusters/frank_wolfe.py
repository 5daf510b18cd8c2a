"""Residual hardmax attention layers: Frank-Wolfe steps towards the token of largest score."""

import jax.numpy as jnp
import numpy as np

from measureflow.fields import HardmaxAttention, Perceptron
from measureflow.flows import layers
from measureflow.measures import Particles
from measureflow.spaces import Euclidean
from measureflow.studies.clusters.polytopes import points

ETA = 0.05


def steps(form: float | np.ndarray, tokens: np.ndarray, eta: float = ETA) -> np.ndarray:
    """The tokens through 500 layers `x + eta (y* - x)` with a form, or a multiple of the identity."""
    A = form * np.eye(2) if np.ndim(form) == 0 else np.asarray(form)
    identity = Perceptron(np.eye(2), np.eye(2), np.zeros(2), activation=jnp.asarray)
    # Hardmax does not see how heavy a token is.
    mu = Particles(Euclidean(2), tokens, np.linspace(1.0, 2.0, len(tokens)))
    return np.asarray(layers(HardmaxAttention(A, np.eye(2), tie=0.0) - identity, mu, 500, eta).map(points))

"""Clouds of tokens and the polytopes they fill: who is outside a hull, who is on its boundary, who is at rest."""

import numpy as np
from jaxtyping import Array, Float
from scipy.spatial import ConvexHull

from measureflow.fields import AbstractField
from measureflow.flows import Adaptive, evolve
from measureflow.measures import Particles


def points(mu: Particles) -> Float[Array, "n d"]:
    """The tokens of a frame."""
    return mu.points


def frames(field: AbstractField, mu: Particles, times: Array) -> np.ndarray:
    """The tokens at given times."""
    return np.asarray(evolve(field, mu, times, Adaptive(1e-10, 1e-11)).map(points))


def excess(cloud: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """For each token how far it is outside the convex hull of a cloud; inside, minus its distance to the boundary."""
    faces = ConvexHull(cloud).equations
    return (tokens @ faces[:, :-1].T + faces[:, -1]).max(1)


def off_boundary(tokens: np.ndarray) -> np.ndarray:
    """For each token its distance to the boundary of the hull of all, or to 0 if that is nearer."""
    return np.minimum(np.abs(excess(tokens, tokens)), np.linalg.norm(tokens, axis=1))


def off_rest(tokens: np.ndarray, form: np.ndarray) -> np.ndarray:
    """For each token `<Bz, z> - max_j <Bz, v_j>` over the vertices of the hull, or its norm if that is less."""
    scores = tokens @ form.T @ tokens.T
    best = scores[:, ConvexHull(tokens).vertices].max(1)
    return np.minimum(np.abs(best - np.diag(scores)), np.linalg.norm(tokens, axis=1))

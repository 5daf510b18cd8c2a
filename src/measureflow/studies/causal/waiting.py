"""Causal flows on the sphere that are waited for: no final time is fixed, because metastable runs are slow."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from measureflow.fields import Causal, SoftmaxAttention
from measureflow.flows import RK4, evolve
from measureflow.measures import Particles
from measureflow.spaces import Sphere

PATIENCE = 2e3
FRAMES = 9
STEP = 0.25
"""Fixed, because equal steps end in the rest points of the flow itself, where steps chosen by their error keep hopping."""


@eqx.filter_jit
@eqx.filter_vmap(in_axes=(0, 0, 0, None))
def leg(A: Array, V: Array, tokens: Float[Array, "n d"], times: Float[Array, " k"]) -> Float[Array, "k n d"]:
    """The tokens of one causal flow at several times."""
    mu = Particles(Sphere(tokens.shape[1]), tokens)
    return evolve(Causal(SoftmaxAttention(A, V)), mu, times, RK4(STEP)).measures.points


def wait(
    A: np.ndarray,
    V: np.ndarray,
    tokens: np.ndarray,
    distance: Callable[[np.ndarray], np.ndarray],
    goal: float,
    patience: float = PATIENCE,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Times, distances at them and last tokens of several flows, in legs twice as long as the one before, until all are there.

    `distance` says how far the tokens `(runs, n, d)` are from where they should end.
    """
    start, length = 0.0, 16.0
    times, far = [np.zeros(1)], [distance(tokens)[:, None]]
    while start < patience and not (far[-1][:, -1] < goal).all():
        later = np.linspace(start, start + length, FRAMES)
        frames = np.asarray(leg(*map(jnp.asarray, (A, V, tokens)), jnp.asarray(later)))
        tokens, start, length = frames[:, -1], start + length, 2 * length
        times.append(later[1:])
        far.append(np.stack([distance(frames[:, i]) for i in range(1, FRAMES)], axis=1))
    return np.concatenate(times), np.concatenate(far, axis=1), tokens


def uniform(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Independent uniform points of the sphere of the last axis."""
    points = rng.normal(size=shape)
    return points / np.linalg.norm(points, axis=-1, keepdims=True)


def matrices(rng: np.random.Generator, runs: int, dim: int) -> np.ndarray:
    """The forms `A = K^T Q` of normal queries and keys, of the size that a layer starts with: `A` has norms about one."""
    Q, K = rng.normal(size=(2, runs, dim, dim)) / np.sqrt(dim)
    return K.mT @ Q


def farthest(tokens: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """The largest distance of a token from where it should end, for each run."""
    return np.linalg.norm(tokens - ends, axis=2).max(1)


def velocities(A: np.ndarray, V: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """The velocities of causal tokens on the sphere, written out: `P_x` of the weighted mean of `V x_j` over the past."""
    seen = np.tri(tokens.shape[-2]) * np.exp(tokens @ A.mT @ tokens.mT)
    mean = seen / seen.sum(-1, keepdims=True) @ tokens @ V.mT
    return mean - (mean * tokens).sum(-1, keepdims=True) * tokens


@eqx.filter_jit
@jax.vmap
def rates(A: Array, V: Array, tokens: Float[Array, "n d"]) -> Float[Array, "n d"]:
    """The same by the library."""
    mu = Particles(Sphere(tokens.shape[1]), tokens)
    return mu.transport(lambda xs: Causal(SoftmaxAttention(A, V))(0.0, xs, mu)).points

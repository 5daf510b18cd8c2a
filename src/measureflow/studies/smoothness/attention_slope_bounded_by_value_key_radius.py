"""How fast the output of attention changes with the query: as `V` times the covariance of what the query sees, times `A`.

Derivatives are differences of what the library computes; covariances, and the potentials of Sinkhorn attention, are in NumPy.
Two opposite tokens seen from the origin reach the bound.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from measureflow.fields import AbstractField, L2Attention, SinkhornAttention, SoftmaxAttention
from measureflow.measures import Particles
from measureflow.plotting import Figure, checks_figure
from measureflow.spaces import Euclidean
from measureflow.studies.base import SMALL, Check, Claim, Size, Verdict, at_most, equal
from measureflow.theory import bounds

CLAIM = Claim(
    "Estimate 2: the query derivative equals V·Cov·A and is at most ‖V‖‖A‖R^2 (softmax, Sinkhorn); L2 attention carries a "
    "factor 2.",
    reference="castin:25",
    where="estimate 2, part II of the talk",
)
KINDS = ("softmax", "Sinkhorn", "L2")
CLOUDS = 300

STEP = 1e-5

Matrix = Float[Array, "d d"]


def derivative(field: AbstractField, x: Float[Array, " d"], mu: Particles) -> Matrix:
    """The derivative of the output with respect to the query, by central differences."""
    steps = STEP * jnp.eye(len(x))
    return (field(0.0, x[None, :] + steps, mu) - field(0.0, x[None, :] - steps, mu)).T / (2 * STEP)


@eqx.filter_jit
@jax.vmap
def slopes(
    Q: Matrix, K: Matrix, V: Matrix, tokens: Float[Array, "n d"], weights: Float[Array, " n"], x: Float[Array, " d"]
) -> Float[Array, "kinds d d"]:
    """The derivatives of the three kinds at one query."""
    A, mu = K.T @ Q, Particles(Euclidean(2), tokens, weights)
    fields = SoftmaxAttention(A, V), SinkhornAttention(A, V, sweeps=20_000), L2Attention(Q, K, V)
    return jnp.stack([derivative(field, x, mu) for field in fields])


def key_potentials(scores: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The potentials `g` of the keys after plain Sinkhorn sweeps, until no column of any cloud changes by 1e-13."""
    kernel, v = np.exp(scores), np.ones_like(weights)
    for _ in range(20_000):
        u = 1 / np.einsum("kij,kj->ki", kernel, weights * v)
        new = 1 / np.einsum("kij,ki->kj", kernel, weights * u)
        settled = np.abs(new / v - 1).max() < 1e-13
        v = new
        if settled:
            break
    return np.log(v)


def covariance(scores: np.ndarray, tokens: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The covariances of weighted tokens under the softmax of scores."""
    seen = weights * np.exp(scores - scores.max(1, keepdims=True))
    seen /= seen.sum(1, keepdims=True)
    centred = tokens - np.einsum("kn,kni->ki", seen, tokens)[:, None]
    return np.einsum("kn,kni,knj->kij", seen, centred, centred)


def formula(Q: np.ndarray, K: np.ndarray, V: np.ndarray, tokens: np.ndarray, weights: np.ndarray, x: np.ndarray):
    """`V Cov A` for the three kinds, with twice of it for the last."""
    A = K.mT @ Q
    bilinear = np.einsum("kni,kij,kj->kn", tokens, A, x)
    potentials = key_potentials(tokens @ A.mT @ tokens.mT, weights)
    far = ((np.einsum("kij,kj->ki", Q, x)[:, None] - tokens @ K.mT) ** 2).sum(2)
    scores = bilinear, bilinear + potentials, -far
    covs = [factor * covariance(s, tokens, weights) for factor, s in zip((1.0, 1.0, 2.0), scores, strict=True)]
    return np.stack([V @ cov @ A for cov in covs], axis=1)


def limits(Q: np.ndarray, K: np.ndarray, V: np.ndarray, radius: np.ndarray) -> np.ndarray:
    """What the estimate allows for the three kinds."""
    value, interaction = (np.linalg.norm(part, 2, axis=(1, 2)) for part in (V, K.mT @ Q))
    one, two = bounds.slope(value, interaction, radius), bounds.l2_slope(value, interaction, radius)
    return np.stack([one, one, two], axis=1)


def measure(*parts: np.ndarray) -> np.ndarray:
    """The derivatives of the three kinds for many clouds."""
    return np.asarray(slopes(*map(jnp.asarray, parts)))


def opposite_pairs(rng: np.random.Generator, radius: np.ndarray) -> tuple[np.ndarray, ...]:
    """Two tokens of equal weight on either side of the origin, along the top directions of `V` and of `A`, and the query 0."""
    count = len(radius)
    u, v, turn = (np.linalg.qr(rng.normal(size=(count, 2, 2)))[0] for _ in range(3))
    V = u @ (np.array([1.5, 0.5])[:, None] * v.mT)
    K = turn @ (np.array([1.2, 0.6])[:, None] * v.mT)
    Q = turn @ (np.array([0.7, 0.3])[:, None] * u.mT)
    tokens = radius[:, None, None] * np.stack([v[:, :, 0], -v[:, :, 0]], axis=1)
    return Q, K, V, tokens, np.full((count, 2), 0.5), np.zeros((count, 2))


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Differentiate three kinds of attention at random queries of 300 clouds of random radius, and at ten sharp cases."""
    rng = np.random.default_rng(seed)
    radius = rng.uniform(0.5, 2.0, CLOUDS)
    Q, K, V = rng.normal(size=(3, CLOUDS, 2, 2))
    Q, K = (part / radius[:, None, None] for part in (Q, K))  # scores of one size, which Sinkhorn sweeps need
    tokens = rng.normal(size=(CLOUDS, 4, 2))  # few, so that some clouds come near the bound
    tokens *= (radius / np.linalg.norm(tokens, axis=2).max(1))[:, None, None]
    weights = rng.uniform(0.5, 1.5, (CLOUDS, 4))
    weights /= weights.sum(1, keepdims=True)
    setting = Q, K, V, tokens, weights, radius[:, None] * rng.normal(size=(CLOUDS, 2))
    measured, limit = measure(*setting), limits(Q, K, V, radius)
    errors = (np.abs(measured - formula(*setting)).max((2, 3)) / limit).max(0)
    steepness = np.linalg.norm(measured, 2, axis=(2, 3))
    ratios = (steepness / limit).max(0)
    sharp = opposite_pairs(rng, radius[:10])
    reached = np.linalg.norm(measure(*sharp), 2, axis=(2, 3)) / limits(sharp[0], sharp[1], sharp[2], radius[:10])
    return CLAIM.judge(
        # Central differences: the square of the step and rounding divided by it.
        *(equal(f"derivative - V Cov A, {kind}", 0.0, e, 1e-8) for kind, e in zip(KINDS, errors, strict=True)),
        # A theorem, so no slack.
        *(at_most(f"slope over its bound, {kind}", 1.0, r) for kind, r in zip(KINDS, ratios, strict=True)),
        equal("slope over its bound, two opposite tokens", np.ones(3), reached.mean(0), 1e-8),
        data=[
            *(at_most(f"slope, {kind}", limit[:, k], steepness[:, k]) for k, kind in enumerate(KINDS)),
            *(
                equal(f"slope over bound, opposite tokens, {kind}", 1.0, reached[:, k], 1e-8)
                for k, kind in enumerate(KINDS)
            ),
        ],
    )


def draw(data: list[Check]) -> Figure:
    """The slope of each cloud against its bound, and how nearly two opposite tokens reach it."""
    return checks_figure(data)

"""How fast the output of attention changes with the query: as `V` times the covariance of what the query sees, times `A`."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from measureflow.fields import AbstractField, L2Attention, SinkhornAttention, SoftmaxAttention
from measureflow.measures import Particles
from measureflow.spaces import Euclidean
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_most, equal
from measureflow.theory import bounds

CLAIM = Claim(
    "Estimate 2: the query derivative equals V·Cov·A and is at most ‖V‖‖A‖R^2 (softmax, Sinkhorn); L2 attention carries a "
    "factor 2.",
    reference="castin:25",
    where="estimate 2, part II of the talk",
)
KINDS = ("softmax", "Sinkhorn", "L2")

STEP = 1e-5

Matrix = Float[Array, "d d"]


def derivative(field: AbstractField, x: Float[Array, " d"], mu: Particles) -> Matrix:
    """The derivative of the output with respect to the query, by central differences."""
    steps = STEP * jnp.eye(len(x))
    return (field(0.0, x[None, :] + steps, mu) - field(0.0, x[None, :] - steps, mu)).T / (2 * STEP)


def covariance(scores: Float[Array, " n"], tokens: Float[Array, "n d"]) -> Matrix:
    """The covariance of tokens under the softmax of scores."""
    weights = jax.nn.softmax(scores)
    centred = tokens - (weights @ tokens)[None, :]
    return centred.T @ (weights[:, None] * centred)


@eqx.filter_jit
@jax.vmap
def slopes(
    Q: Matrix, K: Matrix, V: Matrix, tokens: Float[Array, "n d"], x: Float[Array, " d"]
) -> tuple[Float[Array, "kinds d d"], Float[Array, "kinds d d"]]:
    """The derivatives of the three kinds at one query, and what the formula says."""
    A, mu = K.T @ Q, Particles(Euclidean(2), tokens)
    sinkhorn = SinkhornAttention(A, V)
    measured = [derivative(field, x, mu) for field in (SoftmaxAttention(A, V), sinkhorn, L2Attention(Q, K, V))]
    bilinear = tokens @ A @ x
    scores = [bilinear, bilinear + sinkhorn.potentials(mu).key, -(((Q @ x)[None, :] - tokens @ K.T) ** 2).sum(1)]
    formula = [factor * V @ covariance(s, tokens) @ A for factor, s in zip((1.0, 1.0, 2.0), scores, strict=True)]
    return jnp.stack(measured), jnp.stack(formula)


def run(size: Size = SMALL) -> Verdict:
    """Differentiate three kinds of attention at random queries of 300 random clouds of radius one."""
    rng = np.random.default_rng(0)
    Q, K, V = rng.normal(size=(3, 300, 2, 2))
    V /= np.linalg.norm(V, 2, axis=(1, 2))[:, None, None]
    tokens = rng.normal(size=(300, 4, 2))  # few, so that some clouds come near the bound
    tokens /= np.linalg.norm(tokens, axis=2).max(1)[:, None, None]
    queries = rng.normal(size=(300, 2))
    measured, formula = map(np.asarray, slopes(*map(jnp.asarray, (Q, K, V, tokens, queries))))
    key_query = np.linalg.norm(K.mT @ Q, 2, axis=(1, 2))
    one, two = bounds.slope(1.0, key_query, 1.0), bounds.l2_slope(1.0, key_query, 1.0)
    limit = np.stack([one, one, two], axis=1)
    errors = (np.abs(measured - formula).max((2, 3)) / key_query[:, None]).max(0)
    ratios = (np.linalg.norm(measured, 2, axis=(2, 3)) / limit).max(0)
    return CLAIM.judge(
        # Central differences: the square of the step and rounding divided by it.
        *(equal(f"derivative - V Cov A, {kind}", 0.0, e, 1e-8) for kind, e in zip(KINDS, errors, strict=True)),
        # A theorem, so no slack.
        *(at_most(f"slope over its bound, {kind}", 1.0, r) for kind, r in zip(KINDS, ratios, strict=True)),
    )

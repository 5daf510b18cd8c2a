"""Who looks back is not looked at: under a mask the second token feels the first and not the other way round.

A gradient flow has a symmetric Jacobian, perhaps after multiplying the rows of each token by a positive weight, its metric. A
block that is zero opposite to one that is not stays so under all weights, so no metric of that kind helps.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from measureflow.diagnostics import curl
from measureflow.fields import AbstractField, Causal, SoftmaxAttention, UnnormalisedAttention
from measureflow.measures import Particles
from measureflow.plotting import Figure, draw_table, panels
from measureflow.spaces import Sphere
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_least, equal

CLAIM = Claim(
    "The causal token field has a non-symmetric Jacobian, also after any positive row weighting.",
    reference="karagodin:24",
    where="remark on the causal dynamics",
)
N, CIRCLE = 4, Sphere(2)


@eqx.filter_jit
def jacobian(field: AbstractField, tokens: Float[Array, "n 2"]) -> Float[Array, "n n 2 2"]:
    """The derivative of the velocity of each token with respect to each token, in ambient coordinates."""

    def velocities(points):
        return field(0.0, points, Particles(CIRCLE, points))

    return jax.jacfwd(velocities)(tokens).transpose(0, 2, 1, 3)


def weighted_asymmetry(J: np.ndarray) -> float:
    """The least relative asymmetry that positive weights of rows could leave, from pairs of blocks alone.

    Weights `a` and `b` leave `|a J_ij - b J_ji^T|^2 / (|a J_ij|^2 + |b J_ji|^2) >= 1 - cos` of the angle between the blocks.
    """
    found = []
    for i, j in zip(*np.triu_indices(len(J), 1), strict=True):
        one, other = J[i, j], J[j, i].T
        norms = np.linalg.norm(one) * np.linalg.norm(other)
        found.append(1 - (one * other).sum() / norms if norms else 1.0)
    return float(np.max(found))


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Differentiate the field of four tokens on the circle with Q = K = V = I."""
    angles = np.random.default_rng(seed).uniform(0, 2 * np.pi, N)
    tokens = jnp.asarray(np.stack([np.cos(angles), np.sin(angles)], axis=1))
    causal, plain = Causal(SoftmaxAttention.isotropic(2)), UnnormalisedAttention.isotropic(2)
    J, symmetric = (np.asarray(jacobian(field, tokens)) for field in (causal, plain))
    blocks = np.linalg.norm(J, axis=(2, 3))
    mu = Particles(CIRCLE, tokens)
    return CLAIM.judge(
        equal("blocks of later tokens, largest norm", 0.0, blocks[np.triu_indices(N, 1)].max(), 0.0),  # exact
        # On the directions that its scores do not see the block is the weight P_21 itself, at least 1/(1 + e^2).
        at_least("block of the second token and the first", 1 / (1 + np.e**2), blocks[1, 0]),
        # One where a block faces zero, whatever the weights.
        equal("least asymmetry under positive weights, causal", 1.0, weighted_asymmetry(J), 0.0),
        # A gradient flow has none, but for rounding.
        equal("least asymmetry under positive weights, unnormalised", 0.0, weighted_asymmetry(symmetric), 1e-12),
        at_least("curl, causal", 0.1, curl(causal, mu)),
        equal("curl, unnormalised", 0.0, curl(plain, mu), 1e-12),
        data={"causal": blocks, "unnormalised": np.linalg.norm(symmetric, axis=(2, 3))},
    )


def draw(tables: dict[str, np.ndarray]) -> Figure:
    """How much the velocity of each token changes with each other one, with a mask and for a gradient flow."""
    figure, axes = panels(2, width=4.2, height=4.2)
    for ax, (name, table) in zip(axes, tables.items(), strict=True):
        draw_table(ax, table, name, names=("token moved", "velocity of token"))
    return figure

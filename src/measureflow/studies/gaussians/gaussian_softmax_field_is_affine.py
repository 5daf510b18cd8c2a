"""A Gaussian seen through the softmax kernel is a shifted Gaussian, so its mean is affine in the query."""

import jax.numpy as jnp
import numpy as np

from measureflow.fields import MultiHead, SoftmaxAttention
from measureflow.measures import Gaussian
from measureflow.plotting import Figure, checks_figure
from measureflow.studies.base import SMALL, Check, Claim, Size, Verdict, at_least, equal
from measureflow.studies.gaussians.moments import nodes
from measureflow.theory import gaussian as theory

CLAIM = Claim(
    "On N(α,Σ) softmax attention is V(α+ΣAx), and multi-head attention is the sum over heads.",
    reference="castin:25",
    where="lemma on the attention map, part III of the talk",
)


def attention(xs, ys, weights, A, V):
    """Softmax attention on weighted tokens, written out."""
    kernel = weights * np.exp(xs @ A.T @ ys.T)
    return kernel @ ys @ V.T / kernel.sum(1, keepdims=True)


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Two random heads on a random Gaussian, by 60 x 60 nodes and in closed form."""
    rng = np.random.default_rng(seed)
    A, V = rng.normal(size=(2, 2, 2, 2)) / 2
    mean, root, xs = rng.normal(size=2), rng.normal(size=(2, 2)) / 1.5, rng.normal(size=(20, 2))
    cov = root @ root.T
    z, w = nodes(60)
    ys = mean + z @ root.T
    heads = [attention(xs, ys, w, A[h], V[h]) for h in range(2)]
    mu = Gaussian(mean, cov)
    field = MultiHead([SoftmaxAttention(A[h], V[h]) for h in range(2)])
    L, b = theory.softmax(jnp.asarray(mean), jnp.asarray(cov), jnp.asarray(A[0]), jnp.asarray(V[0]))
    one = attention(ys, ys, w, A[0], V[0])
    mixed = (w[:, None] * one).T @ (ys - mean)
    rate = np.asarray(L @ cov + cov @ L.T)
    extra = V[0] @ cov + cov @ V[0].T
    return CLAIM.judge(
        # Quadrature of exponentials of this size is exact up to rounding.
        equal("one head - V(α+ΣAx)", 0.0, np.abs(heads[0] - xs @ np.asarray(L).T - np.asarray(b)).max(), 1e-10),
        equal(
            "two heads - flow of the Gaussian", 0.0, np.abs(sum(heads) - field(0.0, jnp.asarray(xs), mu)).max(), 1e-10
        ),
        equal("covariance rate - (LΣ+ΣL^T)", 0.0, np.abs(mixed + mixed.T - rate).max(), 1e-10),
        at_least(
            "covariance rate - (LΣ+ΣL^T+VΣ+ΣV^T) of a summary", 1e-3, np.abs(mixed + mixed.T - rate - extra).max()
        ),
        data=[
            equal("attention of a head against V(α+ΣAx)", xs @ np.asarray(L).T + np.asarray(b), heads[0], 1e-10),
            equal("rate of the covariance against LΣ+ΣL^T", rate, mixed + mixed.T, 1e-10),
        ],
    )


def draw(data: list[Check]) -> Figure:
    """Attention by quadrature against the affine function, and the rate of the covariance that follows."""
    return checks_figure(data)

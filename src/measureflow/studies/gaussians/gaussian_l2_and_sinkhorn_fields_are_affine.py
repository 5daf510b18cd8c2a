"""Kernels that are exponentials of quadratics keep Gaussians: L2 attention, and Sinkhorn attention at its fixed point."""

import jax.numpy as jnp
import numpy as np

from measureflow.fields import L2Attention, SinkhornAttention
from measureflow.measures import Gaussian
from measureflow.plotting import Figure, checks_figure
from measureflow.studies.base import SMALL, Check, Claim, Size, Verdict, equal
from measureflow.studies.gaussians.moments import nodes
from measureflow.theory import gaussian as theory

CLAIM = Claim(
    "L2 and Sinkhorn attention are also affine on Gaussians.",
    reference="castin:25",
    where="lemma on the attention map, part III of the talk",
)


def sinkhorn(ys, weights, A, sweeps: int) -> np.ndarray:
    """The kernel on weighted tokens divided by its row and column masses in turn."""
    k = np.exp(ys @ A.T @ ys.T)
    for _ in range(sweeps):
        k /= (k @ weights)[:, None]
        k /= weights @ k
    return k


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Random matrices, by quadrature and in closed form."""
    rng = np.random.default_rng(seed + 1)
    A, V, Q, K, root = (M / np.linalg.norm(M, 2) for M in rng.normal(size=(5, 2, 2)))
    A, Q, K = A / 2, Q / 2, K / 2  # so small that quadrature and normalisation reach rounding for every draw
    mean = rng.normal(size=2)
    cov = root @ root.T + 0.1 * np.eye(2)
    z, w = nodes(size.pick(24, 40))
    ys = mean + z @ np.linalg.cholesky(cov).T
    xs = ys[w > 1e-12]  # where the law is
    mu, points, *arrays = Gaussian(mean, cov), *map(jnp.asarray, (xs, mean, cov, A, V, Q, K))
    m, S, Aj, Vj, Qj, Kj = arrays

    kernel = w * np.exp(-(((xs @ Q.T)[:, None] - (ys @ K.T)[None]) ** 2).sum(-1))
    l2 = kernel @ ys @ V.T / kernel.sum(1, keepdims=True)
    doubly = (sinkhorn(ys, w, A, 200)[w > 1e-12] * w) @ ys @ V.T
    closed = {"l2": theory.l2(m, S, Qj, Kj, Vj), "sinkhorn": theory.sinkhorn(m, S, Aj, Vj)}
    predicted = {name: xs @ np.asarray(f.slope).T + np.asarray(f.shift) for name, f in closed.items()}
    return CLAIM.judge(
        equal("L2: quadrature - closed form", 0.0, np.abs(l2 - predicted["l2"]).max(), 1e-10),  # rounding
        equal("L2: flow of the Gaussian - closed form", 0.0,
              np.abs(L2Attention(Q, K, V)(0.0, points, mu) - predicted["l2"]).max(), 1e-10),
        # Linear convergence of the alternating normalisation.
        equal("Sinkhorn: normalisation - closed form", 0.0, np.abs(doubly - predicted["sinkhorn"]).max(), 1e-8),
        equal("Sinkhorn: flow of the Gaussian - closed form", 0.0,
              np.abs(SinkhornAttention(A, V)(0.0, points, mu) - predicted["sinkhorn"]).max(), 1e-8),
        data=[equal("L2 attention by quadrature", predicted["l2"], l2, 1e-10),
              equal("Sinkhorn attention by normalisation", predicted["sinkhorn"], doubly, 1e-8)],
    )  # fmt: skip


def draw(data: list[Check]) -> Figure:
    """Attention on the nodes of a quadrature rule against the affine functions."""
    return checks_figure(data)

"""The Jacobian of attention written out in NumPy: the formula that the library's derivatives are judged by.

With the attention matrix `P`, its means `m_i` and covariances `Cov_i`, a change `e` of the tokens changes the output of token `i`
by `V [Σ_j P_ij e_j + Cov_i A e_i + Σ_j P_ij (x_j - m_i) <A x_i, e_j>]`: keys move, the query moves, scores move. Under a mask
`P` is lower triangular and nothing else changes.
"""

import numpy as np
from scipy.sparse.linalg import LinearOperator, svds

from measureflow.fields import AbstractField, Causal, SoftmaxAttention

MASKS = ("plain", "masked")


def attention(A, V, mask: str) -> AbstractField:
    """Softmax attention of the library, masked or not."""
    return SoftmaxAttention(A, V) if mask == "plain" else Causal(SoftmaxAttention(A, V))


def attention_matrix(A: np.ndarray, tokens: np.ndarray, mask: str) -> np.ndarray:
    """The weights `P_ij`, how much token `i` looks at token `j`."""
    scores = tokens @ A.mT @ tokens.mT
    if mask == "masked":
        scores = np.where(np.tri(tokens.shape[-2], dtype=bool), scores, -np.inf)
    kernel = np.exp(scores - scores.max(-1, keepdims=True))
    return kernel / kernel.sum(-1, keepdims=True)


def three_terms(A: np.ndarray, V: np.ndarray, tokens: np.ndarray, mask: str) -> np.ndarray:
    """What moving keys, queries and scores contribute to the Jacobians, `(3, ..., n d, n d)`."""
    n, d = tokens.shape[-2:]
    P = attention_matrix(A, tokens, mask)
    centred = tokens[..., None, :, :] - (P @ tokens)[..., :, None, :]
    cov = np.einsum("...ij,...ija,...ijb->...iab", P, centred, centred, optimize=True)
    seen = P[..., None] * (centred @ V.mT[..., None, :, :])
    keys = np.einsum("...ij,...ab->...iajb", P, V)
    queries = np.einsum("...iab,ij->...iajb", V[..., None, :, :] @ cov @ A[..., None, :, :], np.eye(n))
    scores = np.einsum("...ija,...ib->...iajb", seen, tokens @ A.mT)
    return np.stack([part.reshape(*part.shape[:-4], n * d, n * d) for part in (keys, queries, scores)])


def jacobian(A: np.ndarray, V: np.ndarray, tokens: np.ndarray, mask: str) -> np.ndarray:
    """The Jacobians of attention, `(..., n d, n d)`."""
    return three_terms(A, V, tokens, mask).sum(0)


def in_the_ball(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Independent uniform draws in the unit ball of the last axis."""
    points = rng.normal(size=shape)
    points /= np.linalg.norm(points, axis=-1, keepdims=True)
    return points * rng.uniform(size=(*shape[:-1], 1)) ** (1 / shape[-1])


def norm(A: np.ndarray, V: np.ndarray, x: np.ndarray, mask: str) -> float:
    """The norm of the Jacobian by Lanczos steps on products with its three terms, which never form it."""
    (n, d), P = x.shape, attention_matrix(A, x, mask)
    m, queries = P @ x, x @ A.T
    cov = np.einsum("ij,ja,jb->iab", P, x, x, optimize=True) - m[:, :, None] * m[:, None, :]

    def push(e):
        e = e.reshape(n, d)
        scores = P * (queries @ e.T)
        change = P @ e + np.einsum("iab,ib->ia", cov, e @ A.T) + scores @ x - scores.sum(1, keepdims=True) * m
        return (change @ V.T).ravel()

    def pull(f):
        f = f.reshape(n, d) @ V
        scores = P * (f @ x.T - (f * m).sum(1, keepdims=True))
        return (P.T @ f + np.einsum("iab,ib->ia", cov, f) @ A + scores.T @ queries).ravel()

    start = np.random.default_rng([n, d]).normal(size=n * d)  # Lanczos steps may start anywhere
    shape = (n * d, n * d)
    J = LinearOperator(shape, matvec=push, rmatvec=pull, dtype=float)  # pyright: ignore[reportCallIssue]
    found = svds(J, k=1, return_singular_vectors=False, tol=1e-3, v0=start)  # pyright: ignore[reportArgumentType]
    return float(found[0])  # pyright: ignore[reportArgumentType]

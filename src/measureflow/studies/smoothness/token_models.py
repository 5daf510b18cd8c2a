"""Models of tokens for which attention may be more or less steep, all on the sphere that layer norm puts them on.

Weights are those of a fresh layer: normal queries, keys and values, with scores `g <Qx, Ky> / √d` of deviation about `g`.
"""

from collections.abc import Callable

import numpy as np
from scipy.sparse.linalg import LinearOperator, svds

from measureflow.studies.smoothness.jacobian import attention_matrix

Model = Callable[[np.random.Generator, int, int], np.ndarray]


def on_the_sphere(points: np.ndarray) -> np.ndarray:
    """The points in their directions at the distance `√d`."""
    return points * np.sqrt(points.shape[1]) / np.linalg.norm(points, axis=1, keepdims=True)


def independent(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    """Independent uniform tokens."""
    return on_the_sphere(rng.normal(size=(n, d)))


def mixture(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    """Tokens about eight centres, three times closer to theirs than centres are to each other."""
    return on_the_sphere(rng.normal(size=(8, d))[rng.integers(0, 8, n)] + rng.normal(size=(n, d)) / 3)


def autoregressive(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    """Tokens that remember the one before: an AR(1) sequence with the coefficient 0.9."""
    noise, x = rng.normal(size=(n, d)), np.zeros((n, d))
    x[0] = noise[0]
    for i in range(1, n):
        x[i] = 0.9 * x[i - 1] + np.sqrt(1 - 0.9**2) * noise[i]
    return on_the_sphere(x)


def repeated(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    """Words of a vocabulary of 10 000, the k-th as often as 1/k (Zipf's law), each with one place."""
    shares = 1 / np.arange(1, 10_001)
    words, at = np.unique(rng.choice(10_000, n, p=shares / shares.sum()), return_inverse=True)
    return on_the_sphere(rng.normal(size=(len(words), d)))[at]


MODELS: dict[str, Model] = {
    "independent": independent,
    "mixture of eight": mixture,
    "autoregressive": autoregressive,
    "repeated by Zipf's law": repeated,
}


def weights(rng: np.random.Generator, d: int, gain: float) -> tuple[np.ndarray, np.ndarray]:
    """The form `A = g K^T Q / √d` and the values of a fresh layer."""
    Q, K, V = rng.normal(size=(3, d, d)) / np.sqrt(d)
    return gain * K.T @ Q / np.sqrt(d), V


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

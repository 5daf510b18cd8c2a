"""Clouds in which everybody looks at one token: where it goes all go, and attention is as steep as it can be."""

import numpy as np

from measureflow.theory import bounds


def tempting(A: np.ndarray, radius: float, n: int) -> np.ndarray:
    """Tokens along a real eigenvector of `A`, the first of which outweighs each other by `e^{2 R² gamma}`.

    For the eigenvalue `l < 0` it stands at `-R` and the others at `R`; for `l > 0` it stands at `R` and the others at `R/2`.
    """
    eigenvalues, vectors = np.linalg.eig(A)
    real = np.where(np.imag(eigenvalues) == 0, np.real(eigenvalues), 0.0)
    best = int(np.argmax(np.maximum(-real, real / 8)))
    along = np.real(vectors[:, best])
    first, rest = (-1.0, 1.0) if real[best] < 0 else (1.0, 0.5)
    return radius * np.outer(np.r_[first, np.full(n - 1, rest)], along / np.linalg.norm(along))


def lower_bound(A: np.ndarray, radius: float, n: np.ndarray | int) -> np.ndarray:
    """What the cloud is sure to reach."""
    return np.asarray(bounds.adversarial_lipschitz(n, bounds.temptation(A), radius))

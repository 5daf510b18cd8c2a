"""Causal flows with Q = K = I whose value matrix has a top eigenspace."""

import numpy as np

from measureflow.studies.causal.waiting import farthest, uniform, wait

N, DIM = 12, 3
LINE, PLANE = (1.0, 0.6, 0.3), (1.0, 1.0, 0.3)
GOAL = 1e-8


def values(rng: np.random.Generator, eigenvalues: tuple[float, ...], runs: int) -> tuple[np.ndarray, np.ndarray]:
    """Symmetric matrices with given eigenvalues in random directions, and the projections onto their top eigenspaces."""
    U = np.linalg.qr(rng.normal(size=(runs, DIM, DIM)))[0]
    spectra = np.array(eigenvalues)
    return U @ (spectra[:, None] * U.mT), U @ ((spectra == spectra.max())[:, None] * U.mT)


def normalised(points: np.ndarray) -> np.ndarray:
    """The points on the sphere in the same directions."""
    return points / np.linalg.norm(points, axis=-1, keepdims=True)


def off_the_line(tokens: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """The largest distance of a token from the nearer of two opposite ends."""
    signs = np.sign((tokens * ends).sum(2, keepdims=True))
    return farthest(tokens, np.where(signs == 0, 1.0, signs) * ends)


class Ends:
    """Where flows end: the last tokens, with the projections of the first token on the top eigenspace and on its complement."""

    def __init__(self, rng: np.random.Generator, eigenvalues: tuple[float, ...], runs: int):
        V, top = values(rng, eigenvalues, runs)
        A, self.start = np.tile(np.eye(DIM), (runs, 1, 1)), uniform(rng, (runs, N, DIM))
        first = self.start[:, 0]
        self.inside = normalised(np.einsum("kij,kj->ki", top, first))[:, None]
        self.outside = normalised(first[:, None] - np.einsum("kij,kj->ki", top, first)[:, None])
        distance = off_the_line if eigenvalues == LINE else farthest
        self.times, self.far, self.last = wait(A, V, self.start, lambda now: distance(now, self.inside), GOAL)

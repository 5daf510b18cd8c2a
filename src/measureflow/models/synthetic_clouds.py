"""Synthetic clouds of tokens, random, each with one property of a text: none, a few topics, memory, or words that repeat."""

from collections.abc import Callable

import numpy as np

from measureflow.precision import keep_all

SyntheticCloud = Callable[[np.random.Generator, int, int], np.ndarray]
"""From a source of randomness, a number of tokens and of coordinates to tokens at the distance `√d`."""


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


SYNTHETIC_CLOUDS: dict[str, SyntheticCloud] = {
    "independent": independent,
    "mixture of eight": mixture,
    "autoregressive": autoregressive,
    "repeated by Zipf's law": repeated,
}
"""Synthetic clouds by name."""


keep_all(globals())

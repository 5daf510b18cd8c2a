"""Points of the plane and beyond in two classes that no line parts."""

import numpy as np


def quadrants(rng: np.random.Generator, count: int, dim: int) -> tuple[np.ndarray, np.ndarray]:
    """Normal points, by the sign of the product of their first two coordinates."""
    x = rng.normal(size=(count, dim))
    return x, np.sign(x[:, 0] * x[:, 1])


def shells(rng: np.random.Generator, count: int, dim: int) -> tuple[np.ndarray, np.ndarray]:
    """Normal points, by whether they are farther from the centre than half of them."""
    x = rng.normal(size=(count, dim))
    length = (x**2).sum(1)
    return x, np.where(length > np.median(length), 1.0, -1.0)

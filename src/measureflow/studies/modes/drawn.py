"""Density estimates of normal tokens, drawn again and again, with their modes counted one by one."""

from typing import NamedTuple

import numpy as np

from measureflow.diagnostics import line_modes


class Counts(NamedTuple):
    """The mean number of modes over draws, and its standard error."""

    mean: float
    error: float


def counted(n: int, beta: float, draws: int, rng: np.random.Generator) -> Counts:
    """The modes of so many draws of n standard normal tokens."""
    found = [len(line_modes(np.sort(rng.normal(size=n)), beta)) for _ in range(draws)]
    return Counts(float(np.mean(found)), float(np.std(found, ddof=1) / np.sqrt(draws)))

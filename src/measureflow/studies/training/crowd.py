"""The flow of many heads of the first fixture, whose approximations the studies of chaos compare."""

import numpy as np

from measureflow.measures import Particles
from measureflow.spaces import Euclidean
from measureflow.training import Descent, InverseTime, fixtures

TIMES = np.linspace(0.0, 0.5, 6)
FIELD = Descent(fixtures.f1(), InverseTime(2.0))


def heads(count: int, seed: int) -> Particles:
    """The first heads of a draw."""
    return Particles(Euclidean(24), 0.5 * np.random.default_rng(seed + 7).standard_normal((8192, 24))[:count])

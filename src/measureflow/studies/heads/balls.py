"""The first fixture with heads in balls, and the best measure of such heads."""

import functools

from measureflow.studies.base import Size
from measureflow.training import Optimum, fixtures, frank_wolfe

RISK = fixtures.f1


def balls():
    """Frobenius balls of radius two for queries and keys, one for values and outputs."""
    return RISK().heads.balls(query=2.0, key=2.0, value=1.0, output=1.0)


@functools.cache
def optimum(size: Size) -> Optimum:
    """The best measure of heads in the balls."""
    return frank_wolfe(RISK(), balls(), starts=size.pick(32, 192), steps=150, tolerance=5e-7)

"""Attention on the circle in the angle, where speeds far below rounding are still exact, through mergers at astronomic times.

In coordinates a token moves by `P_x(x + small)`, and what is below 1e-16 is lost beside `x`; differences of angles lose nothing.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from measureflow.annotations import Number
from measureflow.fields import AbstractField
from measureflow.flows import Adaptive, evolve
from measureflow.measures import Particles
from measureflow.spaces import Euclidean

SOLVER = Adaptive(1e-9, 1e-11)
MERGE = 1e-6
"""The distance at which tokens go on as one: they have come from distances above 1e-2 by then, and move by less than it."""


class Angles(AbstractField):
    """Attention of tokens on the circle, `sum_j w_j e^{beta (cos(a_j - a) - 1)} sin(a_j - a)`, divided by its mass or not."""

    beta: Number
    normalised: bool = True

    def __call__(self, t: Number, xs: Float[Array, "m 1"], mu: Any) -> Float[Array, "m 1"]:
        """The speed of each angle."""
        away = mu.points[:, 0][None] - xs
        kernel = mu.weights[None] * jnp.exp(-2 * self.beta * jnp.sin(away / 2) ** 2)
        mass = kernel.sum(1, keepdims=True) if self.normalised else 1.0
        return (kernel * jnp.sin(away)).sum(1, keepdims=True) / mass


def on_line(angles: np.ndarray, masses: np.ndarray | None = None) -> Particles:
    """Tokens at given angles."""
    return Particles(Euclidean(1), np.asarray(angles)[:, None], masses)


def energy(mu: Particles, beta: float) -> Float[Array, ""]:
    """The energy `sum_ij w_i w_j e^{beta (<x_i, x_j> - 1)}`, at most one."""
    away = mu.points - mu.points.T
    return mu.weights @ jnp.exp(-2 * beta * jnp.sin(away / 2) ** 2) @ mu.weights


class Followed(NamedTuple):
    """The logarithms of the times of events, which they were, the tokens there, and the tokens at the end."""

    log_times: np.ndarray
    which: np.ndarray
    angles: np.ndarray
    final: np.ndarray


def follow(field: Angles, mu: Particles, end: float, events: Callable[[Any], Any], most: int) -> Followed:
    """Tokens to the end of time, with events on the way, at most so many between two mergers.

    Clusters that are about to meet move ever faster, until no step shows on a clock that reads 1e59. The field does not depend
    on time, so the clock starts again at zero where that happens, and times are added up.
    """
    passed, found = 0.0, []
    while True:
        path = evolve(field, mu, np.array([0.0, end]), SOLVER, events=events, most_events=most, merge=MERGE)
        assert path.events is not None
        for time, which, points in zip(path.events.times, path.events.which, path.events.measures.points, strict=True):
            found.append((np.log(passed + float(time)), int(which), np.asarray(points[:, 0])))
        if not path.outcome.time > 0:
            raise RuntimeError(f"No step shows even on a clock that starts again. {path.outcome}")
        passed, mu = passed + float(path.outcome.time), path.final
        if path.outcome.ok:
            log_times, whiches, angles = (np.array(part) for part in zip(*found, strict=True))
            return Followed(log_times, whiches, angles, np.asarray(mu.points[:, 0]))

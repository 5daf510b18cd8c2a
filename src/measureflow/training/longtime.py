"""Training for a long time: how fast the risk settles, and what is conserved on the way.

Near a limit the dissipation is bounded by a power of the gap, `D >= c gap^{2 alpha}`. With `alpha = 1/2` the gap falls
exponentially, otherwise like `t^{-1/(2 alpha - 1)}`. Fits are made in windows of the gap; only a last window that agrees with
the one before is called converged.
"""

from itertools import pairwise
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from measureflow.annotations import Numbers
from measureflow.flows import Trajectory
from measureflow.measures import AbstractMeasure, Particles
from measureflow.precision import keep_all
from measureflow.training.families import AbstractFamily
from measureflow.training.risk import AbstractRisk

AGREE = 0.03
"""How close the exponents of the last two windows must be for a fit to count as converged."""


class Exponent(NamedTuple):
    """Exponents fitted in successive windows, the last of them with its constant, and whether they have settled."""

    value: float
    constant: float
    windows: np.ndarray
    converged: bool


def kl_exponent(gap: Numbers, dissipation: Numbers, windows: int = 3) -> Exponent:
    """The exponent `alpha` of `D = c gap^{2 alpha}`, from a run whose gap falls."""
    x, y = np.log(np.asarray(gap, float)), np.log(np.asarray(dissipation, float))
    fits = [np.polyfit(x[part], y[part], 1) for part in _windows(-x, windows)]
    return _settled(np.array([slope / 2 for slope, _ in fits]), float(np.exp(fits[-1][1])))


def decay_exponent(times: Numbers, values: Numbers, windows: int = 3) -> Exponent:
    """The exponent of a power law in time, in windows of equal ratio."""
    x, y = np.log(np.asarray(times, float)), np.log(np.asarray(values, float))
    fits = [np.polyfit(x[part], y[part], 1) for part in _windows(x, windows)]
    return _settled(np.array([slope for slope, _ in fits]), float(np.exp(fits[-1][1])))


def _windows(x: np.ndarray, count: int) -> list[np.ndarray]:
    edges = np.linspace(x[0], x[-1], count + 1)
    parts = [(a <= x) & (x <= b) for a, b in pairwise(edges)]
    if min(part.sum() for part in parts) < 3:
        raise ValueError(
            f"`windows` {count} leaves a window with fewer than three frames; save more frames or fewer windows."
        )
    return parts


def _settled(slopes: np.ndarray, constant: float) -> Exponent:
    settled = len(slopes) > 1 and abs(slopes[-1] - slopes[-2]) <= AGREE
    return Exponent(float(slopes[-1]), constant, slopes, bool(settled))


def divergence_gap(risk: AbstractRisk, logits: Float[Array, "*s V"], mu: AbstractMeasure) -> Float[Array, ""]:
    """The excess risk over realisable predictions, as a mean of divergences, for cross-entropy `KL(y || softmax(z))`.

    The difference of two risks loses its digits below 1e-12; divergences keep them.
    """
    return jnp.sum(risk.shares * risk.criterion.divergence(risk.logits(mu), logits))


def balance_drift(family: AbstractFamily, path: Trajectory[Particles]) -> Float[Array, " k"]:
    """How far what gradient flow conserves for each particle has moved, worst entry by frame.

    For heads `W_Q^T W_Q - W_K^T W_K` and `W_V^T W_V - W_O W_O^T`, for ReLU neurons `|a|^2 - |w|^2 - b^2`. What they move is the
    error of the integrator, or of the samples.
    """
    points = path.measures.points
    kept = eqx.filter_jit(jax.vmap(jax.vmap(family.balance)))(points)
    if not kept:
        raise ValueError(f"Gradient flow conserves nothing that is known for {type(family).__name__}.")
    moved = [jnp.abs(part - part[:1]).reshape(len(points), -1).max(1) for part in kept]
    return jnp.stack(moved).max(0)


def confinement(path: Trajectory[Particles]) -> Float[Array, " k"]:
    """The largest norm of a particle by frame; a bounded one makes the orbit precompact."""
    points: Array = path.measures.points
    return jnp.linalg.norm(points, axis=-1).max(-1)


keep_all(globals())

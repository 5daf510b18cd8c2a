"""Perceptrons fitted to give clouds their shapes: a flow of tokens one by one that brings each near the place it is paired with.

The pairing is the optimal one, found again after every round of descent: `W_2` is what is left in the end.
"""

from collections.abc import Sequence
from typing import Any, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float

from measureflow.fields import Packed, Perceptron, Schedule, Sum
from measureflow.flows import RK4, evolve
from measureflow.measures import Particles
from measureflow.precision import keep_all
from measureflow.transport import coupling

PIECES = 4
"""Perceptrons that follow each other."""
ROUNDS = 12
"""How often tokens are paired with their targets anew."""
STEPS = 150
"""Steps of descent after each pairing."""

DESCENT = optax.adam(5e-3)


def fitted(
    inputs: Sequence[Particles],
    targets: Sequence[Particles],
    after: Sequence[tuple[Sum, float]],
    width: int,
    rng: np.random.Generator,
) -> list[Perceptron]:
    """Perceptrons, each for a unit of time, after which, and what comes `after`, inputs are near their targets."""
    pack = Packed(Perceptron.drift(np.zeros(inputs[0].space.dim)), [len(mu.points) for mu in inputs])
    start, later = Packed.pack(inputs), _later(after)
    mlps = _units(np.asarray(start.points), width, rng)
    state = DESCENT.init(cast(Any, mlps))
    for k in range(ROUNDS):
        ends = pack.unpack(_flow(mlps, later, start, pack.sizes))
        goals = jnp.concatenate([_paired(mu, nu) for mu, nu in zip(ends, targets, strict=True)])
        slower = jnp.asarray(0.5 * (1 + np.cos(np.pi * k / ROUNDS)), start.points.dtype)
        mlps, state = _descend(mlps, state, later, start, pack.sizes, goals, slower)
    return [jax.tree.map(lambda leaf, k=k: leaf[k], mlps) for k in range(PIECES)]


def _units(points: np.ndarray, width: int, rng: np.random.Generator) -> Perceptron:
    """Perceptrons that do nothing yet, with the kinks of their units through tokens drawn at random."""
    d = points.shape[1]
    U = rng.normal(size=(PIECES, width, d))
    U *= 2 / np.linalg.norm(U, axis=-1, keepdims=True)
    through = points[rng.integers(len(points), size=(PIECES, width))]
    b = -np.einsum("khd,khd->kh", U, through)
    mlps = [Perceptron(np.zeros((d, width)), U[k], b[k]) for k in range(PIECES)]
    return jax.tree.map(lambda *leaves: jnp.stack(leaves).astype(points.dtype), *mlps)


def _later(after: Sequence[tuple[Sum, float]]) -> tuple[Schedule, Float[Array, ""]] | None:
    if not after:
        return None
    ends = np.cumsum([duration for _, duration in after])
    return Schedule([field for field, _ in after], ends[:-1]), jnp.asarray(ends[-1], float)


@eqx.filter_jit
def _flow(mlps: Perceptron, later, start: Particles, sizes: tuple[int, ...]) -> Particles:
    turns = Schedule([jax.tree.map(lambda leaf, k=k: leaf[k], mlps) for k in range(PIECES)], np.arange(1.0, PIECES))
    end = evolve(turns, start, [0.0, float(PIECES)], RK4(0.25)).final
    if later is None:
        return end
    field, duration = later
    times = jnp.stack([jnp.zeros_like(duration), duration])
    return evolve(Packed(field, sizes), end, times, RK4(0.25)).final


def _paired(mu: Particles, nu: Particles) -> Float[Array, "n d"]:
    """The mean of the places that each token is paired with."""
    found = coupling(mu, nu)
    moments = jnp.zeros_like(mu.points).at[found.sources].add(found.masses[:, None] * nu.points[found.targets])
    return moments / mu.weights[:, None]


@eqx.filter_jit
def _descend(mlps, state, later, start: Particles, sizes: tuple[int, ...], goals, slower):
    """So many steps of descent of the mean squared distance to the goals."""

    def loss(mlps):
        return start.weights @ jnp.sum((_flow(mlps, later, start, sizes).points - goals) ** 2, -1)

    def step(carry, _):
        mlps, state = carry
        with jax.numpy_dtype_promotion("standard"):  # optax counts steps by whole numbers
            updates, state = DESCENT.update(jax.grad(loss)(mlps), state)
        return (jax.tree.map(lambda leaf, by: leaf + slower * by, mlps, updates), state), None

    return jax.lax.scan(step, (mlps, state), None, length=STEPS)[0]


keep_all(globals())

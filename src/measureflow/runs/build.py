"""From a configuration to the objects of a flow: the one table between words and types."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import diffrax as dfx
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from measureflow.energies import AbstractEnergy, BilinearEnergy, InteractionEnergy
from measureflow.fields import AbstractField, MomentClosure, Unit
from measureflow.flows import RK4, AbstractSolver, Adaptive, Euler, Heun, Langevin, Stiff, Trajectory, layers, legs
from measureflow.flows.evolve import prepared
from measureflow.measures import AbstractMeasure
from measureflow.runs.config import FIXED_STEP, InputError, Simulation
from measureflow.runs.laws import numbers_in, start_of
from measureflow.runs.weights import Head, field_of
from measureflow.spaces import Sphere

SOLVERS = {"adaptive": Adaptive, "stiff": Stiff, "euler": Euler, "heun": Heun, "rk4": RK4}


class Problem(NamedTuple):
    """Everything a flow needs, the energy to watch, and how tokens are looked at."""

    config: Simulation
    field: AbstractField
    start: Any
    times: Float[Array, " k"]
    solver: AbstractSolver
    kicks: dfx.AbstractSolver | None
    energy: AbstractEnergy

    def legs(self) -> Iterator[Trajectory]:
        """The legs of the run, continuous or layer by layer."""
        if self.config.layers:
            return self._layers()
        size, merge = self.config.frames_per_leg, self.config.merge
        return legs(self.field, self.start, self.times, self.solver, size, self.kicks, merge)

    def _layers(self) -> Iterator[Trajectory]:
        mu, first, step = self.start, 0, self.times[1] - self.times[0]
        while first < self.config.layers:
            # The first piece also has the start as a frame: one layer less, so that pieces fill whole chunks of the store.
            size = self.config.frames_per_leg if first else max(1, self.config.frames_per_leg - 1)
            depth = min(size, self.config.layers - first)
            path = layers(self.field, mu, depth, step, first=first)
            yield path if first == 0 else path.since(1)
            if not path.outcome.ok:
                return
            mu, first = path.final, first + depth

    def seen(self, mu: Any) -> Any:
        """The tokens as they are looked at: their directions where a norm leaves radii free."""
        if self.config.norm == "none" or self.config.space == "sphere":
            return mu
        sphere = Sphere(mu.space.dim)
        return eqx.tree_at(lambda m: m.space, mu.push(Unit()), sphere)


def build(config: Simulation) -> Problem:
    """The flow that a configuration describes."""
    try:
        start = start_of(config)
        given = None if config.matrices is None else _matrices(config.matrices, start.space.dim)
        field = field_of(config, start.space.dim, given)
        field = MomentClosure(field) if config.closure else field
        times = jnp.linspace(0.0, config.time, config.frame_count)
        parts = prepared(field, start, times, _solver(config))
        kicks = _kicks(config, start, parts[2], parts[3])
    except InputError:
        raise
    except ValueError as error:
        hint = " `--closure` does that." if "MomentClosure" in str(error) else ""
        raise InputError(f"{error}{hint}") from None
    energy = InteractionEnergy(config.beta) if given is None else BilinearEnergy(given[0][0])
    return Problem(config, *parts, kicks, energy)  # pyright: ignore[reportArgumentType]


def _solver(config: Simulation) -> AbstractSolver:
    return SOLVERS[config.solver](config.dt if config.solver in FIXED_STEP else config.rtol)


def _kicks(
    config: Simulation, start: AbstractMeasure, times: Float[Array, " k"], solver: AbstractSolver
) -> dfx.AbstractSolver | None:
    if config.noise is None:
        return None
    key = jax.random.fold_in(jax.random.key(config.seed), 2 * 10**6)
    return Langevin(config.noise).kicks(start, times, solver, key)


def _matrices(file: str, dim: int) -> list[Head]:
    """The heads of a file: matrices, or stacks of them with one for each head."""
    held = numbers_in(file)
    if not isinstance(held, dict):
        raise InputError(f"`matrices`: {file!r} must be an npz file with A, or Q and K, and optionally V.")
    unknown = set(held) - {"A", "Q", "K", "V"}
    if unknown or not ({"A"} <= set(held) or {"Q", "K"} <= set(held)) or ("A" in held and {"Q", "K"} & set(held)):
        raise InputError(f"`matrices`: {file!r} must hold A, or Q and K, and optionally V; it holds {sorted(held)}.")
    stacks = {name: matrix[None] if matrix.ndim == 2 else matrix for name, matrix in held.items()}
    A = stacks["A"] if "A" in stacks else np.swapaxes(stacks["K"], -1, -2) @ stacks["Q"]
    V = stacks.get("V", np.broadcast_to(np.eye(dim), (len(A), dim, dim)))
    for name, matrix in (("A", A), ("V", V)):
        if matrix.shape != (len(A), dim, dim):
            raise InputError(
                f"`matrices`: {name} must be {dim} x {dim} for tokens with `dim` {dim}; got {held.get(name, A).shape}."
            )
    return [(jnp.asarray(a), jnp.asarray(v)) for a, v in zip(A, V, strict=True)]

"""From a configuration to the objects of a flow: the one table between words and types."""

from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from measureflow.energies import BilinearEnergy, InteractionEnergy
from measureflow.energies.base import AbstractEnergy
from measureflow.fields import AbstractAttention, SoftmaxAttention, UnnormalisedAttention
from measureflow.flows import RK4, AbstractSolver, Adaptive, Euler, Heun, Stiff
from measureflow.flows.evolve import prepared
from measureflow.measures import Particles
from measureflow.runs.config import FIXED_STEP, LAWS, InputError, Simulation
from measureflow.spaces import AbstractSpace, Euclidean, Sphere

SPACES = {"sphere": Sphere, "euclidean": Euclidean}
ATTENTIONS = {"softmax": SoftmaxAttention, "unnormalised": UnnormalisedAttention}
SOLVERS = {"adaptive": Adaptive, "stiff": Stiff, "euler": Euler, "heun": Heun, "rk4": RK4}

BLOBS, SPREAD = 5, 0.2
"""How many blobs the law `clusters` has, and the spread of the laws `clusters` and, on a sphere, `gaussian`."""


class Problem(NamedTuple):
    """Everything a flow needs, and the energy to watch."""

    field: AbstractAttention
    start: Particles
    times: Float[Array, " k"]
    solver: AbstractSolver
    energy: AbstractEnergy


def build(config: Simulation) -> Problem:
    """The flow that a configuration describes."""
    try:
        start = _start(config)
        field, energy = _attention(config, start.space.dim)
        times = jnp.linspace(0.0, config.time, config.frames)
        parts = prepared(field, start, times, _solver(config))
    except InputError:
        raise
    except ValueError as error:
        raise InputError(str(error)) from None
    return Problem(*parts, energy)  # pyright: ignore[reportArgumentType]


def _solver(config: Simulation) -> AbstractSolver:
    return SOLVERS[config.solver](config.dt if config.solver in FIXED_STEP else config.rtol)


def _attention(config: Simulation, dim: int) -> tuple[AbstractAttention, AbstractEnergy]:
    kind = ATTENTIONS[config.attention]
    if config.matrices is None:
        return kind.isotropic(dim, config.beta), InteractionEnergy(config.beta)
    A, V = _matrices(config.matrices, dim)
    return kind(A, V), BilinearEnergy(A)


def _matrices(file: str, dim: int) -> tuple[np.ndarray, np.ndarray]:
    held = _load(file)
    if not isinstance(held, dict):
        raise InputError(f"`matrices`: {file!r} must be an npz file with A, or Q and K, and optionally V.")
    unknown = set(held) - {"A", "Q", "K", "V"}
    if unknown or not ({"A"} <= set(held) or {"Q", "K"} <= set(held)) or ("A" in held and {"Q", "K"} & set(held)):
        raise InputError(f"`matrices`: {file!r} must hold A, or Q and K, and optionally V; it holds {sorted(held)}.")
    A = held["A"] if "A" in held else held["K"].T @ held["Q"]
    V = held.get("V", np.eye(dim))
    for name, matrix in (("A", A), ("V", V)):
        if matrix.shape != (dim, dim):
            raise InputError(
                f"`matrices`: {name} must be {dim} x {dim} for tokens with `dim` {dim}; got {matrix.shape}."
            )
    return A, V


def _start(config: Simulation) -> Particles:
    if config.init not in LAWS:
        return _from_file(config)
    space = SPACES[config.space](config.dim)
    key = jax.random.key(config.seed)
    return Particles(space, jax.vmap(space.project)(_draw(config, space, key)))


def _draw(config: Simulation, space: AbstractSpace, key: Array) -> Float[Array, "n d"]:
    shape = (config.n, config.dim)
    ball = isinstance(space, Euclidean)
    match config.init:
        case "uniform" if ball:
            return jax.random.uniform(key, shape, minval=-1.0, maxval=1.0)
        case "uniform":
            return Particles.iid(space, config.n, key=key).points
        case "gaussian" if ball:
            return jax.random.normal(key, shape)
        case "gaussian":
            return jnp.eye(config.dim)[-1:] + SPREAD * jax.random.normal(key, shape)
        case _:
            centres_key, blob_key, noise_key = jax.random.split(key, 3)
            centres = Particles.iid(space, BLOBS, key=centres_key).points
            blobs = jax.random.randint(blob_key, (config.n,), 0, BLOBS)
            return centres[blobs] + SPREAD * jax.random.normal(noise_key, shape)


def _from_file(config: Simulation) -> Particles:
    held = _load(config.init)
    if isinstance(held, dict) and "points" not in held:
        raise InputError(
            f"`init`: {config.init!r} must hold `points` and optionally `weights`; it holds {sorted(held)}."
        )
    points, weights = (held["points"], held.get("weights")) if isinstance(held, dict) else (held, None)
    given = config.model_fields_set
    if points.ndim != 2:
        raise InputError(f"`init`: {config.init!r} must hold tokens as rows; its array has shape {points.shape}.")
    for name, got in zip(("n", "dim"), points.shape, strict=True):
        if name in given and getattr(config, name) != got:
            raise InputError(
                f"`{name}` is {getattr(config, name)} but {config.init!r} has shape {points.shape}; drop `{name}`."
            )
    if config.project and config.space == "sphere":
        points = points / np.linalg.norm(points, axis=1, keepdims=True)
    try:
        return Particles(SPACES[config.space](points.shape[1]), points, weights)
    except ValueError as error:
        hint = " `--project` does that." if "norm" in str(error) else ""
        raise InputError(f"`init`: {config.init!r}: {error}{hint}") from None


def _load(file: str) -> np.ndarray | dict[str, np.ndarray]:
    try:
        match Path(file).suffix:
            case ".npz":
                with np.load(file) as held:
                    return {name: np.asarray(held[name], np.float64) for name in held.files}
            case ".npy":
                return np.asarray(np.load(file), np.float64)
            case _:
                return np.loadtxt(file, delimiter="," if Path(file).suffix == ".csv" else None, ndmin=2)
    except Exception as error:
        raise InputError(f"Cannot read numbers from {file!r}: {str(error).rstrip('.')}.") from None

"""Where a run starts: one word, one law, whether it is drawn as tokens or moved as the limit of infinitely many.

With the same `init` and `seed`, tokens are a sample of the law that the limit starts from:

- `uniform`: the sphere, or a cube; `gaussian`: a standard normal, on a sphere one blob around the last axis;
- `clusters`: equal blobs around drawn centres, `N(c, s² I)`, and on a sphere the directions of that;
- `ripples`: nearly uniform on the circle or the usual sphere, with a wave of each low degree along a drawn axis.
"""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.stats import norm
from jaxtyping import Array, Float

from measureflow.measures import CircleDensity, Gaussian, GaussianMixture, Particles, SphereDensity
from measureflow.measures.sphere import globe
from measureflow.runs.config import LAWS, InputError, Simulation
from measureflow.spaces import AbstractSpace, Euclidean, Sphere

SPACES = {"sphere": Sphere, "euclidean": Euclidean}

BLOBS, SPREAD = 5, 0.2
"""How many blobs the law `clusters` has, and the spread of the laws `clusters` and, on a sphere, `gaussian`."""
WAVES, RIPPLE = 8, 0.5
"""The highest degree of the law `ripples`, and a bound on how far its density is from uniform, relatively."""
FINE = {2: 64, 3: 24}
"""Modes from which tokens of the law `ripples` are drawn: more than its degree needs, for cells that are small."""


def start_of(config: Simulation) -> Any:
    """The measure from which a run starts."""
    return {"particles": _tokens, "gaussian": _gaussian, "mixture": _mixture, "circle": _density, "sphere": _density}[
        config.measure
    ](config)


def _tokens(config: Simulation) -> Particles:
    if config.init not in LAWS:
        return _tokens_of_file(config)
    space = SPACES[config.space](config.dim)
    key = jax.random.key(config.seed)
    return Particles(space, jax.vmap(space.project)(_draw(config, space, key)))


def _draw(config: Simulation, space: AbstractSpace, key: Array) -> Float[Array, "n d"]:
    shape = (config.n, config.dim)
    flat = isinstance(space, Euclidean)
    match config.init:
        case "uniform" if flat:
            return jax.random.uniform(key, shape, minval=-1.0, maxval=1.0)
        case "uniform":
            return Particles.iid(space, config.n, key=key).points
        case "gaussian" if flat:
            return jax.random.normal(key, shape)
        case "gaussian":
            return jnp.eye(config.dim)[-1:] + SPREAD * jax.random.normal(key, shape)
        case "ripples":
            return _law(config, FINE[config.dim]).sample(config.n, key=jax.random.fold_in(key, 1)).points
        case _:
            _, blob_key, noise_key = jax.random.split(key, 3)
            blobs = jax.random.randint(blob_key, (config.n,), 0, BLOBS)
            return _centres(config)[blobs] + SPREAD * jax.random.normal(noise_key, shape)


def _centres(config: Simulation) -> Float[Array, "k d"]:
    """The middles of the blobs of a law."""
    if config.init == "gaussian":
        return jnp.eye(config.dim)[-1:]
    key = jax.random.split(jax.random.key(config.seed), 3)[0]
    return Particles.iid(SPACES[config.space](config.dim), BLOBS, key=key).points


def _gaussian(config: Simulation) -> Gaussian:
    if config.init in LAWS:
        return Gaussian(jnp.zeros(config.dim), jnp.eye(config.dim))
    held = _held(config, "mean", "cov")
    return Gaussian(held["mean"], held["cov"])


def _mixture(config: Simulation) -> GaussianMixture:
    if config.init not in LAWS:
        held = _held(config, "weights", "means", "covs")
        return GaussianMixture(held["weights"], held["means"], held["covs"])
    if config.init == "gaussian":
        return GaussianMixture(jnp.ones(1), jnp.zeros((1, config.dim)), jnp.eye(config.dim)[None])
    covs = jnp.tile(SPREAD**2 * jnp.eye(config.dim), (BLOBS, 1, 1))
    return GaussianMixture(jnp.full(BLOBS, 1 / BLOBS), _centres(config), covs)


def _density(config: Simulation) -> CircleDensity | SphereDensity:
    modes = config.modes or 0
    if config.init in LAWS:
        return _law(config, modes)
    held = numbers_in(config.init)
    values = np.ravel(_named(config, held, "density")["density"] if isinstance(held, dict) else held)
    return CircleDensity(values) if config.measure == "circle" else SphereDensity(values, modes)


def _law(config: Simulation, modes: int) -> Any:
    """The density of a law with a number of moments or up to a degree."""
    nodes = _nodes(config.dim, modes)
    values = _height(config, jnp.asarray(nodes, float))
    try:
        return SphereDensity(values, modes) if config.dim == 3 else CircleDensity(values)
    except ValueError:
        raise InputError(f"`modes` {modes} are too few for the law {config.init!r}: take more.") from None


def _nodes(dim: int, modes: int) -> np.ndarray:
    if dim == 3:
        return globe(modes).nodes
    angles = 2 * np.pi * np.arange(2 * modes + 1) / (2 * modes + 1)
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


def _height(config: Simulation, xs: Float[Array, "m d"]) -> Float[Array, " m"]:
    """The density of a law at points of the circle or sphere."""
    even = 1 / (2 * jnp.pi * (config.dim - 1))
    match config.init:
        case "uniform":
            return jnp.full(len(xs), even)
        case "ripples":
            return even * (1 + RIPPLE * _waves(config, xs))
        case _:
            return jax.vmap(lambda c: blob(xs, c))(_centres(config)).mean(0)


def _waves(config: Simulation, xs: Float[Array, "m d"]) -> Float[Array, " m"]:
    """The mean of one wave of each degree along its own axis, a Chebyshev or Legendre polynomial: between -1 and 1."""
    key = jax.random.fold_in(jax.random.key(config.seed), 2)
    t = xs @ Particles.iid(Sphere(config.dim), WAVES, key=key).points.T
    before, now = jnp.ones_like(t), t
    waves = []
    for k in range(1, WAVES + 1):
        waves.append(now[:, k - 1])
        up = (2 * t * now - before) if config.dim == 2 else ((2 * k + 1) * t * now - k * before) / (k + 1)
        before, now = now, up
    return jnp.stack(waves).mean(0)


def blob(xs: Float[Array, "m d"], centre: Float[Array, " d"]) -> Float[Array, " m"]:
    """The density of the direction of `N(c, s² I)` with a unit centre, on the circle or the usual sphere.

    With `b = <x, c>/s` it is `(2π)^{-d/2} e^{-1/2s²} ∫ u^{d-1} e^{bu - u²/2} du`; the integral is `1 + bM` on the circle and
    `b + (1 + b²) M` on the sphere, with `M = Φ(b)/φ(b)` the integral of the exponential.
    """
    d = len(centre)
    b, bottom = xs @ centre / SPREAD, jnp.exp(-0.5 / SPREAD**2)
    M = norm.cdf(b) * jnp.sqrt(2 * jnp.pi) * jnp.exp((b**2 - SPREAD**-2) / 2)  # times e^{-1/2s²}, so that it is small
    integral = bottom + b * M if d == 2 else b * bottom + (1 + b**2) * M
    return integral / (2 * jnp.pi) ** (d / 2)


def _held(config: Simulation, *names: str) -> dict[str, np.ndarray]:
    held = _named(config, numbers_in(config.init), *names)
    dim = held[names[1] if names[0] == "weights" else names[0]].shape[-1:]
    if "dim" in config.model_fields_set and dim != (config.dim,):
        raise InputError(f"`dim` is {config.dim} but {config.init!r} has {names[0]} of shape {held[names[0]].shape}.")
    return held


def _named(config: Simulation, held: Any, *names: str) -> dict[str, np.ndarray]:
    """The arrays of a file if they are those that a limit needs."""
    words = " and ".join(f"`{name}`" for name in names)
    if not isinstance(held, dict):
        raise InputError(f"`init`: {config.init!r} must be an npz file with {words} for `measure` {config.measure}.")
    if set(held) != set(names):
        raise InputError(f"`init`: {config.init!r} must hold {words}; it holds {sorted(held)}.")
    return held


def _tokens_of_file(config: Simulation) -> Particles:
    held = numbers_in(config.init)
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


def numbers_in(file: str) -> np.ndarray | dict[str, np.ndarray]:
    """The arrays of a file by name, or its one array."""
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

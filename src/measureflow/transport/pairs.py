"""Two measures that can be compared: on one space, of mass one, with a cost between their points.

The cost is a power of the geodesic distance of the space, so the same code serves Euclidean space, the circle and the
sphere. The libraries that solve transport problems are extras, loaded when a function first needs them.
"""

import importlib
import warnings
from types import ModuleType

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from measureflow import checks
from measureflow.measures import AbstractMeasure, Gaussian, GaussianMixture, Particles, Sequence
from measureflow.precision import keep_all
from measureflow.spaces import AbstractSpace

Order = int | float
"""The order p of a distance W_p."""
Spatial = Particles | Sequence | Gaussian | GaussianMixture
"""Measures that know their space."""


def library(name: str) -> ModuleType:
    """A library of the extra `transport`, or a sentence that says how to get it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # OTT loads JAXopt, which announces its own end
            return importlib.import_module(name)
    except ImportError as missing:
        package = {"ot": "POT"}.get(name.split(".")[0], "ott-jax")
        raise ImportError(
            f"This needs {package}, which is not installed: `pip install 'measureflow[transport]'` brings it."
        ) from missing


def comparable(mu: AbstractMeasure, nu: AbstractMeasure, p: Order) -> tuple[Particles, Particles]:
    """The two measures, if they are particles of mass one on one space and `p` is an order; otherwise a sentence."""
    pair = _particles("mu", mu), _particles("nu", nu)
    same_space(*pair)
    order(p)
    return pair


def _particles(name: str, mu: AbstractMeasure) -> Particles:
    if isinstance(mu, Sequence):
        raise TypeError(
            f"`{name}` is a Sequence, whose positions a plain distance would ignore: use `transport.conditional`, or "
            "compare the tokens alone with `.tokens`."
        )
    if isinstance(mu, GaussianMixture):
        raise TypeError(
            f"`{name}` is a GaussianMixture, for which W_p has no closed form: use `transport.mixture_distance`, a bound from "
            "above, or draw tokens from it."
        )
    if not isinstance(mu, Particles):
        raise TypeError(f"`{name}` must be Particles; got {type(mu).__name__}. Draw tokens from it first.")
    unit_mass(name, mu)
    return mu


def same_space(mu: Spatial, nu: Spatial) -> None:
    """Refuse measures on different spaces."""
    same = eqx.tree_equal(mu.space, nu.space)
    if checks.concrete(same) and not same:
        raise ValueError(
            f"`mu` lives on {mu.space} and `nu` on {nu.space}; a distance needs one space. Rebuild one of them on the "
            "space of the other."
        )


def unit_mass(name: str, mu: Particles | Gaussian | GaussianMixture) -> None:
    """Refuse a measure that was reweighted and not normalised."""
    mu = mu.parts if isinstance(mu, GaussianMixture) else mu
    logs = mu.log_mass if isinstance(mu, Gaussian) else mu.log_weights
    if checks.concrete(logs):
        mass = float(np.exp(np.asarray(logs, np.float64)).sum())
        if not abs(mass - 1) < 1e-5:  # what summing a million weights of float32 may lose
            raise ValueError(
                f"`{name}` has mass {mass:g}, and mass cannot be created on the way: both measures need mass 1. "
                "A new measure with these points and weights has it."
            )


def order(p: Order) -> None:
    """Refuse orders for which W_p is no distance."""
    if not (np.isfinite(p) and p >= 1):
        raise ValueError(f"`p` must be a finite number from 1 on; got {p}. Below 1 the triangle inequality fails.")


def cost(space: AbstractSpace, x: Float[Array, " d"], y: Float[Array, " d"], p: Order) -> Float[Array, ""]:
    """The cost `distance(x, y)^p` of moving one point, with derivative zero where the points coincide."""
    same = jnp.all(x == y)
    # A root has no derivative at zero, so the distance is taken to another point there and thrown away.
    return jnp.where(same, 0.0, space.distance(x, jnp.where(same, y + 1.0, y)) ** p)


@jax.jit(static_argnames="p")
def costs(space: AbstractSpace, xs: Float[Array, "n d"], ys: Float[Array, "m d"], p: Order) -> Float[Array, "n m"]:
    """The costs of moving every point to every other."""
    return jax.vmap(lambda x: jax.vmap(lambda y: cost(space, x, y, p))(ys))(xs)


keep_all(globals())

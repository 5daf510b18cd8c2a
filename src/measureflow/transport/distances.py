"""Distances between measures: Wasserstein, sliced, and conditional on the position.

`wasserstein` picks the way by what it is given: sorting on a line and on a circle, the network simplex of POT
elsewhere, a closed form for Gaussians. All are exact up to rounding, work under `jit`, `vmap` and `path.map`, and have
first derivatives with respect to the points.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from measureflow import checks
from measureflow.annotations import RandomKey
from measureflow.measures import AbstractMeasure, Gaussian, Particles, Sequence
from measureflow.precision import keep_all
from measureflow.spaces import Sphere
from measureflow.transport.gaussians import gaussian_cost
from measureflow.transport.line import circle_cost, line_cost
from measureflow.transport.pairs import Order, comparable, cost, order, same_space, unit_mass
from measureflow.transport.simplex import simplex_cost


def wasserstein(mu: AbstractMeasure, nu: AbstractMeasure, p: Order = 2) -> Float[Array, ""]:
    """The least cost of moving one measure onto the other: `W_p = (min ∫ distance^p)^{1/p}`.

    The distance is that of the space, so the angle on circle and sphere. Two Diracs are as far apart as their points.
    """
    if isinstance(mu, Gaussian) and isinstance(nu, Gaussian):
        return jnp.sqrt(_gaussian(mu, nu, p))
    return _cost(*comparable(mu, nu, p), p) ** (1 / p)


def _gaussian(mu: Gaussian, nu: Gaussian, p: Order) -> Float[Array, ""]:
    for name, measure in (("mu", mu), ("nu", nu)):
        unit_mass(name, measure)
    same_space(mu, nu)
    if p != 2:
        raise ValueError(f"`p` must be 2 for Gaussians, which have no closed form for other orders; got {p}.")
    return gaussian_cost(mu.mean, mu.cov, nu.mean, nu.cov)


@eqx.filter_jit
def _cost(mu: Particles, nu: Particles, p: Order) -> Float[Array, ""]:
    if mu.space.convex and mu.space.dim == 1:
        return line_cost(mu.points[:, 0], mu.weights, nu.points[:, 0], nu.weights, p)
    if mu.space.spherical and mu.space.dim == 2:
        angles = (jnp.arctan2(m.points[:, 1], m.points[:, 0]) for m in (mu, nu))
        return circle_cost(next(angles), mu.weights, next(angles), nu.weights, p)
    return simplex_cost(mu, nu, p)


def sliced(
    mu: AbstractMeasure, nu: AbstractMeasure, p: Order = 2, *, slices: int = 256, key: RandomKey = 0
) -> Float[Array, ""]:
    """The mean of one-dimensional distances over random directions of the ambient space.

    `SW_p^p = E_theta W_p^p(<theta, mu>, <theta, nu>)`: a shift by `a` in dimension `d` gives `|a| / sqrt(d)` at `p = 2`.
    The directions are those of the key, so two calls with one key are comparable; their sampling error is that of a
    mean of `slices` terms.
    """
    mu, nu = comparable(mu, nu, p)
    if slices < 1:
        raise ValueError(f"`slices` must be at least 1; got {slices}.")
    thetas = Particles.iid(Sphere(mu.space.dim), slices, key=key) if mu.space.dim > 1 else None
    directions = jnp.ones((1, 1), mu.points.dtype) if thetas is None else thetas.points.astype(mu.points.dtype)

    def one(theta):
        return line_cost(mu.points @ theta, mu.weights, nu.points @ theta, nu.weights, p)

    return jax.lax.map(one, directions, batch_size=16).mean() ** (1 / p)


def conditional(mu: AbstractMeasure, nu: AbstractMeasure, p: Order = 2) -> Float[Array, ""]:
    """The distance of two sequences when tokens may only move to tokens at their own position.

    `d_p^p = ∫ W_p(mu^s, nu^s)^p dtheta(s)` if the positions of both have the same law `theta`, and infinity otherwise.
    Where positions are distinct nothing is matched: `d_p^p` is the mean of `distance(x_i, y_i)^p` (castin:25).
    """
    mu, nu = _sequence("mu", mu), _sequence("nu", nu)
    same_space(mu, nu)
    order(p)
    if not checks.concrete(mu, nu):
        raise ValueError(
            "`conditional` groups tokens by position, so the positions must be known: call it outside of `jit`, `vmap` "
            "and `path.map`, as in `[conditional(frame, nu) for frame in path]`."
        )
    (at, mass, ours), (there, theirs_mass, theirs) = _by_position(mu), _by_position(nu)
    # Positions and masses are equal up to how they were rounded in float32.
    if at.shape != there.shape or not np.allclose([at, mass], [there, theirs_mass], rtol=1e-5, atol=1e-7):
        return jnp.full((), jnp.inf, mu.points.dtype)
    if len(at) == len(mu.points) == len(nu.points):
        i, j = np.concatenate(ours), np.concatenate(theirs)
        total = mu.weights[i] @ jax.vmap(lambda x, y: cost(mu.space, x, y, p))(mu.points[i], nu.points[j])
    else:
        parts = zip(mass, ours, theirs, strict=True)
        total = jnp.stack([m * _cost(_part(mu.tokens, i), _part(nu.tokens, j), p) for m, i, j in parts]).sum()
    return total ** (1 / p)


def _sequence(name: str, mu: AbstractMeasure) -> Sequence:
    if not isinstance(mu, Sequence):
        raise TypeError(f"`{name}` must be a Sequence, tokens with positions; got {type(mu).__name__}.")
    unit_mass(name, mu.tokens)
    return mu


def _by_position(seq: Sequence) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    """The positions that occur, the mass at each, and which tokens are there."""
    at, group, count = np.unique(np.asarray(seq.positions), return_inverse=True, return_counts=True)
    mass = np.bincount(group, np.asarray(seq.weights))
    return at, mass, np.split(np.argsort(group, kind="stable"), np.cumsum(count)[:-1])


def _part(tokens: Particles, which: np.ndarray) -> Particles:
    return Particles(tokens.space, tokens.points[which], tokens.weights[which])


keep_all(globals())

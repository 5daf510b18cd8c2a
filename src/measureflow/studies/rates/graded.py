"""Axially symmetric densities on a quadrature that is graded towards both poles.

With `p = log tan(θ/2)` a point has the height `-tanh p` and the distance `1/cosh p` from the axis, and the uniform law has the
density `cosh(p)^{1-d}` in `p`: the trapezoid rule is exact up to `e^{-π²/h}`. Near the poles nodes come closer together
exponentially, as they must, because attention tears the antipode apart at an exponential rate. At beta = 0 all `p` fall
together, `p' = -m` with the mean `m`.
"""

import functools
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from measureflow.fields import AbstractAttention
from measureflow.flows import Adaptive, evolve
from measureflow.measures.parcels import AxialParcels
from measureflow.spaces import Sphere
from measureflow.sums import Auto


def heights(reach: float, step: float) -> np.ndarray:
    """The nodes `p`, up to `e^{-reach}` from the poles."""
    most = int(np.ceil(reach / step))
    return step * np.arange(-most, most + 1)


def start(dim: int, density: Callable[[np.ndarray], np.ndarray], p: np.ndarray) -> AxialParcels:
    """Parcels of a density of the height over the uniform law."""
    z, s = -np.tanh(p), 1 / np.cosh(p)
    masses = density(z) * s ** (dim - 1)
    points = np.zeros((len(p), dim))
    points[:, 0], points[:, 1] = z, s
    log_weights, engine = jnp.asarray(np.log(masses / masses.sum())), Auto().on(Sphere(dim))
    return AxialParcels(jnp.asarray(points), log_weights, engine, 4)  # pyright: ignore[reportCallIssue, reportArgumentType]


def distance(mu: AxialParcels) -> Float[Array, ""]:
    """The Wasserstein distance `W_2` to all mass at the pole, with chords: no cancellation where little is left."""
    z, s = mu.points[:, 0], mu.points[:, 1]
    below = jnp.where(z > 0, s**2 / (1 + jnp.abs(z)), 1 - z)  # 1 - z
    return jnp.sqrt(mu.weights @ (2 * below))


@eqx.filter_jit
def distances(
    model: type[AbstractAttention],
    betas: Float[Array, " b"],
    mu: AxialParcels,
    times: Float[Array, " k"],
    rtol: float = 1e-8,
) -> Float[Array, "b k"]:
    """How far a density is from the pole, for each beta; steps keep parcels by the antipode to a relative precision."""

    def one(beta):
        return evolve(model.isotropic(mu.space.dim, beta), mu, times, Adaptive(rtol, 1e-14)).map(distance)

    return jax.lax.map(one, betas)


@functools.partial(jax.jit, static_argnums=2)
def shifted(masses: Float[Array, " n"], p: Float[Array, " n"], steps: int, end: Float[Array, ""]) -> Float[Array, " k"]:
    """The same distance at beta = 0 by another road: Runge-Kutta steps for the one number `q = ∫m`, on nodes `p - q`."""
    dt = end / steps

    def mean(q):
        return masses @ -jnp.tanh(p - q)

    def left(q):
        # 1 + tanh x = 2 e^{2x} / (1 + e^{2x}), without cancellation.
        return jnp.sqrt(masses @ (4 * jax.nn.sigmoid(2 * (p - q))))

    def step(q, _):
        a = mean(q)
        b = mean(q + dt / 2 * a)
        c = mean(q + dt / 2 * b)
        d = mean(q + dt * c)
        return q + dt / 6 * (a + 2 * b + 2 * c + d), left(q)

    return jax.lax.scan(step, jnp.zeros(()), length=steps + 1)[1]

"""Constants of the theory, measured where a run has been: bounds of features, gradient domination, and the basin of a rest point.

Suprema are taken over particles that were met or drawn, so that bounds from above are estimates from below; what is exact for
those particles is said to be so, and nothing more.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from measureflow.annotations import RandomKey
from measureflow.energies import AbstractEnergy
from measureflow.measures import Particles
from measureflow.measures.cloud import as_key
from measureflow.precision import keep_all
from measureflow.spaces import Euclidean
from measureflow.training.families import Theta
from measureflow.training.perturbation import matrix, splitting
from measureflow.training.risk import AbstractRisk, parts

KERNEL = 3000
"""The most predictions whose tangent kernel is diagonalised."""


class FeatureBounds(NamedTuple):
    """The largest norms of features and of their first two derivatives, over data and given particles.

    Second derivatives are measured in the Frobenius norm, which is never below the operator norm.
    """

    value: float
    slope: float
    curvature: float

    @property
    def total(self) -> float:
        """The constant `C_0` of the theory."""
        return self.value + self.slope + self.curvature


def feature_bounds(risk: AbstractRisk, points: Float[Array, "n D"]) -> FeatureBounds:
    """Bounds of features on given particles."""
    return FeatureBounds(*(float(part.max()) for part in _feature_norms(risk, points)))


@eqx.filter_jit
def _feature_norms(risk: AbstractRisk, points: Float[Array, "n D"]) -> tuple[Array, Array, Array]:
    """For each particle and datum the norms of features, Jacobians and second derivatives."""
    units = jnp.eye(points.shape[1], dtype=points.dtype)

    def one(theta):
        def row(unit):
            along = lambda x: jax.jvp(risk.features, (x,), (unit,))[1]  # noqa: E731
            return jnp.sum(jax.jacfwd(along)(theta) ** 2, (-2, -1))

        J = jax.jacfwd(risk.features)(theta)
        bend = jnp.sqrt(jax.lax.map(row, units).sum(0))
        return jnp.linalg.norm(risk.features(theta), axis=-1), jnp.linalg.norm(J, ord=2, axis=(-2, -1)), bend

    return jax.lax.map(one, points)


class Domination(NamedTuple):
    """The constant `c` of `D >= c gap` at a measure: twice the least eigenvalue of the tangent kernel `K` among residuals that
    can occur, the least share of a datum, and the least ratio of squared residual to twice the excess loss."""

    constant: float
    kernel: float
    loss: float


@eqx.filter_jit
def tangent_kernel(risk: AbstractRisk, mu: Particles) -> Float[Array, "p p"]:
    """The matrix `K = ∫ J(theta) J(theta)^T dmu` over all predictions, with which `D = r^T K r` for residuals `r`."""

    def one(theta):
        J = jax.jacfwd(risk.features)(theta).reshape(-1, mu.points.shape[1])
        return J @ J.T

    size = risk.targets.size
    add = lambda total, pack: (total + pack[0] * one(pack[1]), None)  # noqa: E731
    return jax.lax.scan(add, jnp.zeros((size, size), mu.points.dtype), (mu.weights, mu.points))[0]


def domination(risk: AbstractRisk, mu: Particles) -> Domination:
    """A constant of gradient domination at a measure, from feature Jacobians and the loss: `D(mu) >= c (R(mu) - floor)`.

    Residuals of cross-entropy add up to zero over the classes, and only such ones count. The constant is zero where fewer
    parameters move than there are predictions.
    """
    if risk.targets.size > KERNEL:
        raise ValueError(
            f"`risk` has {risk.targets.size} predictions; the tangent kernel is diagonalised for at most {KERNEL}. Take fewer "
            "data, such as `risk.draw(key, size)`."
        )
    z = risk.logits(mu)
    K, residuals = np.asarray(tangent_kernel(risk, mu)), np.asarray(risk.criterion.residual(z, risk.targets))
    excess = np.asarray(risk.criterion(z, risk.targets) - risk.criterion.floor(risk.targets))
    ratio = (np.sum(residuals**2, -1) / np.maximum(2 * excess, np.finfo(float).tiny)).min()
    basis = _possible(residuals)
    least = max(0.0, float(np.linalg.eigvalsh(basis @ K @ basis.T)[0]))
    share = float(np.asarray(risk.shares).min())
    return Domination(2 * least * share * float(ratio), least, float(ratio))


def _possible(residuals: np.ndarray) -> np.ndarray:
    """Orthonormal rows that span the residuals that can occur: those of sum zero at each datum if all have it."""
    V = residuals.shape[-1]
    count = residuals.size // V
    flat = V > 1 and np.abs(residuals.sum(-1)).max() < 1e-9 * max(1.0, np.abs(residuals).max())
    each = np.linalg.svd(np.ones((1, V)))[2][1:] if flat else np.eye(V)
    return np.kron(np.eye(count), each)


class Basin(NamedTuple):
    """A ball around a rest point from which every measure returns: all particles within `radius` come back, and `W_2` falls at
    least like `exp(-rate t)` under the profile 1; `reach` is the ball that they never leave."""

    radius: float
    rate: float
    reach: float


def basin(
    energy: AbstractEnergy, theta: Theta, *, largest: float = 1.0, samples: int = 256, key: RandomKey = 0
) -> Basin:
    """The basin of a particle at rest whose Hessian is positive definite, from the proof of its stability.

    In the ball of radius `r` the particles come back at `lambda - r (L_3 + k E C_1 C_2) / 2`, where `lambda` is the least
    eigenvalue of the Hessian of `Psi`, `L_3` the Lipschitz constant of that Hessian, `C_1` and `C_2` the norms of the
    derivatives of the features and `k` the curvature of the loss. The ball is such that half of `lambda` is left; a particle
    may be drawn outwards by the others while they come back, so that the start must be closer by `1 + 2 k E C_1^2 / (e
    lambda)`. Suprema are over samples.
    """
    risk, _ = parts(energy)
    mu = Particles(Euclidean(len(theta)), theta[None])
    least = float(jnp.linalg.eigvalsh(matrix(splitting, energy, mu))[0])
    if least <= 0:
        raise ValueError(
            f"`theta` has no basin: the Hessian of Psi has the eigenvalue {least:.4g} there, so that particles part."
        )
    reach, k = largest, risk.criterion.smoothness
    offsets = jax.random.ball(as_key(key), len(theta), shape=(samples,), dtype=theta.dtype)
    for _ in range(60):
        third, mixed, slope = (float(part) for part in _around(energy, risk, theta, reach * offsets))
        change = third + k * mixed
        if reach * change <= least:
            return Basin(reach / (1 + 2 * k * slope / (np.e * least)), least, reach)
        reach = max(least / change, reach / 2)
    raise AssertionError("a smaller ball always has smaller suprema")


@eqx.filter_jit
def _around(energy: AbstractEnergy, risk: AbstractRisk, theta: Theta, offsets: Float[Array, "m D"]):
    """In a ball: how fast the Hessian of `Psi` changes, `E C_1 C_2` and `E C_1^2`."""
    mu = Particles(Euclidean(len(theta)), theta[None])

    def hessian(x):
        return jax.hessian(lambda x: energy.variation(mu, x[None])[0])(x)

    def change(h):
        return jnp.linalg.norm(hessian(theta + h) - hessian(theta), ord=2) / jnp.linalg.norm(h)

    _, slopes, bends = _feature_norms(risk, theta[None] + offsets)
    most = lambda part: part.max(0)  # noqa: E731
    return (
        jax.vmap(change)(offsets).max(),
        jnp.sum(risk.shares * most(slopes) * most(bends)),
        jnp.sum(risk.shares * most(slopes) ** 2),
    )


keep_all(globals())

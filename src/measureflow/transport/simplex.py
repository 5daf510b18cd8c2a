"""Exact couplings of particles by the network simplex of POT.

The best coupling of `n` and `m` particles is a tree with at most `n + m - 1` branches, which is all that is kept of it.
It lives on the host; the cost along its branches is computed in JAX, so it can be mapped over frames, compiled and
differentiated: to first order the coupling itself does not move (envelope theorem).
"""

from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from measureflow import checks
from measureflow.measures import AbstractMeasure, Particles
from measureflow.spaces import AbstractSpace, Euclidean, Sphere
from measureflow.transport.pairs import Order, comparable, cost, costs, library


@final
class Coupling(eqx.Module):
    """A best way to move `mu` onto `nu`: mass `masses[k]` goes from point `sources[k]` to point `targets[k]`."""

    mu: Particles
    nu: Particles
    sources: Int[Array, " k"]
    targets: Int[Array, " k"]
    masses: Float[Array, " k"]
    p: Order = eqx.field(static=True)

    @property
    def cost(self) -> Float[Array, ""]:
        """What it costs: `∫ distance^p`."""
        move = jax.vmap(lambda x, y: cost(self.mu.space, x, y, self.p))
        return self.masses @ move(self.mu.points[self.sources], self.nu.points[self.targets])

    @property
    def distance(self) -> Float[Array, ""]:
        """The distance `W_p`, the root of the cost."""
        return self.cost ** (1 / self.p)

    def geodesic(self, t: float | int) -> Particles:
        """Displacement interpolation: each branch of the coupling is `t` of the way along its shortest path.

        `W_p(geodesic(s), geodesic(t)) = |s - t| W_p(mu, nu)`; two Diracs give one Dirac in between.
        """
        if not 0 <= t <= 1:
            raise ValueError(f"`t` must lie in [0, 1], from `mu` to `nu`; got {t}.")
        x, y = self.mu.points[self.sources], self.nu.points[self.targets]
        return Particles(self.mu.space, _between(self.mu.space, x, y, t), self.masses)


def coupling(mu: AbstractMeasure, nu: AbstractMeasure, p: Order = 2) -> Coupling:
    """A coupling with the least mean `distance^p`; in one dimension too it comes from the simplex."""
    mu, nu = comparable(mu, nu, p)
    if not checks.concrete(mu, nu):
        raise ValueError(
            "`coupling` has as many branches as the numbers ask for, so it cannot be traced: call it outside of `jit`, "
            "`vmap` and `grad`. `wasserstein` works inside."
        )
    i, j, mass = _branches(mu, nu, p)
    used = mass > 0
    return Coupling(mu, nu, i[used], j[used], mass[used], p)


def simplex_cost(mu: Particles, nu: Particles, p: Order) -> Float[Array, ""]:
    """The cost `W_p^p` along the best coupling."""
    return Coupling(mu, nu, *_branches(mu, nu, p), p).cost


def mixture(mu: AbstractMeasure, nu: AbstractMeasure, t: float | int) -> Particles:
    """The other path from `mu` to `nu`, which moves nothing: `(1 - t) mu + t nu`."""
    mu, nu = comparable(mu, nu, 2)
    if not 0 < t < 1:
        if t not in (0, 1):
            raise ValueError(f"`t` must lie in [0, 1], from `mu` to `nu`; got {t}.")
        return nu if t else mu
    return Particles(
        mu.space,
        jnp.concatenate([mu.points, nu.points]),
        jnp.concatenate([(1 - t) * mu.weights, t * nu.weights]),
    )


def best(
    a: Float[Array, " n"], b: Float[Array, " m"], matrix: Float[Array, "n m"]
) -> tuple[Int[Array, " k"], Int[Array, " k"], Float[Array, " k"]]:
    """The `n + m - 1` branches of a coupling of least cost, as sources, targets and masses; unused ones carry no mass."""
    k = sum(matrix.shape) - 1
    shapes = [jax.ShapeDtypeStruct((k,), dtype) for dtype in (np.int32, np.int32, matrix.dtype)]
    i, j, mass = jax.pure_callback(_solve, shapes, *jax.lax.stop_gradient((a, b, matrix)), vmap_method="sequential")
    return i, j, mass


def _branches(mu: Particles, nu: Particles, p: Order) -> tuple[Int[Array, " k"], Int[Array, " k"], Float[Array, " k"]]:
    mu, nu = jax.lax.stop_gradient((mu, nu))
    return best(mu.weights, nu.weights, costs(mu.space, mu.points, nu.points, p))


def _solve(a, b, matrix) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    a, b, matrix = np.asarray(a, np.float64), np.asarray(b, np.float64), np.asarray(matrix)
    k = sum(matrix.shape) - 1
    if not np.isfinite(matrix).all():  # a frame that was not reached has no distance
        return np.zeros(k, np.int32), np.zeros(k, np.int32), np.full(k, np.nan, matrix.dtype)
    # Pivots grow a little faster than the points; the bound is never met but by a defect.
    plan, log = library("ot").emd(
        a / a.sum(), b / b.sum(), matrix.astype(np.float64), numItermax=10_000 * (k + 1), log=True
    )
    if log["warning"] is not None:
        raise RuntimeError(f"POT found no best coupling of {len(a)} and {len(b)} points: {log['warning']}.")
    i, j = np.nonzero(plan)
    pad = (0, k - len(i))
    return (
        np.pad(i, pad).astype(np.int32),
        np.pad(j, pad).astype(np.int32),
        np.pad(plan[i, j], pad).astype(matrix.dtype),
    )


def _between(space: AbstractSpace, x: Float[Array, "k d"], y: Float[Array, "k d"], t: float | int):
    """The points `t` of the way along the shortest paths from `x` to `y`."""
    if isinstance(space, Euclidean):
        return (1 - t) * x + t * y
    if not isinstance(space, Sphere):
        raise TypeError(f"Shortest paths are known on Euclidean spaces and spheres, not on {space}.")
    angle = jax.vmap(space.distance)(x, y)
    if checks.concrete(angle) and (far := np.asarray(angle) > np.pi - 1e-6).any():
        raise ValueError(
            f"{far.sum()} branches join antipodal points, between which no shortest path is singled out; turn one of "
            "the measures a little."
        )
    heading = jax.vmap(space.tangent)(x, y)
    length = jnp.linalg.norm(heading, axis=1)
    return jax.vmap(space.exp)(x, (t * angle / jnp.where(length > 0, length, 1.0))[:, None] * heading)

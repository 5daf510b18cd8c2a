"""Exact couplings of particles by the network simplex of POT.

The best coupling of `n` and `m` particles is a tree with at most `n + m - 1` branches, which is all that is kept of it.
It lives on the host; the cost along its branches is computed in JAX, so it can be mapped over frames, compiled and
differentiated: to first order the coupling itself does not move (envelope theorem).
"""

from collections.abc import Callable
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from measureflow import checks
from measureflow.measures import AbstractMeasure, Particles
from measureflow.precision import keep_all
from measureflow.spaces import AbstractSpace
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
    emd = library("ot").emd  # here, so that its absence is said before anything runs
    n, m = matrix.shape
    dtype, k = np.dtype(matrix.dtype), n + m - 1
    words = (dtype.itemsize // 4,) * (dtype.itemsize > 4)

    def solve(bits):
        numbers = np.ascontiguousarray(bits).view(dtype).ravel()
        branches = _solve(emd, numbers[:n], numbers[n : n + m], numbers[n + m :].reshape(n, m))
        return branches.astype(dtype).view(np.uint32).reshape(3, k, *words)

    # As bits, because callbacks run in a thread of their own, where float64 may be off.
    numbers = jax.lax.stop_gradient(jnp.concatenate([a, b, matrix.ravel()]))
    shape = jax.ShapeDtypeStruct((3, k, *words), np.uint32)
    bits = jax.pure_callback(solve, shape, jax.lax.bitcast_convert_type(numbers, np.uint32), vmap_method="sequential")
    i, j, mass = jax.lax.bitcast_convert_type(bits, dtype)
    return i.astype(int), j.astype(int), mass


def _branches(mu: Particles, nu: Particles, p: Order) -> tuple[Int[Array, " k"], Int[Array, " k"], Float[Array, " k"]]:
    mu, nu = jax.lax.stop_gradient((mu, nu))
    return best(mu.weights, nu.weights, costs(mu.space, mu.points, nu.points, p))


def _solve(emd: Callable, a: np.ndarray, b: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    k = sum(matrix.shape) - 1
    if not np.isfinite(matrix).all():  # a frame that was not reached has no distance
        return np.stack([np.zeros(k), np.zeros(k), np.full(k, np.nan)])
    a, b, matrix = (numbers.astype(np.float64) for numbers in (a, b, matrix))
    # Pivots grow a little faster than the points; the bound is never met but by a defect.
    plan, log = emd(a / a.sum(), b / b.sum(), matrix, numItermax=10_000 * (k + 1), log=True)
    if log["warning"] is not None:
        raise RuntimeError(f"POT found no best coupling of {len(a)} and {len(b)} points: {log['warning']}.")
    i, j = np.nonzero(plan)
    return np.pad(np.stack([i, j, plan[i, j]]), ((0, 0), (0, k - len(i))))


def _between(
    space: AbstractSpace, x: Float[Array, "k d"], y: Float[Array, "k d"], t: float | int
) -> Float[Array, "k d"]:
    """The points `t` of the way along the shortest paths from `x` to `y`."""
    found = jax.vmap(lambda x, y: space.between(x, y, t))(x, y)
    if checks.concrete(found) and (lost := np.isnan(np.asarray(found)).any(1)).any():
        raise ValueError(
            f"{lost.sum()} branches join antipodal points, between which no shortest path is singled out; turn one of "
            "the measures a little."
        )
    return found


keep_all(globals())

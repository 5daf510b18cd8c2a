"""Noise as a limit knows it: the law of Langevin tokens obeys the Fokker-Planck equation, and no key is needed.

A measure that can `diffuse` adds that rate to its transport. Diffusion is stiff for densities, whose mode `k` decays at the
rate `T k²`; but there the heat equation alone is solved in closed form, `mu.heat(span)`, linearly in the numbers of the
measure. So `Lawson` takes the steps of a Runge-Kutta method along the heat flow: what is stiff is exact, steps are as long
as the drift allows, orders and error estimates stay those of the method, and a heat flow that keeps densities positive
does so here.
"""

from typing import Any, ClassVar

import diffrax as dfx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from measureflow.flows.solvers import AbstractSolver
from measureflow.flows.stepping import AbstractAround, Settled
from measureflow.measures import AbstractDiffusive, AbstractHeated


def fokker_planck(mu: AbstractDiffusive, temperature: Float[Array, ""], solver: AbstractSolver) -> dfx.AbstractSolver:
    """The stepping of a measure with noise: along the heat flow where it is known and the method is explicit."""
    method = solver.method()
    if isinstance(mu, AbstractHeated) and isinstance(method, dfx.AbstractERK | dfx.Euler):
        return Settled(Lawson(method, temperature))
    return Diffusing(method, temperature)


class Diffusing(AbstractAround):
    """A solver whose rate has the diffusion of the measure added, and whose every step ends on the space.

    One wrapper for both, because diffrax looks for an implicit method only one wrapper deep.
    """

    solver: dfx.AbstractSolver
    temperature: Float[Array, ""]

    def _noisy(self, terms):
        def rate(t, mu, args):
            return jax.tree.map(jnp.add, terms.vf(t, mu, args), mu.diffuse(self.temperature))

        return dfx.ODETerm(rate)

    def init(self, terms, t0, t1, y0, args):
        """The initial state of the wrapped solver."""
        return self.solver.init(self._noisy(terms), t0, t1, y0, args)

    def func(self, terms, t0, y0, args):
        """The rate with diffusion."""
        return self._noisy(terms).vf(t0, y0, args)

    def step(self, terms, t0, t1, y0, args, solver_state, made_jump):
        """One step of the wrapped solver with diffusion, then back to the space."""
        return Settled(self.solver).step(self._noisy(terms), t0, t1, y0, args, solver_state, made_jump)


class Lawson(dfx.AbstractSolver):
    """An explicit Runge-Kutta method on `e^{-tTΔ} mu`, whose rate the drift alone makes.

    With the tableau `a, b, c` of the method, `Y_i = e^{c_i hTΔ} y + h sum_j a_ij e^{(c_i - c_j) hTΔ} k_j` and `k_i` the drift
    at `Y_i`; only forward spans occur because `c` does not decrease. Without drift a step of any length is exact.
    """

    term_structure: ClassVar[Any] = dfx.AbstractTerm
    interpolation_cls: ClassVar[Any] = dfx.LocalLinearInterpolation
    method: dfx.AbstractERK | dfx.Euler
    temperature: Float[Array, ""]

    def order(self, terms):
        """The order of the method."""
        return self.method.order(terms)

    def init(self, terms, t0, t1, y0, args):
        """There is nothing to remember between steps."""

    def func(self, terms, t0, y0, args):
        """The drift."""
        return terms.vf(t0, y0, args)

    def step(self, terms, t0, t1, y0, args, solver_state, made_jump):
        """One step: the stages wait for each other in the heat."""
        h = terms.contr(t0, t1)
        a, b, b_error, c = (jnp.asarray(part, h.dtype) for part in _tableau(self.method))

        def warm(state, wait):
            y, drifts = state
            span = wait * h * self.temperature.astype(h.dtype)
            return y.heat(span), jax.vmap(lambda k: k.heat(span))(drifts)

        def stage(state, row):
            i, weights, time, wait = row
            y, drifts = warm(state, wait)
            k = terms.vf(t0 + time * h, _plus(y, h * weights, drifts), args)
            return (y, jax.tree.map(lambda all_, new: all_.at[i].set(new), drifts, k)), None

        nothing = jax.tree.map(lambda leaf: jnp.zeros((len(b), *leaf.shape), leaf.dtype), y0)
        rows = jnp.arange(len(b)), a, c, jnp.diff(c, prepend=0.0)
        state, _ = jax.lax.scan(stage, (y0, nothing), rows)
        y, drifts = warm(state, 1 - c[-1])
        y1 = _plus(y, h * b, drifts)
        error = _plus(jax.tree.map(jnp.zeros_like, y), h * b_error, drifts)
        return y1, error, {"y0": y0, "y1": y1}, None, dfx.RESULTS.successful


def _plus(y, weights: Float[Array, " s"], drifts):
    return jax.tree.map(lambda leaf, k: leaf + jnp.tensordot(weights, k, axes=1), y, drifts)


def _tableau(method: dfx.AbstractERK | dfx.Euler) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The coefficients `a`, `b`, those of the error estimate, and `c`, for all stages."""
    if isinstance(method, dfx.Euler):
        return np.zeros((1, 1)), np.ones(1), np.zeros(1), np.zeros(1)
    table = method.tableau
    assert isinstance(table, dfx.ButcherTableau)
    a = np.zeros((table.num_stages, table.num_stages))
    for i, row in enumerate(table.a_lower):
        a[i + 1, : i + 1] = row
    return a, np.asarray(table.b_sol), np.asarray(table.b_error), np.concatenate([[0.0], table.c])

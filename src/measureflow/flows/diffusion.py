"""Noise as a limit knows it: the law of Langevin tokens obeys the Fokker-Planck equation, and no key is needed.

A measure that can `diffuse` adds that rate to its transport. Diffusion is stiff for densities, whose mode `k` decays at the
rate `T k²`; but there the heat equation alone is solved in closed form, `mu.heat(span)`, linearly in the numbers of the
measure. So `Lawson` takes the steps of a Runge-Kutta method along the heat flow: what is stiff is exact, steps are as long
as the drift allows, orders and error estimates stay those of the method, and a heat flow that keeps densities positive
does so here.
"""

from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from measureflow.flows.solvers import AbstractSolver
from measureflow.flows.stepping import AbstractMethod, Rate, RungeKutta, Step, none, plus, put
from measureflow.measures import AbstractDiffusive, AbstractHeated


def fokker_planck(mu: AbstractDiffusive, temperature: Float[Array, ""], solver: AbstractSolver) -> AbstractMethod:
    """The steps of a measure with noise: along the heat flow where it is known and the method is explicit."""
    method = solver.method()
    if isinstance(mu, AbstractHeated) and isinstance(method, RungeKutta):
        return Lawson(method, temperature)
    return Diffusing(method, temperature)


@final
class Diffusing(AbstractMethod):
    """A method whose rate has the diffusion of the measure added."""

    method: AbstractMethod
    temperature: Float[Array, ""]

    def driven(self, rate: Rate) -> Rate:
        """The rate with diffusion."""
        return lambda t, mu: jax.tree.map(jnp.add, rate(t, mu), mu.diffuse(self.temperature))  # pyright: ignore

    def step(self, rate: Rate, t0: Float[Array, ""], t1: Float[Array, ""], mu: Any, k: Any) -> Step:
        """The step of the method."""
        return self.method.step(rate, t0, t1, mu, k)


@final
class Lawson(AbstractMethod):
    """An explicit Runge-Kutta method on `e^{-tTΔ} mu`, whose rate the drift alone makes.

    With the tableau `a, b, c` of the method, `Y_i = e^{c_i hTΔ} y + h sum_j a_ij e^{(c_i - c_j) hTΔ} k_j` and `k_i` the drift
    at `Y_i`; only forward spans occur because `c` does not decrease. Without drift a step of any length is exact.
    """

    method: RungeKutta
    temperature: Float[Array, ""]

    def step(self, rate: Rate, t0: Float[Array, ""], t1: Float[Array, ""], mu: Any, k: Any) -> Step:
        """One step: the stages wait for each other in the heat."""
        h, table = t1 - t0, self.method.tableau
        a, b, c = (jnp.asarray(part, h.dtype) for part in (table.matrix, table.b, table.c))

        def warm(state, wait):
            y, drifts = state
            span = wait * h * self.temperature.astype(h.dtype)
            return y.heat(span), jax.vmap(lambda k: k.heat(span))(drifts)

        def stage(state, row):
            i, weights, time, wait = row
            y, drifts = warm(state, wait)
            return (y, put(drifts, i, rate(t0 + time * h, plus(y, h * weights, drifts)))), None

        state = mu, put(none(mu, len(b)), 0, k)
        if len(b) > 1:
            state, _ = jax.lax.scan(stage, state, (jnp.arange(1, len(b)), a[1:], c[1:], jnp.diff(c)))
        y, drifts = warm(state, 1 - c[-1])
        weights = h * jnp.asarray(np.zeros(len(b)) if table.b_error is None else table.b_error, h.dtype)
        return Step(plus(y, h * b, drifts), plus(jax.tree.map(jnp.zeros_like, y), weights, drifts))

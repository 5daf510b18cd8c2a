"""How diffrax steps a measure: on its space, onto the frames, and never past the resolution of time.

- `Settled` wraps any solver so that each step ends on the space; the rate is evaluated at the settled measure, so a
  Runge-Kutta method keeps its order on a curved space.
- `EvenSteps` divides each interval between two stops into equal steps, so that frames are computed and not interpolated.
- `NoisyEuler` adds Brownian kicks along geodesics.
- `Resolved` ends an adaptive run whose steps have become too short to move time.
"""

from typing import Any, ClassVar

import diffrax as dfx
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float


class AbstractAround(dfx.AbstractWrappedSolver):
    """A solver around another, which it resembles in all but its steps."""

    solver: eqx.AbstractVar[dfx.AbstractSolver]

    @property
    def term_structure(self):
        """The term structure of the wrapped solver."""
        return self.solver.term_structure

    @property
    def interpolation_cls(self):  # pyright: ignore[reportIncompatibleMethodOverride]
        """The interpolation of the wrapped solver."""
        return self.solver.interpolation_cls

    @property
    def root_finder(self):
        """The root finder of the wrapped solver, if it is implicit."""
        return self.solver.root_finder  # pyright: ignore[reportAttributeAccessIssue]

    @property
    def root_find_max_steps(self):
        """The iteration limit of the wrapped solver, if it is implicit."""
        return self.solver.root_find_max_steps  # pyright: ignore[reportAttributeAccessIssue]

    @property
    def scan_kind(self):
        """How the wrapped solver loops over its stages."""
        return self.solver.scan_kind  # pyright: ignore[reportAttributeAccessIssue]

    def order(self, terms):
        """The order of the wrapped solver."""
        return self.solver.order(terms)

    def error_order(self, terms):
        """The order of the error estimate of the wrapped solver."""
        return self.solver.error_order(terms)

    def init(self, terms, t0, t1, y0, args):
        """The initial state of the wrapped solver."""
        return self.solver.init(terms, t0, t1, y0, args)

    def func(self, terms, t0, y0, args):
        """The vector field as the wrapped solver evaluates it."""
        return self.solver.func(terms, t0, y0, args)


class Settled(AbstractAround):
    """A solver whose every step ends on the space."""

    solver: dfx.AbstractSolver

    def step(self, terms, t0, t1, y0, args, solver_state, made_jump):
        """One step of the wrapped solver, then back to the space."""
        y1, error, dense, state, result = self.solver.step(terms, t0, t1, y0, args, solver_state, made_jump)
        y1 = y1.settle()
        return y1, error, dense | {"y1": y1}, state, result


class ClassicRK4(dfx.AbstractERK):
    """The Runge-Kutta method of 1901, for fixed steps."""

    tableau: ClassVar[dfx.ButcherTableau] = dfx.ButcherTableau(
        a_lower=(np.array([0.5]), np.array([0.0, 0.5]), np.array([0.0, 0.0, 1.0])),
        b_sol=np.array([1, 2, 2, 1]) / 6,
        b_error=np.zeros(4),
        c=np.array([0.5, 0.5, 1.0]),
    )
    interpolation_cls: ClassVar[Any] = dfx.ThirdOrderHermitePolynomialInterpolation.from_k

    def order(self, terms):
        """Four."""
        return 4


class EvenSteps(dfx.AbstractStepSizeController):
    """Equal steps of at most `dt` between neighbouring stops; a step to a non-finite state ends the run before it."""

    dt: Float[Array, ""]
    stops: Float[Array, " k"]

    def wrap(self, direction):
        """Flows only run forward, so there is nothing to adapt."""
        return self

    def _next(self, t):
        k = jnp.clip(jnp.searchsorted(self.stops, t, side="right"), 1, len(self.stops) - 1)
        left, right = self.stops[k - 1], self.stops[k]
        # The slack keeps an interval that is a whole number of steps from getting one more by rounding.
        count = jnp.maximum(jnp.ceil((right - left) / self.dt - 1e-6), 1)
        done = jnp.round((t - left) / (right - left) * count)
        return jnp.where(done + 1 >= count, right, left + (right - left) * ((done + 1) / count))

    def init(self, terms, t0, t1, y0, dt0, args, func, error_order):
        """The end of the first step."""
        return self._next(t0), None

    def adapt_step_size(self, t0, t1, y0, y1_candidate, args, y_error, error_order, controller_state):
        """Accept every finite step."""
        good = jnp.isfinite(largest(y1_candidate))
        result = dfx.RESULTS.where(good, dfx.RESULTS.successful, dfx.RESULTS.dt_min_reached)
        next_t0 = jnp.where(good, t1, t0)
        return good, next_t0, self._next(next_t0), jnp.array(False), None, result


class NoisyEuler(dfx.AbstractSolver):
    """Euler steps along geodesics with Brownian kicks: weak order 1 on any space, and never off it.

    The kicks are increments of one Brownian path over the whole run, so legs and step sizes share it.
    """

    term_structure: ClassVar[Any] = dfx.AbstractTerm
    interpolation_cls: ClassVar[Any] = dfx.LocalLinearInterpolation
    path: dfx.AbstractBrownianPath
    size: Float[Array, ""]

    def order(self, terms):
        """One, in the weak sense."""
        return 1

    def init(self, terms, t0, t1, y0, args):
        """There is nothing to remember between steps."""

    def func(self, terms, t0, y0, args):
        """The drift."""
        return terms.vf(t0, y0, args)

    def step(self, terms, t0, t1, y0, args, solver_state, made_jump):
        """Drift and kick together along the geodesic."""
        drift = terms.vf(t0, y0, args).points * terms.contr(t0, t1)
        y1 = y0.advance(drift + self.size * self.path.evaluate(t0, t1))
        return y1, None, {"y0": y0, "y1": y1}, None, dfx.RESULTS.successful


class Resolved(dfx.AbstractAdaptiveStepSizeController):
    """An adaptive controller that stops when a step no longer changes the time, or when there were too many."""

    controller: dfx.AbstractAdaptiveStepSizeController
    most: int = eqx.field(static=True)

    @property
    def rtol(self):
        """The relative tolerance of the wrapped controller."""
        return self.controller.rtol

    @property
    def atol(self):
        """The absolute tolerance of the wrapped controller."""
        return self.controller.atol

    @property
    def norm(self):  # pyright: ignore[reportIncompatibleMethodOverride]
        """The error norm of the wrapped controller."""
        return self.controller.norm

    def wrap(self, direction):
        """Wrap the wrapped controller."""
        return eqx.tree_at(lambda c: c.controller, self, self.controller.wrap(direction))

    def init(self, terms, t0, t1, y0, dt0, args, func, error_order):
        """The first step of the wrapped controller."""
        t1, state = self.controller.init(terms, t0, t1, y0, dt0, args, func, error_order)
        return t1, (state, jnp.zeros((), int))

    def adapt_step_size(self, t0, t1, y0, y1_candidate, args, y_error, error_order, controller_state):
        """The decision of the wrapped controller, unless its next step is below the spacing of times or one too many."""
        controller_state, count = controller_state
        keep, next_t0, next_t1, jumped, state, result = self.controller.adapt_step_size(
            t0, t1, y0, y1_candidate, args, y_error, error_order, controller_state
        )
        step = jnp.asarray(next_t1 - next_t0)
        spacing = jnp.finfo(step.dtype).eps * jnp.abs(next_t0)
        stuck = jnp.where(keep, step <= 0, step <= 4 * spacing)
        result = dfx.RESULTS.where(count < self.most, result, dfx.RESULTS.max_steps_reached)
        result = dfx.RESULTS.where(stuck, dfx.RESULTS.dt_min_reached, result)
        return keep, next_t0, next_t1, jumped, (state, count + 1), result


def largest(tree) -> Float[Array, ""]:
    """The largest absolute value of all numbers of a tree, in their own precision; NaN if one of them is."""
    return jnp.max(jnp.stack([jnp.abs(leaf).max() for leaf in jax.tree.leaves(eqx.filter(tree, eqx.is_inexact_array))]))

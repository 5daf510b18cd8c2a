"""A leg: the pure function at the bottom of every flow.

A field, a measure and times in, frames and a measure out, compiled once per shape. How a leg ends is decided here: by
arriving, or by one of the outcomes of `trajectory`. There are several ways to do a leg: `Straight` solves it as it is,
`merging.Merging` with fewer and fewer tokens.
"""

import abc
from typing import final

import diffrax as dfx
import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from measureflow.fields import AbstractField
from measureflow.fields.depth import jumps
from measureflow.flows.solvers import AbstractFixedStep, AbstractSolver
from measureflow.flows.stepping import Settled, largest
from measureflow.flows.trajectory import (
    BLOW_UP,
    DIVERGED,
    FAILED,
    INVALID,
    OVERFLOW,
    REACHED,
    SPENT,
    UNDEFINED,
    UNDERFLOW,
    UNSOUND,
    Measure,
    Outcome,
    Trajectory,
)
from measureflow.measures import AbstractMeasure
from measureflow.precision import exactly

CHECKPOINTS = 32
"""Snapshots kept by reverse mode: memory of that many states, work repeated about twice."""
OUTSIDE = 1e-6
"""How far a measure may be from its space when it starts, relative to its size: float32 rounding passes."""


class AbstractWay(eqx.Module):
    """A way to do the legs of a flow."""

    @abc.abstractmethod
    def leg(
        self,
        field: AbstractField,
        mu: Measure,
        start: Float[Array, ""],
        times: Float[Array, " k"],
        solver: AbstractSolver,
    ) -> Trajectory[Measure]:
        """Move a measure from a start to given times, of which the first may be the start itself."""

    @abc.abstractmethod
    def coarser(self) -> "AbstractWay":
        """The way of another run, to estimate an error."""

    @abc.abstractmethod
    def gain(self, solver: AbstractSolver) -> float:
        """By how much the difference to the second run of a solver exceeds the error."""


@final
class Straight(AbstractWay):
    """The leg as it is; `stepping` adds noise, `derivative` is a diffrax adjoint."""

    stepping: dfx.AbstractSolver | None = None
    derivative: dfx.AbstractAdjoint | None = None

    def leg(
        self,
        field: AbstractField,
        mu: Measure,
        start: Float[Array, ""],
        times: Float[Array, " k"],
        solver: AbstractSolver,
    ) -> Trajectory[Measure]:
        """Solve once, landing on every time."""
        return leg(field, mu, start, times, solver, self.stepping, self.derivative)

    def coarser(self) -> "Straight":
        """The same way: what differs is the solver."""
        return self

    def gain(self, solver: AbstractSolver) -> float:
        """That of the solver."""
        return solver.gain


@eqx.filter_jit
@exactly
def leg(
    field: AbstractField,
    mu: Measure,
    start: Float[Array, ""],
    times: Float[Array, " k"],
    solver: AbstractSolver,
    stepping: dfx.AbstractSolver | None = None,
    derivative: dfx.AbstractAdjoint | None = None,
) -> Trajectory[Measure]:
    """Move a measure from a start to given times; `times[0]` may be the start itself.

    The field is seen on the half-open interval up to the last time, where it may jump.
    """
    valid = _valid(mu, start, times, solver)
    times = jnp.where(valid, times, start)  # else there is nothing to solve
    before_end = jnp.nextafter(jax.lax.stop_gradient(times[-1]), -jnp.inf)
    solution = dfx.diffeqsolve(
        dfx.ODETerm(_rate),
        Settled(solver.method()) if stepping is None else stepping,
        start,
        times[-1],
        None,
        mu,
        (field, before_end),
        saveat=dfx.SaveAt(subs=[dfx.SubSaveAt(ts=times), dfx.SubSaveAt(t1=True)]),
        stepsize_controller=solver.controller(jnp.concatenate([start[None], times]), jumps(field).astype(times.dtype)),
        event=dfx.Event(_overflows),
        adjoint=dfx.RecursiveCheckpointAdjoint(checkpoints=CHECKPOINTS) if derivative is None else derivative,
        max_steps=None,
        throw=False,
    )
    measures, last = solution.ys  # pyright: ignore[reportGeneralTypeIssues]
    # The start is there though no step may have been.
    measures = jax.tree.map(lambda all, mu: all.at[0].set(jnp.where(times[0] == start, mu, all[0])), measures, mu)
    time = solution.ts[1][0]  # pyright: ignore[reportOptionalSubscript]
    final = jax.tree.map(lambda leaf: leaf[0], last)
    speed = largest(_rate(time, final, (field, before_end)))
    return Trajectory(
        times=times,
        measures=measures,
        final=final,
        outcome=Outcome(jnp.where(valid, _kind(solution.result, solver, final, speed), INVALID), time, speed),
        frames=jnp.where(valid, jnp.sum(times <= time), 0),
        costs={"steps": solution.stats["num_accepted_steps"], "rejected": solution.stats["num_rejected_steps"]},
        engine=mu.engine_name,
    )


def _valid(
    mu: AbstractMeasure, start: Float[Array, ""], times: Float[Array, " k"], solver: AbstractSolver
) -> Bool[Array, ""]:
    """What is checked with a sentence where numbers are there to look at, and here where they are traced."""
    settled, given = (jax.tree.leaves(eqx.filter(nu, eqx.is_inexact_array)) for nu in (mu.settle(), mu))
    off = largest([a - b for a, b in zip(settled, given, strict=True)])
    forward = (jnp.diff(times) > 0).all() & (times[0] >= start) & jnp.isfinite(times).all()
    return forward & solver.valid() & jnp.isfinite(largest(given)) & (off <= OUTSIDE * (1 + largest(given)))


def _rate(t, mu, args):
    field, before_end = args
    mu = mu.settle()
    return mu.transport(lambda xs: field(jnp.minimum(t, before_end), xs, mu))


def _overflows(t, mu, args, **_):
    size = largest(mu)
    return ~((size < jnp.sqrt(jnp.finfo(size.dtype).max)) & mu.sound())


def _kind(result, solver, final, speed):
    size = largest(final)
    stuck = result == dfx.RESULTS.dt_min_reached
    # At a blow-up the speed is what the steps can no longer follow; a merely rough field has an ordinary speed.
    fast = ~(speed < (1 + size) / jnp.sqrt(jnp.finfo(size.dtype).eps))
    fixed, lost = isinstance(solver, AbstractFixedStep), jnp.isnan(speed) & jnp.isfinite(size)
    event, unsound = result == dfx.RESULTS.event_occurred, jnp.isfinite(size) & ~final.sound()
    return jnp.select(
        [
            result == dfx.RESULTS.successful,
            result == dfx.RESULTS.max_steps_reached,
            stuck & lost,
            stuck & fixed,
            stuck & fast,
            stuck,
            event & unsound,
            event,
        ],
        [REACHED, SPENT, UNDEFINED, DIVERGED, BLOW_UP, UNDERFLOW, UNSOUND, OVERFLOW],
        FAILED,
    )

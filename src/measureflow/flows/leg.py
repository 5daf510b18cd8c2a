"""A leg: a stretch of a flow that is computed without a stop.

`Leg` says what is to be solved: a field moves a measure from a time through given times. `Straight` solves it by one pure
function, compiled once per shape: a loop over the frames, and inside it one over the steps to the next frame. How a leg ends
is decided here: by arriving, or by one of the outcomes of `trajectory`. Other ways solve a leg in pieces: `merging.Merging`
with fewer and fewer tokens, `following.Following` with densities that change their form.
"""

import abc
import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple, final

import equinox as eqx
import equinox.internal as eqxi
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from measureflow.fields import AbstractField
from measureflow.fields.depth import jumps
from measureflow.flows.solvers import AbstractFixedStep, AbstractSolver
from measureflow.flows.stepping import AbstractMethod, Step, largest, moving
from measureflow.flows.trajectory import (
    BLOW_UP,
    DIVERGED,
    ENDED,
    FAILED,
    INVALID,
    OVERFLOW,
    REACHED,
    SPENT,
    STOPPED,
    UNDEFINED,
    UNDERFLOW,
    UNSOUND,
    Events,
    Outcome,
    Trajectory,
)
from measureflow.measures import AbstractMeasure
from measureflow.precision import exactly
from measureflow.sums.native.pulse import beat

CHECKPOINTS = 32
"""Snapshots kept by reverse mode: memory of that many states, work repeated about twice."""
TWICE = (
    "Reverse mode over reverse mode does not pass through a flow. Take forward mode over it, `jax.hessian` or "
    "`jax.jacfwd(jax.grad(f))`, or forward mode twice with `derivative=diffrax.ForwardMode()`."
)
LOCATED = "Derivatives do not pass through the `events` of a flow, which are located by halving; drop them here."
OUTSIDE = 1e-6
"""How far a measure may be from its space when it starts, relative to its size: float32 rounding passes."""
SHARP = 1e-9
"""The part of a step to which an event in it is located: far below the error of the step, in thirty halvings."""


class Keeping(eqx.Module):
    """What is kept of every frame: the measure itself, what is observed of it, or both; and up to how many `events`.

    `before` is how many there were already, and on which sides of zero the functions were after them.
    """

    frames: bool = eqx.field(static=True, default=True)
    observe: Callable[[Any], Any] | None = eqx.field(static=True, default=None)
    events: Callable[[Any], Any] | None = None
    most: int = eqx.field(static=True, default=0)
    before: tuple[Int[Array, ""], Bool[Array, " e"]] | None = None

    def __call__(self, mu: Any) -> tuple[Any, Any]:
        """The frame, and what is observed of it; None where it is not kept."""
        return mu if self.frames else None, None if self.observe is None else self.observe(mu)

    def sides(self, mu: Any) -> Bool[Array, " e"]:
        """On which side of zero the functions are whose crossings are events."""
        values = () if self.events is None else jax.tree.leaves(self.events(mu))
        return jnp.concatenate([jnp.zeros(0, bool), *(jnp.ravel(jnp.asarray(value)) > 0 for value in values)])


FRAMES = Keeping()
"""All frames are kept, and nothing else."""


class Leg(eqx.Module):
    """A leg to solve: the field moves the measure `mu` from the time `start` through `times`, by a solver.

    The first of the times may be the start itself. `keeping` says what is kept of each frame. A `token` is that of a `Pulse`,
    to which the steps then tell how far they are.
    """

    field: AbstractField
    mu: Any
    start: Float[Array, ""]
    times: Float[Array, " k"]
    solver: AbstractSolver
    keeping: Keeping = FRAMES
    token: Int[Array, ""] | None = None

    def but(self, **changes: Any) -> "Leg":
        """The same leg with some of its parts replaced."""
        return dataclasses.replace(self, **changes)


class AbstractWay(eqx.Module):
    """A way to solve the legs of a flow."""

    @abc.abstractmethod
    def solve(self, leg: Leg) -> Trajectory[Any]:
        """The path of a leg: its frames, the measure at its end, and how it ended."""

    def finer(self, mu: Any) -> Any:
        """The measure in the next form that legs give it; None where it keeps the one it has, as on most ways."""
        return None

    def coarser(self) -> "AbstractWay":
        """The way of a second run, to estimate an error: most ways leave the difference to the solver."""
        return self

    def gain(self, solver: AbstractSolver) -> float:
        """By how much the difference to the second run of a solver exceeds the error."""
        return solver.gain


@final
class Straight(AbstractWay):
    """The leg in one piece, landing on every time.

    - `method`: steps with noise, which replace those of the solver.
    - `derivative`: a diffrax adjoint, as in `evolve`.
    - `strict`: whether a leg also ends where the measure is no longer resolved, long before it is none any more.
    """

    method: AbstractMethod | None = None
    derivative: Any = None
    strict: bool = eqx.field(static=True, default=False)

    def solve(self, leg: Leg) -> Trajectory[Any]:
        """Solve the leg by the compiled function."""
        return _solved(self, leg)


class State(NamedTuple):
    """Where a leg stands: the measure, its rate if the method carries it, the length of the next step, what was done, what it
    stopped for, and the events so far."""

    t: Float[Array, ""]
    mu: Any
    rate: Any
    length: Float[Array, ""]
    steps: Int[Array, ""]
    rejected: Int[Array, ""]
    tried: Int[Array, ""]
    halt: Int[Array, ""]
    events: Events


GOING = 0
"""Why a leg stopped: it did not."""
STUCK = 1
"""Steps that can be computed no longer move time, or a fixed one is not finite."""
UNSOLVED = 2
"""The same, where the equations of an implicit step were not solved."""
TIRED = 3
"""There were as many steps since the last frame as the solver allows."""
LEFT = 4
"""The measure has left the floating point numbers, or is none any more."""
CALLED = 5
"""The pulse asked for it."""
FULL = 6
"""There were as many events as are looked for."""


@eqx.filter_jit
@exactly
def _solved(way: Straight, leg: Leg) -> Trajectory[Any]:
    """The path of a leg; the field is seen on half-open intervals up to its jumps and to the last time."""
    loop, checkpoint = (jax.lax.while_loop, False) if leg.token is not None else _looping(way.derivative)
    if checkpoint:
        numbers, rest = eqx.partition(leg, eqx.is_inexact_array)
        leg = eqx.combine(_once(numbers), rest)
    field, mu, start, times, solver, keeping = leg.field, leg.mu, leg.start, leg.times, leg.solver, leg.keeping
    method = solver.method() if way.method is None else way.method
    valid = _valid(leg)
    times = jnp.where(valid, times, start)  # else there is nothing to solve
    breaks = jumps(field).astype(times.dtype)
    stops = jnp.concatenate([start[None], times])
    stops = jnp.sort(jnp.concatenate([stops, breaks])) if len(breaks) else stops
    rate = method.driven(lambda t, mu: _rate(field, t, mu))

    # At a jump the rate on the way is not that of the next step.
    carried = method.ends_in_rate and not len(breaks)

    def step(state):
        i = jnp.clip(jnp.sum(stops <= state.t), 1, len(stops) - 1)
        t1 = solver.until(state.t, state.length, stops[i - 1], stops[i])
        before = lambda t, mu: rate(_before(t, stops[i]), mu.settle())  # noqa: E731
        k = state.rate if carried else rate(state.t, state.mu)
        new = method.step(before, state.t, t1, state.mu, k)
        new = new._replace(mu=new.mu.settle(), rate=new.rate if carried else None)
        after = _advanced(state, t1, new, solver, way.strict)
        part = lambda t: method.step(before, state.t, t, state.mu, k).mu.settle()  # noqa: E731
        state = after if keeping.events is None else _noticed(keeping, part, state.t, after)
        if leg.token is None:
            return state
        called = beat(leg.token, state.t, state.steps + state.rejected) & (state.halt == GOING)
        return state._replace(halt=jnp.where(called, CALLED, state.halt))

    def frame(state, time):
        going = lambda state: (state.t < time) & (state.halt == GOING)  # noqa: E731
        # Flows in a batch step together until the last of them reaches its frame; one that is there keeps its state.
        state = loop(
            lambda state: eqxi.unvmap_any(going(state)),
            lambda state: _chosen(going(state), step(state), state),
            state._replace(tried=jnp.zeros((), int)),
        )
        return state, jax.tree.map(lambda leaf: _unless(state.t < time, leaf), keeping(state.mu))

    k, zero = rate(_before(start, times[-1]), mu.settle()), jnp.zeros((), int)
    events = Events.none(
        mu, times.dtype, keeping.most, keeping.sides(mu) if keeping.before is None else keeping.before[1]
    )
    state = State(start, mu, k if carried else None, solver.first(mu, k), zero, zero, zero, jnp.asarray(GOING), events)
    state, (measures, observed) = jax.lax.scan(jax.checkpoint(frame) if checkpoint else frame, state, times)
    speed = largest(state.rate if carried else rate(_before(state.t, times[-1]), state.mu))
    kind = jnp.where(valid, _kind(state, solver, speed, way.strict), INVALID)
    return Trajectory(
        times=times,
        kept=measures,
        observed=observed,
        final=state.mu,
        outcome=Outcome(kind, state.t, speed),
        frames=jnp.where(valid, jnp.sum(times <= state.t), 0),
        costs={"steps": state.steps, "rejected": state.rejected},
        engine=mu.engine_name,
        events=None if keeping.events is None else eqxi.nondifferentiable(state.events, msg=LOCATED),
    )


def _noticed(keeping: Keeping, part: Callable[[Any], Any], start: Float[Array, ""], state: State) -> State:
    """The state after a step with the events in it, where `part` leads from its start to a time inside.

    The first change of side is located by halving; then the next one is looked for from there. The step itself stays what it
    was, so a path is the same with events or without, but for the last event there is room for, where it ends.
    """
    end, most = keeping.sides(state.mu), keeping.most - (0 if keeping.before is None else keeping.before[0])
    width = jnp.maximum(SHARP * (state.t - start), 4 * jnp.finfo(start.dtype).eps * jnp.abs(state.t))

    def halve(sides, bracket):
        left, right, mu = bracket
        middle = left + (right - left) / 2
        at = part(middle)
        there = (keeping.sides(at) != sides).any()
        return jnp.where(there, left, middle), jnp.where(there, middle, right), _chosen(there, at, mu)

    def some(found):
        events, _ = found
        return (events.sides != end).any() & (events.count < most)

    def next_(found):
        events, since = found
        bracket = since, state.t, state.mu
        _, time, mu = jax.lax.while_loop(lambda b: b[1] - b[0] > width, lambda b: halve(events.sides, b), bracket)
        return events.with_(time, jnp.argmax(keeping.sides(mu) != events.sides), mu), time

    events, time = jax.lax.while_loop(some, next_, (state.events, start))
    full = (events.count == most) & (events.count > state.events.count)
    last = jax.tree.map(lambda leaf: leaf[events.count - 1], events.measures)
    return state._replace(
        t=jnp.where(full, time, state.t),
        mu=_chosen(full, last, state.mu),
        halt=jnp.where(full, FULL, state.halt),
        events=events,
    )


def _looping(derivative: Any) -> tuple[Any, bool]:
    """The loop over steps through which a derivative passes, and whether frames are computed again for it."""
    if derivative is None:
        return eqx.Partial(eqxi.while_loop, kind="checkpointed", checkpoints=CHECKPOINTS), True
    import diffrax as dfx

    if isinstance(derivative, dfx.ForwardMode):
        return jax.lax.while_loop, False
    if isinstance(derivative, dfx.RecursiveCheckpointAdjoint):
        return eqx.Partial(eqxi.while_loop, kind="checkpointed", checkpoints=derivative.checkpoints), True
    raise TypeError(
        f"`derivative` must be `diffrax.ForwardMode()` or `diffrax.RecursiveCheckpointAdjoint(...)`; got {derivative!r}."
    )


@jax.custom_vjp
def _once(numbers: Any) -> Any:
    """The same numbers; differentiating them in reverse mode twice is refused with a sentence."""
    return numbers


def _back(_: None, cotangent: Any) -> tuple[Any]:
    return (jax.tree.map(lambda leaf: eqxi.nondifferentiable_backward(leaf, msg=TWICE), cotangent),)


_once.defvjp(lambda numbers: (numbers, None), _back)


def _advanced(state: State, t1: Float[Array, ""], new: Step, solver: AbstractSolver, strict: bool) -> State:
    """The state after a step, which is kept or to be done again with another length."""
    keep, length, stuck = solver.judge(state.t, t1, state.mu, new, state.length)
    tried = state.tried + 1
    tired = jnp.array(False) if solver.most is None else tried > solver.most
    reasons = [stuck & new.good, stuck, tired, keep & _left(new.mu, strict)]
    return State(
        jnp.where(keep, t1, state.t),
        _chosen(keep, new.mu, state.mu),
        _chosen(keep, new.rate, state.rate),
        length,
        state.steps + keep.astype(int),
        state.rejected + (~keep).astype(int),
        tried,
        jnp.select(reasons, [STUCK, UNSOLVED, TIRED, LEFT], GOING),
        state.events,
    )


def _unless(missing: Bool[Array, ""], leaf: Any) -> Array:
    """A number, or infinity where it is missing; what has no infinity stays."""
    leaf = jnp.asarray(leaf)
    return jnp.where(missing, jnp.inf, leaf) if jnp.issubdtype(leaf.dtype, jnp.inexact) else leaf


def _chosen(first: Bool[Array, ""], a: Any, b: Any) -> Any:
    return jax.tree.map(lambda x, y: jnp.where(first, x, y), a, b)


def _valid(leg: Leg) -> Bool[Array, ""]:
    """Whether times increase, the solver can be used and the measure is on its space.

    `Flow` refuses the contrary with a sentence where numbers are known; here they are traced.
    """
    mu, times = leg.mu, leg.times
    settled, given = (jax.tree.leaves(eqx.filter(nu, eqx.is_inexact_array)) for nu in (mu.settle(), mu))
    off = largest([a - b for a, b in zip(settled, given, strict=True)])
    forward = (jnp.diff(times) >= 0).all() & (times[0] >= leg.start) & jnp.isfinite(times).all()
    return forward & leg.solver.valid() & jnp.isfinite(largest(given)) & (off <= OUTSIDE * (1 + largest(given)))


def _rate(field: AbstractField, t: Float[Array, ""], mu: Any) -> Any:
    return mu.drift(field, t)


def _before(t: Float[Array, ""], end: Float[Array, ""]) -> Float[Array, ""]:
    """A time, or the last one before an end; derivatives pass through."""
    now, end = jax.lax.stop_gradient((t, end))
    return t - jnp.maximum(now - jnp.nextafter(end, -jnp.inf), 0)


def _left(mu: AbstractMeasure, strict: bool) -> Bool[Array, ""]:
    """Whether a measure has left the floating point numbers, or is none any more."""
    size = largest(moving(mu))
    return ~((size < jnp.sqrt(jnp.finfo(size.dtype).max)) & _sound(mu, strict))


def _sound(mu: AbstractMeasure, strict: bool) -> Bool[Array, ""]:
    return mu.sound() & mu.resolved() if strict else mu.sound()


def _kind(state: State, solver: AbstractSolver, speed: Float[Array, ""], strict: bool) -> Int[Array, ""]:
    size, halt = largest(state.mu), state.halt
    stuck = halt == STUCK
    # At a blow-up the speed is what the steps can no longer follow; a merely rough field has an ordinary speed.
    fast = ~(speed < (1 + size) / jnp.sqrt(jnp.finfo(size.dtype).eps))
    fixed, lost = isinstance(solver, AbstractFixedStep), jnp.isnan(speed) & jnp.isfinite(size)
    unsound = jnp.isfinite(size) & ~_sound(state.mu, strict)
    return jnp.select(
        [
            halt == GOING,
            halt == CALLED,
            halt == FULL,
            halt == TIRED,
            stuck & lost,
            stuck & fixed,
            stuck & fast,
            stuck,
            (halt == LEFT) & unsound,
            halt == LEFT,
        ],
        [REACHED, STOPPED, ENDED, SPENT, UNDEFINED, DIVERGED, BLOW_UP, UNDERFLOW, UNSOUND, OVERFLOW],
        FAILED,
    )

"""A flow: a field moves a measure through time, and everything that decides how is in one object.

`flow.run()` computes it in one leg, and `evolve` is its face. `flow.legs(size)` computes it piece by piece for whatever
needs the host in between; the state from one leg to the next is the measure and nothing else, so a flow goes on from any
leg to the same bits.
"""

import abc
import time
from collections.abc import Callable, Iterator
from typing import Any, Generic, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from measureflow import checks
from measureflow.annotations import Number, Numbers, RandomKey
from measureflow.fields import AbstractField
from measureflow.fields.depth import jumps
from measureflow.flows import following, merging
from measureflow.flows.admitting import (
    check_end,
    check_fit,
    check_kinds,
    check_observe,
    in_precision_of,
    precision,
    resolved,
    summed,
)
from measureflow.flows.leg import FRAMES, AbstractWay, Keeping, Leg, Straight
from measureflow.flows.noise import AbstractNoise
from measureflow.flows.solvers import AbstractSolver
from measureflow.flows.stepping import largest
from measureflow.flows.trajectory import Measure, Trajectory
from measureflow.measures import AbstractCloud
from measureflow.measures.cloud import as_key
from measureflow.measures.density import AbstractMoments
from measureflow.measures.parcels import AbstractParcels
from measureflow.sums import AbstractEngine, native
from measureflow.sums.native.pulse import Pulse, heard

EVENTS = 64
"""Room for events unless a number is given: all measures there are kept."""

FORWARD = (
    "Forward mode (`jax.jvp`, `jax.jacfwd`) passes through a flow with `derivative=diffrax.ForwardMode()`; pass it to `evolve`, "
    "or take reverse mode (`jax.grad`)."
)

ROOM = 64
"""Up to so many frames the runs that check an error have room for as many as the path, and need no program of their own."""


class AbstractFlow(eqx.Module, Generic[Measure]):
    """A measure in motion, through frames at given times."""

    field: eqx.AbstractVar[AbstractField]
    start: eqx.AbstractVar[Measure]
    times: eqx.AbstractVar[Float[Array, " k"]]
    keeping: eqx.AbstractVar[Keeping]

    @abc.abstractmethod
    def leg(self, mu: Measure, first: int, last: int, pulse: Pulse | None = None, room: int = 0) -> Trajectory[Measure]:
        """The frames from `first` up to, without, `last`, given the measure at the frame before the first.

        Frame 0 is the start itself. A `pulse` tells how far it is, and can stop it. A leg is compiled with `room` for so many
        frames, so that a shorter one needs no program of its own. Under `jit`, or after an early end, frames that were not
        reached are infinite.
        """

    def error(
        self, final: Measure, end: Number | None = None, pulse: Pulse | None = None, room: int = 0
    ) -> Float[Array, ""] | None:
        """How far the measure at the end may be from the exact one; None where nothing is approximated.

        With the `pulse` and the `room` of legs that were computed, it needs no program of its own.
        """
        return None

    def form(self, changes: int) -> Any:
        """A measure in the form that the state has after a number of changes; its numbers mean nothing."""
        return self.start

    def run(self) -> Trajectory[Measure]:
        """The whole flow in one leg."""
        return _kept(self.leg(self.start, 0, len(self.times)))

    def legs(
        self, size: int, since: int = 0, state: Measure | None = None, pulse: Pulse | None = None
    ) -> Iterator[Trajectory[Measure]]:
        """The legs of the flow, each of `size` frames, until the last time or an early end.

        `since` frames are left out; `state` is then the measure at the last of them. They must be whole legs, so that the
        rest is what it would have been without the interruption.
        """
        if size < 1:
            raise ValueError(f"`size` must be at least 1 frame; got {size}.")
        if since % size or (since > 0) != (state is not None):
            raise ValueError(
                f"`since` must be a number of whole legs of {size} frames, with their last `state`; got {since}."
            )
        mu = self.start if state is None else state
        for first in range(since, len(self.times), size):
            path = self.leg(mu, first, min(first + size, len(self.times)), pulse, size).reached()
            yield path
            if not path.outcome.ok:
                return
            mu = path.final


@final
class Flow(AbstractFlow[Measure]):
    """The flow `d mu/dt = mu.transport(field(t, ., mu))` from `times[0]`, where the measure is `start`.

    All arguments are those of `evolve`. They are checked here, and brought to one precision: that of the measure.

    >>> mu = mf.Particles(mf.Euclidean(1), [[1.0]])  # one token alone: x' = x
    >>> flow = mf.Flow(mf.SoftmaxAttention.isotropic(1), mu, [0.0, 1.0, 2.0, 3.0], mf.Euler(1.0))
    >>> flow.run().points.ravel().tolist()
    [1.0, 2.0, 4.0, 8.0]
    >>> [leg.points.ravel().tolist() for leg in flow.legs(2)]
    [[1.0, 2.0], [4.0, 8.0]]
    """

    field: AbstractField
    start: Measure
    times: Float[Array, " k"]
    solver: AbstractSolver
    noise: AbstractNoise | None
    merge: float | None = eqx.field(static=True)
    follow: bool = eqx.field(static=True)
    key: PRNGKeyArray | None
    keeping: Keeping

    def __init__(
        self,
        field: AbstractField,
        start: Measure,
        times: Numbers,
        solver: AbstractSolver | None = None,
        *,
        noise: AbstractNoise | None = None,
        merge: Number | None = None,
        follow: bool = False,
        key: RandomKey | None = None,
        engine: AbstractEngine | None = None,
        observe: Callable[[Measure], Any] | None = None,
        keep: bool | None = None,
        events: Callable[[Measure], Any] | None = None,
        most_events: int = EVENTS,
    ):
        check_kinds(field, start, noise)
        dtype = precision(start)
        self.times = checks.floating(times).astype(dtype)
        if self.times.ndim != 1 or len(self.times) < 2:
            raise ValueError(f"`times` must list at least a first and a last time; got shape {self.times.shape}.")
        checks.finite("times", self.times)
        checks.increasing("times", self.times)
        self.solver = resolved(solver, dtype, self.times)
        self.field = in_precision_of(start, field)
        check_end(self.field, self.times)
        for turn in self._turns():
            start.admit(self.field, turn)
        self.start = summed(start, self.solver) if engine is None else start.using(engine)
        self.noise, self.key = noise, None if key is None else as_key(key)
        if merge is not None:
            checks.positive("merge", merge)
            merging.check(self.field, self.start, noise)
        self.merge = None if merge is None else float(np.asarray(merge))
        if follow:
            following.check(self.field, self.start, events)
        self.follow = follow
        if most_events < 1:
            raise ValueError(f"`most_events` must be at least 1; got {most_events}.")
        frames = observe is None if keep is None else keep
        self.keeping = Keeping(frames, observe, events, 0 if events is None else most_events)
        self.way()  # a noise that does not fit is refused here

    def _time(self, i: int) -> Float[Array, ""]:
        """One of the times; where it is known, without a program of its own for each number of times."""
        known = np.asarray(self.times) if checks.concrete(self.times) else self.times
        return checks.cast(known[i], self.times.dtype)

    def _turns(self) -> list[Float[Array, ""]]:
        """The first time, and those at which the field changes abruptly before the last."""
        found = jumps(self.field)
        if not checks.concrete(self.times, found):
            return [self._time(0)]
        first, last = (float(np.asarray(self.times)[i]) for i in (0, -1))
        known = [turn for turn in np.asarray(found).tolist() if first < turn < last]
        return [checks.cast(turn, self.times.dtype) for turn in (first, *known)]

    def way(self, derivative: Any = None) -> AbstractWay:
        """How legs are done: straight, with noise, merging tokens on the way or following a density through its forms."""
        if self.merge is not None:
            return merging.Merging(self.merge)
        noisy = None if self.noise is None else self.noise.method(self.start, self.times, self.solver, self.key)
        return following.Following(noisy) if self.follow else Straight(noisy, derivative)

    def form(self, changes: int) -> Any:
        """The start after a number of changes."""
        mu = self.start
        for _ in range(changes):
            mu = self.way().finer(mu)
        return mu

    def run(self, derivative: Any = None) -> Trajectory[Measure]:
        """The whole flow in one leg; `derivative` as in `evolve`."""
        pulse = native.pulse() if derivative is None and _is_run_now(self) else None
        with heard(pulse):
            path = self._solved(self.way(derivative), self._leg(self.start, self._time(0), self.times, pulse))
            return _kept(path if pulse is None else _arrived(path))

    def leg(self, mu: Measure, first: int, last: int, pulse: Pulse | None = None, room: int = 0) -> Trajectory[Measure]:
        """The frames between two, on from the measure at the frame before."""
        before = self._time(max(first - 1, 0))
        times = np.asarray(self.times)[first:last] if checks.concrete(self.times) else self.times[first:last]
        return self._solved(self.way(), self._leg(mu, before, checks.cast(times, self.times.dtype), pulse), room)

    def _leg(self, mu: Measure, start: Float[Array, ""], times: Float[Array, " k"], pulse: Pulse | None = None) -> Leg:
        """The leg of this flow that begins with a measure at a time."""
        token = None if pulse is None else pulse.token
        return Leg(self.field, mu, start, times, self.solver, self.keeping, token)

    def _solved(self, way: AbstractWay, leg: Leg, room: int = 0) -> Trajectory[Measure]:
        """The path of a leg; what does not fit together is refused with a sentence."""
        try:
            return _in_room(way, leg, room)
        except (TypeError, ValueError) as error:
            if "forward-mode autodiff (jvp)" in str(error):
                raise TypeError(FORWARD) from None
            check_observe(self.keeping, leg.mu)
            if isinstance(leg.mu, AbstractCloud):
                check_fit(self.field, leg.mu, leg.start)
            raise

    def error(
        self, final: Measure, end: Number | None = None, pulse: Pulse | None = None, room: int = 0
    ) -> Float[Array, ""]:
        """How far the measure at the end may be from the exact one: the error of the steps and that of the resolution.

        A second run has other steps: twice as long, or with a tolerance four times tighter. It goes from start to end without
        the frames between, which would shorten the steps of both. A measure with a resolution is run a third time, with less
        of it. Infinite when a run does not arrive. With noise all runs share the Brownian path; with merging the others merge
        at twice the distance, and by how far tokens were moved when they merged is added.
        """
        dtype = self.times.dtype
        end = self._time(-1) if end is None else checks.cast(end, dtype)
        way, solver, start = self.way().coarser(), self.solver.second(), self._time(0)
        parts = np.asarray([0.0, *self.solver.pauses, 1.0], dtype)
        first, last = (np.asarray(t) for t in (start, end)) if checks.concrete(start, end) else (start, end)
        stops = checks.cast(first + parts * (last - first), dtype)

        def again(mu):
            with heard(pulse):
                leg = self._leg(mu, start, stops, pulse).but(solver=solver, keeping=FRAMES)
                return _in_room(way, leg, room)

        second = again(self.start)
        error, less, lesser = (
            _distance(final, second, way.gain(self.solver)),
            self.start.coarser(),
            second.final.coarser(),
        )
        if less is None or lesser is None:
            return error
        return error + _distance(lesser, again(less), 1.0)


def evolve(
    field: AbstractField,
    mu0: Measure,
    times: Numbers,
    solver: AbstractSolver | None = None,
    *,
    noise: AbstractNoise | None = None,
    merge: Number | None = None,
    follow: bool = False,
    key: RandomKey | None = None,
    engine: AbstractEngine | None = None,
    observe: Callable[[Measure], Any] | None = None,
    keep: bool | None = None,
    events: Callable[[Measure], Any] | None = None,
    most_events: int = EVENTS,
    derivative: Any = None,
    verify: bool = False,
) -> Trajectory[Measure]:
    """Move a measure along a field and keep it at given times.

    Solves `d mu/dt = mu.transport(field(t, ., mu))` from `times[0]`, where the measure is `mu0`, to `times[-1]`.

    - `solver`: `Adaptive()` unless given.
    - `noise`: `Langevin(temperature)` adds Brownian motion inside the space; for particles it needs a `key` and
      `Euler(dt)`. A measure that knows how to `diffuse` follows the Fokker-Planck equation with any solver and no key.
    - `merge`: tokens that have met within this distance go on as one weighted token; frames still show all of them.
      `stats` tell the `tokens` left and the `merge_error`, the farthest that tokens were moved, summed over the mergers.
    - `follow`: a density goes on in another form where its moments no longer resolve it: in parcels of its mass, or with noise
      with more moments. Frames have the form of the last one. `stats` tell the `changes`, the time `changed_at` of the last,
      and the `change_error`, by how much moments changed and how large those were that had no room.
    - `engine`: how kernel sums are computed; the measure's own unless given.
    - `observe`: a JAX function of the measure, computed at every time; `path.observed` has its values. Frames are then kept
      only with `keep=True`, so that memory does not grow with their number. One function object compiles once: define it
      outside of loops.
    - `events`: a JAX function of the measure, one number or several. Where one crosses zero is found inside the steps, within a
      billionth of their length; `path.events` has the times, which of the numbers it was, and the measures there. The flow ends
      at event number `most_events`: with 1 it runs until something happens.
    - `derivative`: reverse mode unless given; `diffrax.ForwardMode()` for `jax.jvp`, `diffrax.RecursiveCheckpointAdjoint(k)`
      for reverse mode with `k` snapshots.
    - `verify`: run again with other steps, and with less resolution where the measure has one, and put an
      estimate of the error of the final state, the largest over all its numbers, into `stats["error"]`. It covers time steps,
      resolution, sums and merging; with noise it is that of one Brownian path. There is none beside a blow-up.

    >>> mu = mf.Particles(mf.Sphere(2), np.eye(2))
    >>> field, overlap = mf.SoftmaxAttention.isotropic(2, beta=0.0), lambda mu: mu.points[0] @ mu.points[1]
    >>> path = mf.evolve(field, mu, [0.0, np.log(3) / 2, 10.0], observe=overlap, verify=True)
    >>> path.observed.round(3).tolist()  # the hyperbolic tangent of time
    [0.0, 0.5, 1.0]
    >>> print(path.outcome)
    Reached t = 10.
    >>> path.stats["error"] < 1e-6
    True
    """
    flow = Flow(
        field, mu0, times, solver,
        noise=noise, merge=merge, follow=follow, key=key, engine=engine, observe=observe, keep=keep,
        events=events, most_events=most_events,
    )  # fmt: skip
    path = flow.run(derivative)
    if not verify:
        return path
    if checks.concrete(path.outcome) and not np.all(path.outcome.ok):
        return path
    now = _is_run_now(flow)
    error = flow.error(path.final, path.outcome.time, native.pulse() if now else None, min(len(flow.times), ROOM))
    return eqx.tree_at(lambda p: p.costs, path, path.costs | {"error": error})


def _is_run_now(flow: Flow) -> bool:
    """Whether a flow is computed at once: neither its numbers nor what is made of them is being traced."""
    return checks.concrete(flow, jnp.zeros(()) + 1)


def _arrived(path: Trajectory[Measure]) -> Trajectory[Measure]:
    """A path when it is there; an interruption is heard while it is not, which waiting inside JAX would not allow."""
    pause = 1e-4
    while not path.frames.is_ready():  # pyright: ignore[reportAttributeAccessIssue]
        time.sleep(pause)
        pause = min(2 * pause, 0.02)
    return path


def _in_room(way: AbstractWay, leg: Leg, room: int) -> Trajectory[Any]:
    """The path of a leg, compiled for more frames: the last time is repeated, which costs nothing, and cut off again."""
    times, count = leg.times, len(leg.times)
    if not isinstance(way, Straight) or count >= room or not checks.concrete(times):
        return way.solve(leg)
    longer = jnp.asarray(np.pad(np.asarray(times), (0, room - count), mode="edge"), times.dtype)
    return way.solve(leg.but(times=longer)).since(0, count)


def _kept(path: Trajectory[Measure]) -> Trajectory[Measure]:
    """The frames that were reached, where their number is known."""
    return path.reached() if checks.concrete(path.frames) and np.ndim(path.frames) == 0 else path


@eqx.filter_jit
def _distance(final: Measure, other: Trajectory[Measure], gain: float) -> Float[Array, ""]:
    """How far a measure is from the end of another run, divided by a gain, and how far tokens were moved to merge."""
    difference = _difference(final, other.final)
    moved = other.costs.get("merge_error", jnp.zeros_like(difference))
    return jnp.where(other.outcome.ok, difference / gain + moved, jnp.inf)


def _difference(mu: Measure, nu: Measure) -> Float[Array, ""]:
    """The largest difference of all numbers; of the moments that both have, or how far mass is misplaced, where forms differ."""
    match mu, nu:
        case (AbstractParcels(), AbstractMoments()):
            return mu.misplaced(nu)
        case (AbstractMoments(), AbstractParcels()):
            return nu.misplaced(mu)
        case (AbstractMoments(), AbstractMoments()):
            degree = min(mu.degree, nu.degree)
            return jnp.abs(mu.lowest(degree) - nu.lowest(degree)).max()
    return largest(jax.tree.map(jnp.subtract, mu, nu))

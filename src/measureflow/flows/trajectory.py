"""What a flow leaves behind: frames, how it ended, and what it cost."""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from measureflow import checks
from measureflow.measures import AbstractCloud, AbstractMeasure
from measureflow.results import Result, frame_at

Measure = TypeVar("Measure", bound=AbstractMeasure)
Value = TypeVar("Value")

REACHED, BLOW_UP, DIVERGED, UNDERFLOW, OVERFLOW, FAILED, UNSOUND, UNDEFINED, SPENT, INVALID, STOPPED, ENDED = range(12)
KINDS = (
    "reached", "blow-up", "diverged", "underflow", "overflow", "unsolved", "unresolved", "undefined", "spent", "invalid",
    "interrupted", "ended",
)  # fmt: skip
"""The kinds of outcomes in words, for files and tables."""

SENTENCES = {
    REACHED: "Reached t = {time:.10g}.",
    BLOW_UP: "Blew up at t = {time:.10g}: the speed grew to {speed:.3g} and no step is short enough to follow.",
    DIVERGED: "Blew up soon after t = {time:.10g}: the next fixed step is not finite; `Adaptive()` finds the time.",
    UNDERFLOW: "Stopped at t = {time:.10g}: no step is short enough for the tolerance, though the speed is only "
    "{speed:.3g}; the field may not be smooth there.",
    OVERFLOW: "Stopped at t = {time:.10g}: the tokens left the range of floating point numbers; rescale them.",
    FAILED: "Stopped at t = {time:.10g}: the implicit solver found no solution; try `Adaptive()` or a looser tolerance.",
    UNSOUND: "Stopped at t = {time:.10g}: the density is no longer resolved, its negative part has grown beyond rounding. "
    "Give it more `modes` (about an axis more `degree`) or more `noise`; without noise, `follow` takes it through.",
    UNDEFINED: "Stopped at t = {time:.10g}: the field is not a number there (NaN), though the measure is finite.",
    SPENT: "Stopped at t = {time:.10g}: too many steps to the next frame, at a speed of {speed:.3g}. Ask for an earlier time or "
    "closer frames, raise `most_steps`, or use `Stiff()` or `merge` if the motion is slow.",
    ENDED: "Ended at t = {time:.10g}, at the last event there is room for.",
    STOPPED: "Interrupted at t = {time:.10g}.",
    INVALID: "Not started: times must increase, steps be positive, and the measure lie in its space; inside `jit` this is "
    "found only when it runs.",
}


@final
class Outcome(eqx.Module):
    """How a flow ended; `str` gives the sentence."""

    kind: Int[Array, "*batch"]
    time: Float[Array, "*batch"]
    speed: Float[Array, "*batch"]

    @property
    def ok(self) -> Bool[Array, "*batch"]:
        """Whether the flow reached its last time."""
        return (
            checks.cast(np.asarray(self.kind) == REACHED, bool) if checks.concrete(self.kind) else self.kind == REACHED
        )

    @property
    def blew_up(self) -> Bool[Array, "*batch"]:
        """Whether the flow left every bound in finite time."""
        return (self.kind == BLOW_UP) | (self.kind == DIVERGED)

    def __repr__(self) -> str:
        return f"Outcome({str(self).rstrip('.')})"

    def __str__(self) -> str:
        if not checks.concrete(self.kind):
            return "The outcome is not known while tracing."
        if np.ndim(self.kind):
            ended = int(np.sum(np.asarray(self.ok)))
            return f"{ended} of {np.size(self.kind)} flows reached their last time."
        return SENTENCES[int(self.kind)].format(time=float(self.time), speed=float(self.speed))


@final
class Events(eqx.Module, Generic[Measure]):
    """When functions of a measure crossed zero: the times in order, which of the functions it was, and the measures there.

    Under `jit` and `vmap`, where shapes are fixed, times from `count` on are infinite. `sides` tells which functions are positive
    after the last event.
    """

    times: Float[Array, " k"]
    which: Int[Array, " k"]
    measures: Measure
    count: Int[Array, ""]
    sides: Bool[Array, " e"]

    @classmethod
    def none(cls, mu: Any, dtype: Any, room: int, sides: Bool[Array, " e"]) -> "Events":
        """Room for events."""
        empty = jax.tree.map(lambda leaf: jnp.zeros((room, *leaf.shape), leaf.dtype), mu)
        return cls(jnp.full(room, jnp.inf, dtype), jnp.zeros(room, int), empty, jnp.zeros((), int), sides)

    def with_(self, time: Float[Array, ""], which: Int[Array, ""], mu: Any) -> "Events":
        """The events and one more."""
        old, new = (self.times, self.which, self.measures), (time, which, mu)
        times, whiches, measures = jax.tree.map(lambda all_, one: all_.at[self.count].set(one), old, new)
        return Events(times, whiches, measures, self.count + 1, self.sides.at[which].set(~self.sides[which]))

    def found(self) -> "Events":
        """The events without room for more."""
        some, parts = slice(int(self.count)), (self.times, self.which, self.measures)
        times, which, measures = jax.tree.map(lambda leaf: _cut(leaf, some), parts)
        return Events(times, which, measures, self.count, self.sides)

    def __len__(self) -> int:
        return len(self.times)

    def __repr__(self) -> str:
        if not checks.concrete(self.times) or np.ndim(self.count):
            return f"Events(at most {self.times.shape[-1]})"
        return f"Events({int(self.count)}, at t = {', '.join(f'{t:.6g}' for t in np.asarray(self.times)[:8])})"


@final
class Trajectory(eqx.Module, Result, Generic[Measure]):
    """The frames of a flow.

    `measures` is one measure with a leading axis over frames; `observed` is what was observed of each, with the same axis, and
    then frames may not have been `kept`. A flow that stops early keeps the frames it reached; under `jit` or `vmap`,
    where shapes are fixed, all frames stay and those from `frames` on are infinite.

    >>> mu = mf.Particles(mf.Euclidean(1), [[1.0], [3.0]])
    >>> path = mf.layers(mf.SoftmaxAttention.isotropic(1, beta=0.0), mu, depth=3)
    >>> path
    Trajectory(4 frames, t = 0 to 3, 2 tokens on R, reached t = 3 in 3 steps)
    >>> path.map(lambda mu: mu.expect(lambda x: x[0])).tolist()
    [2.0, 4.0, 8.0, 16.0]
    >>> path.at(time=2.0).points.tolist()
    [[7.0], [9.0]]
    """

    times: Float[Array, " k"]
    kept: Measure | None
    final: Measure
    outcome: Outcome
    frames: Int[Array, ""]
    costs: dict[str, Array]
    engine: str = eqx.field(static=True)
    observed: Any = None
    events: Events[Measure] | None = None

    @property
    def stats(self) -> dict[str, Any]:
        """What the flow cost: steps, rejected steps, engine; `error` after `verify`, `blow_up_time` after a blow-up."""
        stats = {name: _plain(value) for name, value in self.costs.items()} | {"engine": self.engine}
        if checks.concrete(self.outcome) and np.ndim(self.outcome.kind) == 0 and int(self.outcome.kind) == BLOW_UP:
            stats["blow_up_time"] = float(self.outcome.time)
        return stats

    def at(self, i: int | None = None, *, time: float | None = None) -> Measure:
        """The measure of frame `i`, counted from the end if it is negative, or that of the frame at a `time`."""
        i = frame_at(self.times, i, time)
        if isinstance(i, int) and not -len(self) <= i < len(self):
            raise IndexError(f"`i` is {i}, but the path has {len(self)} frames, from 0 to {len(self) - 1}.")
        return _frame(self.measures, i)

    def map(self, f: Callable[[Measure], Value]) -> Value:
        """A function of one measure, on every frame: at once if JAX can compile it, else one after the other."""
        measures = self.measures
        try:
            return jax.vmap(f)(measures)
        except jax.errors.JAXTypeError:
            if not checks.concrete(measures):
                raise ValueError(
                    "`map` was given a function that looks at numbers, which are not there while JAX traces; call it outside of "
                    "`jit`, `vmap` and `grad`, or with a function made of JAX operations."
                ) from None
            return _stacked([f(mu) for mu in self])

    @property
    def measures(self) -> Measure:
        """All frames as one measure with a leading axis."""
        if self.kept is None:
            raise ValueError("The frames were observed and not kept; pass `keep=True` as well to have both.")
        return self.kept

    @property
    def points(self) -> Float[Array, "k n d"]:
        """The tokens of all frames."""
        if not isinstance(measures := self.measures, AbstractCloud):
            raise TypeError(f"`points` are those of tokens; these frames are {measures.described}. See `measures`.")
        return measures.points

    def __getitem__(self, i: int | slice) -> Any:
        """A frame, or the path through some of them."""
        if isinstance(i, slice):
            return self._between(i, jnp.asarray(len(range(*i.indices(len(self))))))
        return self.at(i)

    def __repr__(self) -> str:
        if not checks.concrete(self):
            return f"Trajectory(traced, {self.final.described})"
        if np.ndim(self.outcome.kind):
            return f"Trajectory({np.size(self.outcome.kind)} flows of {self.final.described}. {self.outcome})"
        return f"Trajectory({self.described})"

    @property
    def described(self) -> str:
        """The path in a line."""
        stats, times = self.stats, np.asarray(self.times)
        span = f", t = {times[0]:.4g} to {times[-1]:.4g}" if len(times) else ""
        how = str(self.outcome).rstrip(".")
        error = f", error {stats['error']:.1g}" if "error" in stats else ""
        return f"{len(self)} frames{span}, {self.final.described}, {how[:1].lower()}{how[1:]} in {stats['steps']} steps{error}"

    def __len__(self) -> int:
        return len(self.times)

    def __iter__(self) -> Iterator[Measure]:
        return (self.at(i) for i in range(len(self)))

    def since(self, first: int, last: int | None = None) -> "Trajectory[Measure]":
        """The trajectory without its first frames, up to, without, another if one is given."""
        frames = np.asarray(self.frames) if checks.concrete(self.frames) else self.frames
        left = (frames if last is None else frames.clip(max=last)) - first
        return self._between(slice(first, last), checks.cast(left, self.frames.dtype))

    def reached(self) -> "Trajectory[Measure]":
        """The trajectory without the frames that were not reached."""
        path = self._between(slice(int(self.frames)), self.frames)
        return path if path.events is None else dataclasses.replace(path, events=path.events.found())

    def _between(self, which: slice, frames: Int[Array, ""]) -> "Trajectory[Measure]":
        times, kept, observed = jax.tree.map(lambda leaf: _cut(leaf, which), (self.times, self.kept, self.observed))
        return dataclasses.replace(self, times=times, kept=kept, observed=observed, frames=frames)


def _cut(leaf: Array, which: slice) -> Array:
    """Some rows of an array; those in the memory of the host are cut there, where not every number of rows is a program."""
    if range(*which.indices(len(leaf))) == range(len(leaf)):
        return leaf
    if (
        not checks.concrete(leaf)
        or any(device.platform != "cpu" for device in leaf.devices())
        or len(leaf.devices()) > 1
    ):
        return leaf[which]
    return jnp.asarray(np.asarray(leaf)[which], leaf.dtype)


@eqx.filter_jit
def _frame(measures: Measure, i: int | Int[Array, ""]) -> Measure:
    return jax.tree.map(lambda leaf: leaf[i], measures)


def _stacked(values: list[Any]) -> Any:
    """Values as one tree of arrays; those that are no arrays, or of various shapes, stay a list."""
    try:
        return jax.tree.map(lambda *leaves: np.stack([np.asarray(leaf) for leaf in leaves]), *values)
    except ValueError:
        return values


def _plain(value: Array) -> Any:
    if not checks.concrete(value) or np.ndim(value):
        return value
    return int(value) if jnp.issubdtype(value.dtype, jnp.integer) else float(value)

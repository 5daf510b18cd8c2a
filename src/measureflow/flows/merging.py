"""Merging: tokens that have met go on as one, so that late times cost almost nothing.

A flow is cut into short legs. After each, tokens that have met (`measures.grouping.met`) are replaced by one token at their
mean with the sum of their weights; the frames show all tokens again, each at the place of the one it became part of. The
number of tokens in a leg is a power of two: the places that are free hold tokens without weight that do not move, so that
there are few shapes to compile and the fast motion inside a cluster, which limits the steps, is gone.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from measureflow import checks
from measureflow.annotations import Number
from measureflow.fields import AbstractField, Causal
from measureflow.flows.leg import FRAMES, AbstractWay, Keeping, Leg, Straight
from measureflow.flows.noise import AbstractNoise
from measureflow.flows.solvers import AbstractSolver
from measureflow.flows.stepping import largest
from measureflow.flows.trajectory import SPENT, Events, Trajectory
from measureflow.measures import AbstractMeasure, Particles
from measureflow.measures.grouping import means, met

PATIENCE = 64
"""Steps after which a piece is looked at again: where tokens have met on the way, the rest of it is stiff until they are one."""

FEWEST = 8
"""The smallest array of tokens: below, another compilation does not pay for itself."""
SAVING = 4
"""An array of tokens is made smaller by at least this factor, for the same reason."""


@final
class Awake(AbstractField):
    """A field that moves the first tokens alone."""

    field: AbstractField
    count: Int[Array, ""]

    def __call__(self, t: Number, xs: Float[Array, "m d"], mu: AbstractMeasure) -> Float[Array, "m d"]:
        """The velocity of the field, and none for the places that are free."""
        return jnp.where(jnp.arange(len(xs))[:, None] < self.count, self.field(t, xs, mu), 0.0)


class OfAll(eqx.Module):
    """A function of all tokens, given those that stand for them."""

    function: Callable[[Any], Any]
    mu: Particles
    where: Int[Array, " n"]

    def __call__(self, merged: Particles) -> Any:
        """The function with every token at the place of the one it became part of."""
        return self.function(eqx.tree_at(lambda m: m.points, self.mu, merged.points[self.where]))


class Merged(NamedTuple):
    """Tokens that stand for all tokens: where each went, and how far tokens were moved to get there."""

    mu: Particles
    tokens: int
    where: np.ndarray
    error: float


@final
class Merging(AbstractWay):
    """Legs on which tokens that have met within a distance go on as one."""

    tolerance: float = eqx.field(static=True)

    def solve(self, leg: Leg) -> Trajectory[Any]:
        """The leg in short pieces, with tokens merged between them; takes and returns all tokens."""
        return _merged(leg, self.tolerance)

    def coarser(self) -> "Merging":
        """Merge at twice the distance."""
        return Merging(2 * self.tolerance)

    def gain(self, solver: AbstractSolver) -> float:
        """The error of merging falls at least linearly with the distance, so the difference itself is the estimate."""
        return 1.0


def check(field: AbstractField, mu: AbstractMeasure, noise: AbstractNoise | None) -> None:
    """Refuse, with a sentence, flows in which tokens that have met are not one."""
    if not isinstance(mu, Particles):
        raise TypeError(f"`merge` is for `Particles`; got {type(mu).__name__}.")
    if not checks.concrete(mu, field):
        raise ValueError(
            "`merge` looks at numbers between legs, so it cannot be traced; drop it under jit, grad and vmap."
        )
    if noise is not None:
        raise ValueError("`merge` and `noise` exclude each other: noise parts tokens that have met.")
    parts = jax.tree.leaves(field, is_leaf=lambda part: isinstance(part, Causal))
    if any(isinstance(part, Causal) for part in parts):
        raise ValueError("`merge` needs tokens that all see the same; `Causal` shows each its own past.")


def _merged(leg: Leg, tolerance: float) -> Trajectory[Any]:
    """The path of a leg on which tokens within a distance are merged; takes and returns all tokens.

    `costs` tell how many tokens are left and the sum, over the mergers, of the farthest that a token was moved: as measures,
    the cloud and its merged form were never farther apart (in the largest displacement) when they were merged.
    """
    mu0, solver, keeping = leg.mu, leg.solver, leg.keeping
    merged, t, longest = _duplicates(mu0), leg.start, None
    frames, events, steps, rejected, path = [], None, 0, 0, None
    for end in leg.times:
        tried = 0
        while path is None or (_goes_on(path, tried, solver) and t < end):
            merged, scale = _merge(leg.field, merged, t, tolerance)
            # Tokens that are about to meet must not wait for the end of a long piece: equal steps, which never pause, take pieces
            # that grow with the time that has passed.
            longest = scale if longest is None or solver.most is not None else jnp.maximum(longest, t - leg.start)
            stop = jnp.minimum(t + jnp.minimum(scale, longest), end)
            awake = Awake(leg.field, jnp.asarray(merged.tokens))
            seen = _hunting(keeping, mu0, merged.where, events)
            piece = Leg(awake, merged.mu, t, stop[None], solver.patient(PATIENCE), seen, leg.token)
            path = Straight().solve(piece)
            events = _joined(events, path.events, mu0, merged.where)
            merged, t = merged._replace(mu=path.final), path.outcome.time
            steps, rejected = steps + path.costs["steps"], rejected + path.costs["rejected"]
            tried += int(path.costs["steps"] + path.costs["rejected"])
        if path.outcome.ok and t >= end:
            frames.append(_kept(keeping, mu0, merged.mu.points[merged.where]))
    assert path is not None
    measures, observed = (
        jax.tree.map(lambda *leaves: jnp.stack(leaves), *frames)
        if frames
        else jax.tree.map(lambda leaf: jnp.zeros((0, *leaf.shape), leaf.dtype), jax.eval_shape(keeping, mu0))
    )
    costs = {
        "steps": steps,
        "rejected": rejected,
        "tokens": jnp.asarray(merged.tokens),
        "merge_error": jnp.asarray(merged.error),
    }
    return Trajectory(
        times=leg.times[: len(frames)],
        kept=measures,
        observed=observed,
        final=eqx.tree_at(lambda m: m.points, mu0, merged.mu.points[merged.where]),
        outcome=path.outcome,
        frames=jnp.asarray(len(frames)),
        costs=costs,
        engine=mu0.engine_name,
        events=events,
    )


def _goes_on(path: Trajectory[Any], tried: int, solver: AbstractSolver) -> bool:
    """Whether a piece arrived, or only paused with steps left to the next frame."""
    paused = int(path.outcome.kind) == SPENT and solver.most is not None and tried <= solver.most
    return bool(path.outcome.ok) or paused


def _hunting(keeping: Keeping, mu: Particles, where: np.ndarray, events: Events | None) -> Keeping:
    """What is kept of a piece: its end, and the events after those that were found."""
    if keeping.events is None:
        return FRAMES
    before = (jnp.zeros((), int), _sides(keeping, mu)) if events is None else (events.count, events.sides)
    return Keeping(events=OfAll(keeping.events, mu, jnp.asarray(where)), most=keeping.most, before=before)


@eqx.filter_jit
def _sides(keeping: Keeping, mu: Particles) -> Bool[Array, " e"]:
    return keeping.sides(mu)


def _joined(events: Events | None, more: Events | None, mu: Particles, where: np.ndarray) -> Events | None:
    """Events, and those of the next piece, with all tokens; on the host, since numbers of events make many shapes."""
    if more is None or (events is not None and not int(more.count)):
        return events
    count = int(more.count)
    times, which, points = (np.asarray(part)[:count] for part in (more.times, more.which, more.measures.points))
    points, log_weights = points[:, where], np.broadcast_to(mu.log_weights, (count, len(where)))
    if events is not None:
        old = events.times, events.which, events.measures.points, events.measures.log_weights
        new = times, which, points, log_weights
        times, which, points, log_weights = (np.concatenate([a, b]) for a, b in zip(old, new, strict=True))
    measures = eqx.tree_at(lambda m: (m.points, m.log_weights), mu, (points, log_weights))
    times, which, measures = jax.tree.map(lambda leaf: jnp.asarray(leaf, leaf.dtype), (times, which, measures))
    return Events(times, which, measures, jnp.asarray(len(times), more.count.dtype), more.sides)


@eqx.filter_jit
def _kept(keeping: Keeping, mu: Particles, points: Float[Array, "n d"]) -> tuple[Any, Any]:
    return keeping(eqx.tree_at(lambda m: m.points, mu, points))


@eqx.filter_jit
def _rates(field: AbstractField, mu: Particles, t: Float[Array, ""]) -> Float[Array, "n d"]:
    return mu.transport(lambda xs: field(t, xs, mu)).points


def _duplicates(mu: Particles) -> Merged:
    """Tokens at the very same place as one, so that a run goes on from all tokens as if it had kept the merged ones."""
    _, labels = np.unique(np.asarray(mu.points), axis=0, return_inverse=True)
    return _collapse(Merged(mu, len(mu.points), np.arange(len(mu.points)), 0.0), labels.ravel())


def _merge(
    field: AbstractField, merged: Merged, t: Float[Array, ""], tolerance: float
) -> tuple[Merged, Float[Array, ""]]:
    """The tokens merged where they have met, and the time in which the fastest one would cross the cloud."""
    mu, count = merged.mu, merged.tokens
    rates = _rates(field, mu, t)[:count]
    points = np.asarray(mu.points[:count])
    labels = met(points, np.asarray(mu.weights[:count]), np.asarray(rates), mu.space, tolerance)
    scale = np.ptp(points, axis=0).max() / largest(rates)
    return _collapse(merged, labels), jnp.where(scale > 0, scale, jnp.inf)


def _collapse(merged: Merged, labels: np.ndarray) -> Merged:
    """One token for each label, in the smallest array that is worth a compilation."""
    count = int(labels.max()) + 1
    size = max(FEWEST, 2 ** int(np.ceil(np.log2(count))))
    size = size if SAVING * size <= len(merged.mu.points) else len(merged.mu.points)
    if count == merged.tokens and size == len(merged.mu.points):
        return merged
    mu, old = merged.mu, merged.tokens
    points, log_weights = np.asarray(mu.points[:old]), np.asarray(mu.log_weights[:old])
    centres = np.asarray(jax.vmap(mu.space.project)(jnp.asarray(means(points, np.exp(log_weights), labels))))
    # A token that stays alone stays exactly where it is.
    alone = np.bincount(labels) == 1
    first = np.unique(labels, return_index=True)[1]
    centres = np.where(alone[:, None], points[first], centres)
    moved = np.linalg.norm(points - centres[labels], axis=1).max()
    free = size - count
    points = np.concatenate([centres, np.repeat(centres[:1], free, 0)])
    weightless = np.log(np.finfo(points.dtype).tiny)
    log_weights = np.concatenate([np.log(np.bincount(labels, np.exp(log_weights))), np.full(free, weightless)])
    smaller = eqx.tree_at(
        lambda m: (m.points, m.log_weights),
        mu,
        (jnp.asarray(points), jnp.asarray(log_weights.astype(points.dtype))),
    )
    return Merged(smaller, count, labels[merged.where], merged.error + float(moved))

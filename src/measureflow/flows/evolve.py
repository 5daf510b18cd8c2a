"""A field moves a measure through time.

`evolve` is one leg with checks around it. `legs` chains legs for everything that needs the host in between; the state from
one leg to the next is the measure and nothing else.
"""

from collections.abc import Iterator
from typing import Any

import diffrax as dfx
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jax.typing import ArrayLike
from jaxtyping import Array, Float, PRNGKeyArray, PyTree, Real

from measureflow import checks
from measureflow.fields import AbstractField
from measureflow.flows import merging
from measureflow.flows.leg import leg
from measureflow.flows.noise import Langevin
from measureflow.flows.solvers import AbstractSolver, AbstractTolerance, Adaptive
from measureflow.flows.stepping import largest
from measureflow.flows.trajectory import Trajectory
from measureflow.measures import AbstractMeasure
from measureflow.sums import AbstractEngine, Auto


def evolve(
    field: AbstractField,
    mu0: AbstractMeasure,
    times: npt.ArrayLike | Array,
    solver: AbstractSolver | None = None,
    *,
    noise: Langevin | None = None,
    merge: Real[ArrayLike, ""] | None = None,
    key: PRNGKeyArray | int | None = None,
    engine: AbstractEngine | None = None,
    derivative: dfx.AbstractAdjoint | None = None,
    verify: bool = False,
) -> Trajectory:
    """Move a measure along a field and keep it at given times.

    Solves `d mu/dt = mu.transport(field(t, ., mu))` from `times[0]`, where the measure is `mu0`, to `times[-1]`.

    - `solver`: `Adaptive()` unless given.
    - `noise`: `Langevin(temperature)` adds Brownian motion inside the space; for particles it needs a `key` and
      `Euler(dt)`. A measure that knows how to `diffuse` follows the Fokker-Planck equation with any solver and no key.
    - `merge`: tokens that have met within this distance go on as one weighted token; frames still show all of them.
      `stats` tell the `tokens` left and the `merge_error`, the farthest that tokens were moved, summed over the mergers.
    - `engine`: how kernel sums are computed; the measure's own unless given.
    - `derivative`: a diffrax adjoint; reverse mode unless given, `diffrax.ForwardMode()` for `jax.jvp`.
    - `verify`: run again with steps about twice as long and put an estimate of the error of the final state, the
      largest over all coordinates, into `stats["error"]`. With noise both runs share the Brownian path.
    """
    field, mu0, times, solver = prepared(field, mu0, times, solver)
    mu0 = mu0 if engine is None else mu0.using(engine)
    if merge is not None:
        merging.check(field, mu0, merge, noise)
    kicks = None if noise is None else noise.kicks(mu0, times, solver, key)
    path = (
        leg(field, mu0, times[0], times, solver, kicks, derivative)
        if merge is None
        else merging.merged_leg(field, mu0, times[0], times, solver, float(np.asarray(merge)))
    )
    if verify:
        error = error_estimate(field, mu0, path.final, times[0], path.outcome.time, solver, kicks, merge)
        path = eqx.tree_at(lambda p: p.costs, path, path.costs | {"error": error})
    return path.reached() if checks.concrete(path.frames) and np.ndim(path.frames) == 0 else path


def prepared(
    field: AbstractField, mu0: AbstractMeasure, times: npt.ArrayLike | Array, solver: AbstractSolver | None
) -> tuple[AbstractField, AbstractMeasure, Float[Array, " k"], AbstractSolver]:
    """The arguments of a flow, checked and in one precision: that of the measure."""
    dtype = precision(mu0)
    times = jnp.asarray(times, dtype)
    if times.ndim != 1 or len(times) < 2:
        raise ValueError(f"`times` must list at least a first and a last time; got shape {times.shape}.")
    checks.finite("times", times)
    checks.increasing("times", times)
    solver = (Adaptive() if solver is None else solver).resolve(dtype)
    field = jax.tree.map(lambda x: x.astype(dtype) if eqx.is_inexact_array(x) else x, field)
    mu0.admit(field, times[0])
    return field, _summed(mu0, solver), times, solver


def _summed(mu: Any, solver: AbstractSolver) -> Any:
    """A measure whose sums, where they have an error of their own, keep a hundredth of the tolerance of the solver."""
    engine = getattr(mu, "engine", None)
    if not (isinstance(engine, Auto) and isinstance(solver, AbstractTolerance)):
        return mu
    n, d = mu.points.shape
    if engine.pick(n, n, d, mu.points.dtype).exact:
        return mu
    rtol = solver.rtol
    return mu.using(engine.within(float(rtol) / 100 if rtol is not None and checks.concrete(rtol) else None))


def legs(
    field: AbstractField,
    mu0: AbstractMeasure,
    times: Float[Array, " k"],
    solver: AbstractSolver,
    frames_per_leg: int,
    kicks: dfx.AbstractSolver | None = None,
    merge: float | None = None,
) -> Iterator[Trajectory]:
    """The legs of a flow, one after the other, until the last time or an early end.

    Takes what `prepared` returns; `merge` as in `evolve`. Frames are the same however the loop around them is
    interrupted, because each leg starts from the measure at the end of the one before.
    """
    mu, start = mu0, times[0]
    for first in range(0, len(times), frames_per_leg):
        frames = times[first : first + frames_per_leg]
        if merge is None:
            path = leg(field, mu, start, frames, solver, kicks).reached()
        else:
            path = merging.merged_leg(field, mu, start, frames, solver, merge)
        yield path
        if not path.outcome.ok:
            return
        mu, start = path.final, path.outcome.time


def error_estimate(
    field: AbstractField,
    mu0: AbstractMeasure,
    final: AbstractMeasure,
    start: Float[Array, ""],
    end: Float[Array, ""],
    solver: AbstractSolver,
    kicks: dfx.AbstractSolver | None = None,
    merge: Real[ArrayLike, ""] | None = None,
) -> Float[Array, ""]:
    """How far the final state may be from the exact one, from a second run with steps about twice as long.

    With a method of order `p` the coarse run is off by `2^p` times the error of the fine one, so the error is the
    difference divided by `2^p - 1` (Richardson). Infinite when the coarse run does not arrive. A run with merged tokens is
    compared with one that merges at twice the distance too; the error of merging falls at least linearly with that
    distance, so the difference itself is the estimate.
    """
    ends = jnp.stack([start, end])
    if merge is None:
        coarse, gain = leg(field, mu0, start, ends, solver.coarser(), kicks), 2**solver.order - 1
    else:
        coarse, gain = merging.merged_leg(field, mu0, start, ends, solver.coarser(), 2 * float(np.asarray(merge))), 1
    return _distance(final, coarse, gain)


@eqx.filter_jit
def _distance(final: AbstractMeasure, coarse: Trajectory, gain: int) -> Float[Array, ""]:
    difference = jax.tree.map(jnp.subtract, final, coarse.final)
    return jnp.where(coarse.outcome.ok, largest(difference) / gain, jnp.inf)


def precision(tree: PyTree) -> np.dtype:
    """The floating point type of the numbers of a tree."""
    return jnp.result_type(*jax.tree.leaves(eqx.filter(tree, eqx.is_inexact_array)))

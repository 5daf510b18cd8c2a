"""Depth as it is in a network: residual layers, one after the other."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int, Real

from measureflow import checks
from measureflow.fields import AbstractField
from measureflow.fields.depth import at_layer
from measureflow.flows.evolve import precision
from measureflow.flows.stepping import largest
from measureflow.flows.trajectory import DIVERGED, REACHED, Outcome, Trajectory
from measureflow.measures import AbstractMeasure


def layers(
    field: AbstractField, mu0: AbstractMeasure, depth: int, step: Real[ArrayLike, ""] = 1.0, *, first: int = 0
) -> Trajectory:
    """The residual network itself: `x <- settle(x + step v(x))`, with layer `k` of every `Layered` part at layer `k`.

    The velocity is the raw one of the field, and `settle` is the normalisation after the residual: on the sphere a layer
    divides `x + step v` by its norm. Times are `k step`; as the step falls the layers follow `evolve` at order one. A stack
    may be run in pieces: `first` is the index of the first layer.
    """
    if depth < 1:
        raise ValueError(f"`depth` must be at least 1; got {depth}.")
    checks.positive("step", step)
    if not hasattr(mu0, "shift"):
        raise ValueError(
            f"`mu0` must have tokens that layers move; got {type(mu0).__name__}. Use `evolve` with `solver=Euler(step)`."
        )
    dtype = precision(mu0)
    field = jax.tree.map(lambda x: x.astype(dtype) if eqx.is_inexact_array(x) else x, field)
    with jax.default_matmul_precision("highest"):
        path = _layers(field, mu0, depth, jnp.asarray(step, dtype), jnp.asarray(first))
    return path.reached() if checks.concrete(path.frames) and path.frames.ndim == 0 else path


@eqx.filter_jit
def _layers(field, mu0, depth: int, step: Float[Array, ""], first: Int[Array, ""]) -> Trajectory:
    times = step * (first + jnp.arange(depth + 1)).astype(step.dtype)

    def layer(mu, k):
        new = mu.shift(step * at_layer(field, first + k)(times[k], mu.points, mu)).settle()
        good = jnp.isfinite(largest(new))
        return jax.tree.map(lambda a, b: jnp.where(good, a, b), new, mu), (new, good)

    final, (measures, good) = jax.lax.scan(layer, mu0, jnp.arange(depth))
    measures = jax.tree.map(lambda first, rest: jnp.concatenate([first[None], rest]), mu0, measures)
    reached = jnp.cumprod(good).sum()
    last = at_layer(field, first + depth - 1)
    return Trajectory(
        times=times,
        measures=measures,
        final=final,
        outcome=Outcome(
            jnp.where(reached == depth, REACHED, DIVERGED),
            times[reached],
            largest(last(times[reached], final.points, final)),
        ),
        frames=reached + 1,
        costs={"steps": reached, "rejected": depth - reached},
        engine=mu0.engine_name,
    )

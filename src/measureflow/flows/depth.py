"""Depth as it is in a network: residual layers, one after the other."""

from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from measureflow import checks
from measureflow.annotations import Number
from measureflow.fields import AbstractField
from measureflow.fields.depth import at_layer
from measureflow.flows.admitting import check_kinds, in_precision_of, precision
from measureflow.flows.flow import AbstractFlow
from measureflow.flows.leg import FRAMES, Keeping
from measureflow.flows.stepping import largest
from measureflow.flows.trajectory import DIVERGED, REACHED, Measure, Outcome, Trajectory
from measureflow.measures import AbstractCloud, Gaussian
from measureflow.precision import exactly
from measureflow.sums.native.pulse import Pulse


def layers(field: AbstractField, mu0: Measure, depth: int, step: Number = 1.0) -> Trajectory[Measure]:
    """The residual network itself: `x <- settle(x + step v(x))`, with layer `k` of every `Layered` part at layer `k`.

    The velocity is the raw one of the field, and `settle` is the normalisation after the residual: on the sphere a layer
    divides `x + step v` by its norm. Times are `k step`; as the step falls the layers follow `evolve` at order one. A Gaussian is
    mapped to the Gaussian that its tokens would be, where the field is affine.

    >>> mu = mf.Particles(mf.Euclidean(1), [[1.0]])  # one token alone: x' = x
    >>> mf.layers(mf.SoftmaxAttention.isotropic(1), mu, depth=3).points.ravel().tolist()
    [1.0, 2.0, 4.0, 8.0]
    """
    return Layers(field, mu0, depth, step).run()


@final
class Layers(AbstractFlow[Measure]):
    """A flow through discrete depth: frame `k` is the measure after `k` layers.

    Layers approximate nothing finer, so they have no error.
    """

    field: AbstractField
    start: Measure
    times: Float[Array, " k"]
    step: Float[Array, ""]

    def __init__(self, field: AbstractField, start: Measure, depth: int, step: Number = 1.0):
        check_kinds(field, start, None, "layers(field, mu0, depth)")
        if depth < 1:
            raise ValueError(f"`depth` must be at least 1; got {depth}.")
        checks.positive("step", step)
        if not isinstance(start, AbstractCloud | Gaussian):
            raise ValueError(
                f"`mu0` must have tokens that layers move, or be a `Gaussian`; got {type(start).__name__}. "
                "Use `evolve` with `solver=Euler(step)`."
            )
        self.field, self.start = in_precision_of(start, field), start
        start.admit(self.field, jnp.zeros((), precision(start)))
        self.step = jnp.asarray(step, precision(start))
        self.times = self.step * jnp.arange(depth + 1).astype(self.step.dtype)

    @property
    def keeping(self) -> Keeping:
        """Every frame."""
        return FRAMES

    def leg(self, mu: Measure, first: int, last: int, pulse: Pulse | None = None, room: int = 0) -> Trajectory[Measure]:
        """The layers between two frames; the start itself is the first frame of all. Layers have no pulse."""
        before = max(first - 1, 0)
        path = _layers(self.field, mu, last - before - 1, self.step, jnp.asarray(before))
        return path if first == 0 else path.since(1)


def _velocity(field: AbstractField, t: Float[Array, ""], mu: Any) -> Any:
    """The raw velocity at the tokens, or the rates of a Gaussian under an affine one."""
    return field(t, mu.points, mu) if isinstance(mu, AbstractCloud) else mu.drift(field, t)


def _moved(mu: Any, step: Float[Array, ""], velocity: Any) -> Any:
    """What a layer makes of a measure. A square root moves by `(I + step L) R`, so a Gaussian is mapped exactly."""
    if isinstance(mu, AbstractCloud):
        return mu.shift(step * velocity)
    return jax.tree.map(lambda number, rate: number + step * rate, mu, velocity)


@eqx.filter_jit
@exactly
def _layers(field, mu0, depth: int, step: Float[Array, ""], first: Int[Array, ""]) -> Trajectory:
    times = step * (first + jnp.arange(depth + 1)).astype(step.dtype)

    def layer(mu, k):
        new = _moved(mu, step, _velocity(at_layer(field, first + k), times[k], mu)).settle()
        good = jnp.isfinite(largest(new))
        return jax.tree.map(lambda a, b: jnp.where(good, a, b), new, mu), (new, good)

    final, (measures, good) = jax.lax.scan(layer, mu0, jnp.arange(depth))
    measures = jax.tree.map(lambda first, rest: jnp.concatenate([first[None], rest]), mu0, measures)
    reached = jnp.cumprod(good).sum()
    last = at_layer(field, first + depth - 1)
    return Trajectory(
        times=times,
        kept=measures,
        final=final,
        outcome=Outcome(
            jnp.where(reached == depth, REACHED, DIVERGED),
            times[reached],
            largest(_velocity(last, times[reached], final)),
        ),
        frames=reached + 1,
        costs={"steps": reached, "rejected": depth - reached},
        engine=mu0.engine_name,
    )

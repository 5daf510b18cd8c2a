"""Following: a density that its moments no longer resolve goes on in another form, so that no flow ends for want of them.

The highest moments tell when: long before anything of the density is wrong they stop being tiny. Without noise the density
goes on in parcels of its mass (`measures.parcels`), which follow clusters however narrow they become. With noise, which no
parcel feels, it goes on with twice the moments, as often as that is feasible. All frames of a leg have the form of its last
one: a density is the same with moments that are zero, and in parcels it has the same moments. The state from one leg to the
next is the measure in the form it has come to.
"""

from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from measureflow import checks
from measureflow.fields import AbstractField
from measureflow.flows.leg import AbstractWay, Leg, Straight
from measureflow.flows.stepping import AbstractMethod
from measureflow.flows.trajectory import REACHED, UNSOUND, Trajectory
from measureflow.measures import AbstractMeasure
from measureflow.measures.density import AbstractMoments, AbstractSpectral
from measureflow.measures.parcels import AbstractParcels, cut


@final
class Following(AbstractWay):
    """Legs on which a density changes its form where it is no longer resolved; `method` are steps with noise."""

    method: AbstractMethod | None = None

    def solve(self, leg: Leg) -> Trajectory[Any]:
        """The leg in one piece for each form."""
        path = self._piece(leg)
        while int(path.outcome.kind) == UNSOUND and (finer := self.finer(path.final)) is not None:
            if int(path.frames) == len(path.times):  # it was still resolved on the way to the last frame
                return eqx.tree_at(lambda p: p.outcome.kind, path, jnp.asarray(REACHED))
            now = path.reached()
            rest = self._piece(leg.but(mu=finer, start=path.outcome.time, times=leg.times[len(now) :]))
            path = joined(now, rest, self, coarse_error(path.final, finer))
        return path

    def finer(self, mu: Any) -> Any:
        """The measure in its next form; None where it has come to the last."""
        if not isinstance(mu, AbstractSpectral):
            return None
        return cut(mu) if self.method is None else mu.finer()

    def _piece(self, leg: Leg) -> Trajectory[Any]:
        """The leg in the form that its measure has, up to where that form no longer resolves it if there is a finer one."""
        strict = jax.eval_shape(self.finer, leg.mu) is not None
        return Straight(self.method, strict=strict).solve(leg)


def check(field: AbstractField, mu: AbstractMeasure, events: Any) -> None:
    """Refuse, with a sentence, what has no other form."""
    if not isinstance(mu, AbstractSpectral):
        raise TypeError(
            "`follow` is for densities through their moments, such as `CircleDensity` or `SphereDensity`; "
            f"got {type(mu).__name__}."
        )
    if events is not None:
        raise ValueError("`follow` and `events` exclude each other: an event is a function of a measure in one form.")
    if not checks.concrete(mu, field):
        raise ValueError("`follow` looks at numbers, so it cannot be traced; drop it under jit, grad and vmap.")


@eqx.filter_jit
def coarse_error(mu: AbstractSpectral, finer: AbstractMoments) -> Float[Array, ""]:
    """What a change of form costs: by how much it changes a moment, and the highest ones, where more should have been."""
    return jnp.abs(finer.lowest(mu.degree) - mu.moments).max() + mu.tail


@eqx.filter_jit
def joined(path: Trajectory[Any], rest: Trajectory[Any], way: Following, error: Float[Array, ""]) -> Trajectory[Any]:
    """A path and the rest of it in the next form, as one path in that form."""
    lifted = None if path.kept is None else jax.vmap(way.finer)(path.kept)
    measures, observed, times = jax.tree.map(
        lambda a, b: jnp.concatenate([a, b]),
        (lifted, path.observed, path.times),
        (rest.kept, rest.observed, rest.times),
    )
    sums = {name: path.costs[name] + rest.costs[name] for name in ("steps", "rejected")}
    changes = {
        "changes": path.costs.get("changes", 0) + jnp.ones((), int),
        "change_error": path.costs.get("change_error", 0.0) + error,
        "changed_at": path.outcome.time,
    } | _size(rest.final)
    return Trajectory(
        times=times,
        kept=measures,
        observed=observed,
        final=rest.final,
        outcome=rest.outcome,
        frames=path.frames + rest.frames,
        costs=sums | changes,
        engine=rest.engine,
    )


def _size(mu: Any) -> dict[str, Array]:
    """How many numbers a form has, by its name."""
    if isinstance(mu, AbstractParcels):
        return {"parcels": jnp.asarray(len(mu.points))}
    return {"degree": jnp.asarray(mu.degree)}

"""Weights that change with depth: layer by layer, on a schedule, or as any function of time."""

from collections.abc import Callable, Sequence
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Real

from measureflow import checks
from measureflow.annotations import Number, Numbers
from measureflow.fields.base import AbstractField
from measureflow.fields.heads import stacked
from measureflow.measures import AbstractMeasure


class AbstractSwitching(eqx.Module):
    """Something that changes abruptly in time; solvers land on its `jumps`."""

    jumps: eqx.AbstractVar[Float[Array, " k"]]

    @property
    def until(self) -> Float[Array, ""] | float:
        """The time up to which it is known."""
        return jnp.inf


@final
class Layered(AbstractField, AbstractSwitching):
    """One field for each layer: field `k` acts on `[k, k + 1)` in `evolve` and at layer `k` in `layers`.

    >>> mu = mf.Particles(mf.Sphere(2), np.eye(2))
    >>> field = mf.Layered([mf.SoftmaxAttention.isotropic(2, beta) for beta in (0.0, np.log(3))])
    >>> [field(t, mu.points, mu)[0].round(3).tolist() for t in (0.5, 1.5)]
    [[0.5, 0.5], [0.75, 0.25]]
    """

    fields: AbstractField
    count: int = eqx.field(static=True)

    def __init__(self, fields: Sequence[AbstractField]):
        self.fields = stacked("fields", fields)
        self.count = len(fields)

    @property
    def jumps(self) -> Float[Array, " k"]:
        """The times between layers."""
        return jnp.arange(1.0, self.count)

    def layer(self, k: Int[Array, ""] | int) -> AbstractField:
        """The field of one layer; after the last layer it stays."""
        return _chosen(self.fields, jnp.clip(k, 0, self.count - 1))

    def __call__(self, t: Number, xs: Float[Array, "m d"], mu: AbstractMeasure) -> Float[Array, "m d"]:
        """The velocity of the layer that is on."""
        return self.layer(jnp.floor(jnp.asarray(t)).astype(int))(t, xs, mu)


@final
class Schedule(AbstractField, AbstractSwitching):
    """Fields that take turns: `fields[order[i]]` acts between `switches[i - 1]` and `switches[i]`.

    Without `order` each field has one turn, so there is one switch less than there are fields. After the last switch the last
    field stays, up to the time `until` if one is given: a flow that goes beyond it is refused.

    >>> mu = mf.Particles(mf.Sphere(2), np.eye(2))
    >>> field = mf.Schedule([mf.SoftmaxAttention.isotropic(2, beta) for beta in (0.0, np.log(3))], switches=[4.0])
    >>> [field(t, mu.points, mu)[0].round(3).tolist() for t in (3.9, 4.1)]
    [[0.5, 0.5], [0.75, 0.25]]
    """

    fields: AbstractField
    jumps: Float[Array, " k"]
    order: Int[Array, " turns"]
    end: Float[Array, ""] | None

    def __init__(
        self,
        fields: Sequence[AbstractField],
        switches: Numbers,
        order: Numbers | None = None,
        until: float | None = None,
    ):
        self.fields = stacked("fields", fields)
        self.jumps = checks.floating(switches)
        self.order = jnp.arange(len(fields)) if order is None else jnp.asarray(order)
        checks.shaped("switches", self.jumps, (len(self.order) - 1,), "There is one switch between two turns.")
        checks.increasing("switches", self.jumps)
        self.end = None if until is None else checks.floating(until)

    @property
    def until(self) -> Float[Array, ""] | float:
        """The time up to which turns are known."""
        return jnp.inf if self.end is None else self.end

    @staticmethod
    def periodic(fields: Sequence[AbstractField], period: float, until: float) -> "Schedule":
        """Fields that take equal turns again and again, each round one period long, up to a time."""
        checks.positive("period", period)
        checks.positive("until", until)
        turn = period / len(fields)
        turns = max(1, int(np.ceil(until / turn)))
        return Schedule(fields, turn * np.arange(1, turns), np.arange(turns) % len(fields), until)

    def __call__(self, t: Number, xs: Float[Array, "m d"], mu: AbstractMeasure) -> Float[Array, "m d"]:
        """The velocity of the field whose turn it is."""
        turn = jnp.searchsorted(self.jumps, jnp.asarray(t, self.jumps.dtype), side="right")
        return _chosen(self.fields, self.order[turn])(t, xs, mu)


@final
class Varying(AbstractField):
    """A field whose weights are a smooth function of time: `v = at(t)(t, x, mu)`.

    For example `Varying(lambda t: SoftmaxAttention(jnp.cos(t) * A, V))`.

    >>> mu = mf.Particles(mf.Sphere(2), np.eye(2))
    >>> field = mf.Varying(lambda t: mf.SoftmaxAttention.isotropic(2, beta=t))
    >>> [field(t, mu.points, mu)[0].round(3).tolist() for t in (0.0, np.log(3))]
    [[0.5, 0.5], [0.75, 0.25]]
    """

    at: Callable[[Real[Array, ""]], AbstractField]

    def __call__(self, t: Number, xs: Float[Array, "m d"], mu: AbstractMeasure) -> Float[Array, "m d"]:
        """The velocity of the field of the moment."""
        return self.at(jnp.asarray(t, xs.dtype))(t, xs, mu)


def jumps(field: AbstractField) -> Float[Array, " k"]:
    """All times at which a field or a part of it changes abruptly."""
    found = [part.jumps for part in _switching(field)]
    return jnp.sort(jnp.concatenate(found)) if found else checks.cast([], float)


def until(field: AbstractField) -> float:
    """The time up to which a field and all its parts are known."""
    found = [part.until for part in _switching(field) if checks.concrete(part.until)]
    return min(map(float, found), default=float("inf"))


def _switching(field: AbstractField) -> list[AbstractSwitching]:
    parts = jax.tree.leaves(field, is_leaf=lambda part: isinstance(part, AbstractSwitching))
    return [part for part in parts if isinstance(part, AbstractSwitching)]


def at_layer(field: AbstractField, k: Int[Array, ""] | int) -> AbstractField:
    """The field with every `Layered` part replaced by its layer `k`."""

    def chosen(part):
        return part.layer(k) if isinstance(part, Layered) else part

    return jax.tree.map(chosen, field, is_leaf=lambda part: isinstance(part, Layered))


def _chosen(fields: AbstractField, k: Int[Array, ""]) -> AbstractField:
    return jax.tree.map(lambda leaf: leaf[k], fields)

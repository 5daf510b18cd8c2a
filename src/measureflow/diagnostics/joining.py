"""When tokens become one: mergers located inside the steps of a flow, and the tree that they make.

At a distance, the number of clusters is one more than the number of heights above it in the single-linkage tree of the tokens.
Heights are continuous in time, so that `evolve(..., events=Linkage(distance))` finds the very moments at which one of them
crosses the distance.
"""

from itertools import accumulate
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from measureflow import checks
from measureflow.flows import Events, Trajectory
from measureflow.measures import AbstractCloud
from measureflow.measures.grouping import linked
from measureflow.precision import keep_all
from measureflow.results import call


class Linkage(eqx.Module):
    """The heights at which groups of tokens become one, less a distance: `events` of a flow are its mergers.

    >>> mu = mf.Particles(mf.Sphere(2), np.eye(2))
    >>> field, meet = mf.SoftmaxAttention.isotropic(2, beta=0.0), mf.diagnostics.Linkage(0.1)
    >>> path = mf.evolve(field, mu, [0.0, 6.0], events=meet)
    >>> path.events.times.item() - np.arctanh(np.cos(0.1)) < 1e-8  # the overlap is tanh(t)
    True
    """

    distance: Float[Array, ""] = eqx.field(converter=checks.floating)

    def __check_init__(self):
        checks.positive("distance", self.distance)

    def __call__(self, mu: AbstractCloud) -> Float[Array, " k"]:
        """How far apart groups are, the farthest first, beyond the distance."""
        return heights(mu) - self.distance.astype(mu.points.dtype)


def heights(mu: AbstractCloud) -> Float[Array, " k"]:
    """The heights of the single-linkage tree, the largest first: the edges of a shortest tree through all tokens (Prim)."""
    far = jax.vmap(mu.space.distance, (None, 0))

    def add(state, _):
        near, inside = state
        i = jnp.argmin(jnp.where(inside, jnp.inf, near))
        return (jnp.minimum(near, far(mu.points[i], mu.points)), inside.at[i].set(True)), near[i]

    near = far(mu.points[0], mu.points)
    inside = jnp.arange(len(near)) == 0
    return -jnp.sort(-jax.lax.scan(add, (near, inside), length=len(near) - 1)[1])


class Mergers(NamedTuple):
    """The tree of all mergers of a flow: at each of the `times` two groups, in `pairs`, became one for good, of so many tokens.

    `labels` has the group of every token at the start; merger number `i` makes a group with the next free number, as in SciPy's
    linkage. Groups that never met are left apart.
    """

    times: np.ndarray
    pairs: np.ndarray
    sizes: np.ndarray
    labels: np.ndarray
    end: float

    def __repr__(self) -> str:
        apart = self.groups - len(self.times)
        return f"Mergers({len(self.times)} of {self.groups} groups, {apart} left at t = {self.end:.6g})"

    @property
    def groups(self) -> int:
        """How many groups there were at the start."""
        return int(self.labels.max()) + 1

    @property
    def linkage(self) -> np.ndarray:
        """The tree as SciPy's functions of hierarchies take it, with times as heights; all must have met."""
        if len(self.times) < self.groups - 1:
            raise ValueError(f"`linkage` is a tree, but {self.groups - len(self.times)} groups have not met.")
        return np.column_stack([self.pairs, self.times, self.sizes])

    def plot(self, **options: Any) -> Any:
        """Draw the tree over time on a figure, or on axes given as `ax`; `log=True` for logarithmic time."""
        return call("dendrogram", self, **options)


def mergers(path: Trajectory[Any], distance: float) -> Mergers:
    """The tree of mergers along a path that was evolved with `events=Linkage(distance)`.

    Tokens may meet and part again, as on a watershed between two clusters; here they merge when they meet for good.
    """
    times, rows = zip(*partitions(path, distance), strict=True)
    lasting = list(accumulate(reversed(rows), _common))[::-1]
    groups = int(lasting[0].max()) + 1
    names, merged, pairs, sizes = np.arange(groups), [], [], np.bincount(lasting[0]).tolist()
    for time, before, now in zip(times[1:], lasting, lasting[1:], strict=False):
        names_now = np.empty(now.max() + 1, int)
        for new in range(len(names_now)):
            first, *others = names[np.unique(before[now == new])]
            for other in others:
                pairs.append((first, other))
                sizes.append(sizes[first] + sizes[other])
                first = groups + len(merged)
                merged.append(time)
            names_now[new] = first
        names = names_now
    ends = np.array(merged), np.array(pairs, int).reshape(-1, 2), np.array(sizes[groups:], int)
    return Mergers(*ends, lasting[0], float(path.outcome.time))


def _common(labels: np.ndarray, others: np.ndarray) -> np.ndarray:
    """The groups of tokens that are together in both of two partitions."""
    return np.unique(np.stack([labels, others]), axis=1, return_inverse=True)[1].ravel()


def partitions(path: Trajectory[Any], distance: float) -> list[tuple[float, np.ndarray]]:
    """The groups of tokens at the start and after each event, with the times; those of other events are refused."""
    events, start = path.events, path.at(0)
    if events is None:
        raise ValueError("The path knows no mergers: evolve it with `events=mf.diagnostics.Linkage(distance)`.")
    if len(events.sides) != len(start.points) - 1 or not np.allclose(_crossed(events), distance, rtol=1e-3):
        raise ValueError(f"The events of this path are not those of `Linkage({distance:g})`.")
    # An event is located just after its crossing, where rounding must not part tokens again.
    wide = distance * (1 + 1e-8)
    after = [linked(np.asarray(points), start.space, wide) for points in events.measures.points]
    times = [float(path.times[0]), *np.asarray(events.times).tolist()]
    return list(zip(times, [linked(np.asarray(start.points), start.space, distance), *after], strict=True))


@eqx.filter_jit
def _crossed(events: Events[Any]) -> Float[Array, " k"]:
    """The heights that crossed the distance."""
    return jax.vmap(lambda mu, which: heights(mu)[which])(events.measures, events.which)


keep_all(globals())

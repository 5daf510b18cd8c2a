"""Ways on the sphere past points that must not move: one gate after the other, each of which holds one point and no other.

A gate is a cap. It carries a point from one end of an arc to the other if both are inside and everybody else is outside. A way is
a shortest path, by the number of gates, in the graph of arcs between random points that such caps can carry.
"""

import itertools
from typing import NamedTuple

import numpy as np
from scipy.sparse.csgraph import dijkstra

from measureflow.fields import Perceptron
from measureflow.precision import keep_all

WAYPOINTS = 300
"""Random points that a way may pass."""

WIDEST = 1.3
"""The largest radius of a gate: below a quarter of a circle, so that arcs between points of the cap stay in it."""

PASSING = 0.01
"""How near a point comes to one that it only passes, as an angle."""

CLEAR = 0.9
"""The radius of a gate over the distance to the nearest point that must stay."""
INSIDE = 0.85
"""Half of the arc that a gate carries a point along, over the radius of the gate."""


class Leg(NamedTuple):
    """One point carried along an arc by a gate."""

    who: int
    gate: Perceptron
    duration: float


def angles(xs: np.ndarray, ys: np.ndarray) -> np.ndarray:
    """The angles between rows of two arrays of points on a sphere."""
    return angles_of(xs[:, None], ys[None])


def unit(xs: np.ndarray) -> np.ndarray:
    """Rows divided by their norms."""
    return xs / np.linalg.norm(xs, axis=-1, keepdims=True)


def route(
    start: np.ndarray, end: np.ndarray, parked: np.ndarray, size: float, rng: np.random.Generator
) -> list[np.ndarray] | None:
    """The points of a way of caps of this `size` from start to end past parked ones, or None where none is found."""
    points = np.concatenate([[start, end], unit(rng.normal(size=(WAYPOINTS, len(start))))])
    i, j = np.triu_indices(len(points), 1)
    half = angles_of(points[i], points[j]) / 2
    radius = radii(middles(points[i], points[j]), parked, size)
    cost = np.where(half + size <= INSIDE * radius, 1 + 0.01 * _speed(half, radius), 0.0)  # zero is no edge
    graph = np.zeros((len(points), len(points)))
    graph[i, j] = cost
    distance, before = dijkstra(graph, directed=False, indices=0, return_predecessors=True)
    if not np.isfinite(distance[1]):
        return None
    way = [1]
    while way[-1] != 0:
        way.append(int(before[way[-1]]))
    return [points[k] for k in reversed(way)]


def gathering(a: np.ndarray, b: np.ndarray, radius: float, within: float) -> tuple[Perceptron, float]:
    """A gate that leads to the end of an arc, and the time until what was at its start is `within` an angle of it.

    It is open widest in the middle of the arc, and at the ends just as far as its speed is scaled for: the distance falls at
    least like `e^{-t}`.
    """
    half = float(angles_of(a, b)) / 2
    gate = Perceptron.gate(middles(a, b), radius, b, float(_speed(np.asarray(half), np.asarray(radius))))
    return gate, float(np.log(np.tan(half) / np.tan(within / 2)))


def carrying(a: np.ndarray, b: np.ndarray, radius: float) -> tuple[Perceptron, float]:
    """A gate that leads on along an arc, and the time from its start to its end.

    Where it leads to is a quarter of a circle from the middle of the arc, so that all is the same in both directions of time, and
    a cloud about the arc comes out as large as it went in.
    """
    half, middle = float(angles_of(a, b)) / 2, middles(a, b)
    gate = Perceptron.gate(middle, radius, unit(b - (b @ middle) * middle), 1 / (1 - np.cos(radius)))
    s = np.linspace(-half, half, 2001)  # at this distance from the middle the speed is that of the gate times cos s
    slowness = (1 - np.cos(radius)) / ((np.cos(s) - np.cos(radius)) * np.cos(s))
    return gate, float(np.trapezoid(slowness, s))


def matched(
    starts: np.ndarray, ends: np.ndarray, rng: np.random.Generator, *, within: float = 0.0, size: float = 0.0
) -> list[Leg]:
    """Gates that bring every start to its end, one at a time, while all others stay where they are.

    Points are gathered at the ends, `within` an angle of them. Caps of a `size` are carried there as they are. The one whose end
    is freest goes first. If another stands in its way, that one steps aside.
    """
    at, found = starts.copy(), []
    waiting = {k for k in range(len(starts)) if angles_of(starts[k], ends[k]) > max(within, 1e-9)}
    for _ in range(4 * len(starts)):
        if not waiting:
            return found
        who = max(waiting, key=lambda k: _clearance(ends[k], np.delete(at, k, 0)))
        goal, parked = ends[who], np.delete(at, who, 0)
        way = route(at[who], goal, parked, size, rng)
        if way is None:
            who = min(waiting - {who} or {who}, key=lambda k: float(angles_of(at[k], goal)))
            parked = np.delete(at, who, 0)
            goal = _freest(np.concatenate([parked, ends]), rng)
            way = route(at[who], goal, parked, size, rng)
        else:
            waiting.remove(who)
        if way is None:
            break
        for a, b in itertools.pairwise(way):
            radius = float(radii(middles(a, b)[None], parked, size)[0])
            near = within if b is way[-1] else max(within, PASSING)
            found.append(Leg(who, *(carrying(a, b, radius) if size else gathering(a, b, radius, near))))
        at[who] = goal
    raise ValueError(
        "No way past the other measures was found for all of them: `targets`, or `inputs`, crowd too closely. Move them apart."
    )


def angles_of(xs: np.ndarray, ys: np.ndarray) -> np.ndarray:
    """The angles between points, pair by pair."""
    return np.asarray(2 * np.arcsin(np.minimum(np.linalg.norm(xs - ys, axis=-1) / 2, 1.0)))


def middles(xs: np.ndarray, ys: np.ndarray) -> np.ndarray:
    """The middles of arcs; of antipodes, whose arcs are too long for a gate anyhow, the first."""
    sums = xs + ys
    return unit(np.where(np.linalg.norm(sums, axis=-1, keepdims=True) > 1e-9, sums, xs))


def radii(centres: np.ndarray, parked: np.ndarray, size: float) -> np.ndarray:
    """How wide gates at centres may be, past parked caps."""
    if not len(parked):
        return np.full(len(centres), WIDEST)
    return np.minimum(CLEAR * (angles(centres, parked).min(1) - size), WIDEST)


def _speed(half: np.ndarray, radius: np.ndarray) -> np.ndarray:
    """The factor that opens a gate to one at the ends of an arc."""
    return np.asarray(1 / np.maximum(np.cos(half) - np.cos(radius), 1e-9))


def _clearance(point: np.ndarray, others: np.ndarray) -> float:
    return float(angles(point[None], others).min()) if len(others) else np.pi


def _freest(taken: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    spots = unit(rng.normal(size=(WAYPOINTS, taken.shape[1])))
    return spots[angles(spots, taken).min(1).argmax()]


keep_all(globals())

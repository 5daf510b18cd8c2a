"""Transformers that map measures to measures: one schedule of weights that brings several inputs to their targets at once.

`x' = P_x(V A[mu](x) + W (Ux + b)_+)` with weights that are constant between switches. Tokens are pushed off a hole of the
supports into a cap; a gate separates measures whose means look the same way; attention with `A = 0` contracts each measure
towards its own mean, also where supports overlap, and spreads these points; then gates carry them to their targets one by one.
Where targets are clouds, both sides are drawn apart in this way, but not to points; gates carry the clouds of the inputs to those
of the targets, a perceptron that is fitted gives them their shapes, and the schedule that drew the targets apart is run
backwards. ruiz:24
"""

from collections.abc import Sequence
from typing import NamedTuple, cast, final

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from scipy.spatial import KDTree

from measureflow import checks
from measureflow.annotations import Number, Numbers
from measureflow.fields import AbstractField, Packed, Perceptron, Schedule, SoftmaxAttention, Sum
from measureflow.flows import RK4, Trajectory, evolve
from measureflow.measures import AbstractMeasure, Particles
from measureflow.networks import routing
from measureflow.networks.routing import angles, unit
from measureflow.networks.shaping import fitted
from measureflow.precision import keep_all
from measureflow.spaces import AbstractSpace
from measureflow.transport import wasserstein

CAP = 1.0
"""The radius of the cap that tokens are pushed into, if they are not in one: well inside a hemisphere."""

NARROW = 1e-3
"""How small a hole is refused, as an angle."""

APART = 0.02
"""Two measures whose limits are closer than this angle are separated by gates first."""
ALIKE = 1e-5
"""Two measures whose limits are closer than this angle after the gates are refused."""

SPREAD = 0.6
"""Clusters closer than this angle are spread by a linear map."""

AROUND = 0.2
"""The radius of clouds that are drawn apart, over the distance of their centres."""

GATES = 256
"""Random gates of which the one that separates best is chosen."""
SOME_TOKENS = 300
"""Tokens of each measure that decide which gate separates best."""


class Stage(NamedTuple):
    """A part of a schedule: what it does, when it ends and how many pieces it has."""

    name: str
    end: float
    pieces: int


class Stages(NamedTuple):
    """What a schedule did to each measure, at the ends of its stages."""

    names: tuple[str, ...]
    errors: Float[np.ndarray, "stages N"]
    """`W_2` to the targets."""
    diameters: Float[np.ndarray, "stages N"]
    parked: float
    """How far tokens moved while a gate carried another measure, at most."""

    @property
    def error(self) -> float:
        """The largest `W_2` at the end."""
        return float(self.errors[-1].max())


@final
class Interpolation(AbstractField):
    """A field that maps several measures to their targets, between time 0 and `until`.

    It is an ordinary field, its `schedule` of attention and perceptrons: `evolve(plan, mu, [0.0, plan.until])`, for any measure.
    """

    schedule: Schedule
    stages: tuple[Stage, ...] = eqx.field(static=True)
    carried: tuple[int, ...] = eqx.field(static=True)
    """Which measure the gate of each piece carries; -1 for a piece that moves all."""

    def __call__(self, t: Number, xs, mu: AbstractMeasure):
        """The velocity of the piece whose turn it is."""
        return self.schedule(t, xs, mu)

    @property
    def until(self) -> float:
        """The time at which the measures have arrived."""
        return float(self.schedule.until)

    @property
    def switches(self) -> int:
        """How many times the weights change."""
        return len(self.schedule.jumps)

    @property
    def ends(self) -> Float[np.ndarray, " pieces"]:
        """The times at which pieces end."""
        return np.append(np.asarray(self.schedule.jumps, float), self.until)

    def path(self, inputs: Sequence[Particles], times: Numbers | None = None) -> Trajectory:
        """All inputs under the schedule, packed in one cloud; at the ends of the pieces unless times are given."""
        times = np.append(0.0, self.ends) if times is None else times
        return evolve(Packed(self, [len(mu.points) for mu in inputs]), Packed.pack(inputs), times)

    def verify(self, inputs: Sequence[Particles], targets: Sequence[Particles] | Numbers) -> Stages:
        """Run the schedule forward on all inputs, and measure what each stage did to each of them."""
        goals = as_measures(targets, inputs[0].space)
        path, unpack = self.path(inputs), Packed(self, [len(mu.points) for mu in inputs]).unpack
        frames = [unpack(path.at(k)) for k in range(len(path))]
        last = np.cumsum([0, *(stage.pieces for stage in self.stages)])
        errors = [[float(wasserstein(mu, nu)) for mu, nu in zip(frames[k], goals, strict=True)] for k in last]
        sizes = [[diameter(np.asarray(mu.points)) for mu in frames[k]] for k in last]
        moved = [
            float(jnp.abs(after.points - before.points).max())
            for k, who in enumerate(self.carried)
            for i, (before, after) in enumerate(zip(frames[k], frames[k + 1], strict=True))
            if who not in (-1, i)
        ]
        names = ("start", *(stage.name for stage in self.stages))
        return Stages(names, np.array(errors), np.array(sizes), max(moved, default=0.0))


def interpolate(
    inputs: Sequence[Particles],
    targets: Sequence[Particles] | Numbers,
    *,
    error: float = 1e-3,
    time: float | None = None,
    width: int = 64,
    seed: int = 0,
) -> Interpolation:
    """One schedule of weights that brings every input measure to its target, up to `error` in `W_2` if targets are points.

    - `inputs`: measures on one sphere of at least three ambient coordinates; they may overlap, but none may equal another, and
      together they leave some cap of the sphere empty.
    - `targets`: points `(N, d)`, or measures on that sphere. Clouds are met as well as a fitted perceptron of `width` units can.
    - `time`: how long the schedule lasts; its own pace unless given. Weights grow as it gets shorter.

    `plan.verify(inputs, targets)` runs it and says what each stage did.
    """
    inputs = checked(inputs)
    goals = as_measures(targets, inputs[0].space)
    check_pairs(inputs, goals)
    checks.positive("error", error)
    checks.positive("time", 1.0 if time is None else time)
    checks.count("width", width, 1)
    rng, pieces = np.random.default_rng(seed), _Pieces(inputs)
    _push(pieces, rng)
    near = _separate(pieces, rng)
    if all(len(nu.points) == 1 for nu in goals):
        _contract(pieces, "cluster", min(error, 0.01 * near), 1.0)
        _spread(pieces, 1.0)
        _match(pieces, np.concatenate([np.asarray(nu.points, float) for nu in goals]), rng, within=error / 2)
    else:
        _shape(pieces, goals, rng, width)
    return pieces.plan(time)


class _Pieces:
    """A schedule in the making, with the measures as far as it has brought them."""

    def __init__(self, inputs: Sequence[Particles]):
        self.measures, self.names, self.fields, self.durations, self.carried = list(inputs), [], [], [], []

    @property
    def dim(self) -> int:
        return self.measures[0].space.dim

    @property
    def points(self) -> np.ndarray:
        return np.concatenate([np.asarray(mu.points, float) for mu in self.measures])

    @property
    def centres(self) -> np.ndarray:
        return unit(means(self.measures))

    def add(self, name, *, value=None, perceptron=None, duration: float, who: int = -1, follow: bool = True) -> None:
        """One more piece: attention with `A = 0` and a value matrix, and a perceptron; either may do nothing."""
        self.append(name, piece(self.dim, value, perceptron), duration, who, follow)

    def append(self, name: str, field: Sum, duration: float, who: int = -1, follow: bool = True) -> None:
        """One more piece, under which the measures move unless they need not be followed any more."""
        if follow:
            self.measures = advanced(field, self.measures, duration)
        self.names.append(name)
        self.fields.append(field)
        self.durations.append(duration)
        self.carried.append(who)

    def backwards(self) -> list[tuple[Sum, float]]:
        """The pieces that undo these, with how long they take."""
        return [
            (faster(field, -1.0), time) for field, time in zip(self.fields[::-1], self.durations[::-1], strict=True)
        ]

    def plan(self, time: float | None) -> Interpolation:
        if not self.fields:
            self.add("rest", duration=1.0, follow=False)
        ends = np.cumsum(self.durations)
        pace = 1.0 if time is None else float(time) / ends[-1]
        width = max(len(halves(field)[1].b) for field in self.fields)
        fields = [faster(field, 1 / pace, width) for field in self.fields]
        names = list(dict.fromkeys(self.names))
        counts = [self.names.count(name) for name in names]
        stages = tuple(
            Stage(name, float(pace * ends[last - 1]), count)
            for name, last, count in zip(names, np.cumsum(counts), counts, strict=True)
        )
        schedule = Schedule(fields, pace * ends[:-1], until=float(pace * ends[-1]))
        return Interpolation(schedule, stages, tuple(self.carried))


def piece(dim: int, value: np.ndarray | None, perceptron: Perceptron | None) -> Sum:
    """A layer of a transformer: attention that sees the mean, with a value matrix, and a perceptron."""
    attention = SoftmaxAttention(np.zeros((dim, dim)), np.zeros((dim, dim)) if value is None else value)
    return Sum((attention, Perceptron.drift(np.zeros(dim)) if perceptron is None else perceptron))


def halves(field: Sum) -> tuple[SoftmaxAttention, Perceptron]:
    """Attention and perceptron of a piece."""
    attention, mlp = field.terms
    assert isinstance(attention, SoftmaxAttention)
    assert isinstance(mlp, Perceptron)
    return attention, mlp


def faster(field: Sum, factor: float, width: int = 0) -> Sum:
    """The same piece at another pace, backwards if the factor is negative, and filled up to a width."""
    attention, mlp = halves(field)
    mlp = mlp.widened(max(width, len(mlp.b)))
    value = factor * np.asarray(attention.value)
    return Sum((SoftmaxAttention(attention.interaction, value), Perceptron(factor * mlp.W, mlp.U, mlp.b)))


@eqx.filter_jit
def _advanced(field: AbstractField, mu: Particles, duration) -> Particles:
    return evolve(field, mu, jnp.stack([jnp.zeros_like(duration), duration])).final


def advanced(field: AbstractField, measures: Sequence[Particles], duration: float) -> list[Particles]:
    """Measures after a time under a field."""
    return [_advanced(field, mu, jnp.asarray(duration, mu.points.dtype)) for mu in measures]


def means(measures: Sequence[Particles]) -> np.ndarray:
    """The means of measures, as points of the ball."""
    return np.stack([np.asarray(mu.weights @ mu.points, float) for mu in measures])


def diameter(points: np.ndarray) -> float:
    """The largest angle between two points; twice the largest from their middle, where they are many."""
    if len(points) > 2000:
        return 2 * float(angles(unit(points.mean(0)[None]), points).max())
    return float(angles(points, points).max())


def radius(mu: Particles) -> float:
    """The largest angle of a token from the mean."""
    return float(angles(unit(means([mu])), np.asarray(mu.points, float)).max())


def hole(points: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, float]:
    """A direction that is far from all points, and how far the nearest is."""
    spots = np.concatenate([-unit(points.mean(0)[None]), -points[:512], unit(rng.normal(size=(4096, points.shape[1])))])
    free = 2 * np.arcsin(np.minimum(KDTree(points).query(spots)[0] / 2, 1.0))
    return spots[free.argmax()], float(free.max())


def _push(pieces: _Pieces, rng: np.random.Generator) -> None:
    """Drift away from the hole, `x' = -P_x w`, until all tokens are in a cap: `tan(angle / 2)` falls like `e^{-t}`."""
    w, free = hole(pieces.points, rng)
    if free < NARROW:
        raise ValueError(
            "`inputs` cover the whole sphere; the construction needs a hole, some cap that none of them meets. Leave tokens out."
        )
    if np.pi - free > CAP:
        duration = float(np.log(np.tan((np.pi - free) / 2) / np.tan(CAP / 2)))
        pieces.add("push", perceptron=Perceptron.drift(-w), duration=duration)


def _separate(pieces: _Pieces, rng: np.random.Generator) -> float:
    """Gates that make means look different ways, where contraction would bring two measures to one point.

    It gives how near the points are that measures contract to.
    """
    near = closest(_limits(pieces.measures))
    for _ in range(len(pieces.measures)):
        if near > APART:
            return near
        pieces.add("separate", perceptron=_separating(pieces, rng), duration=1.0)
        near = closest(_limits(pieces.measures))
    if near <= ALIKE:
        raise ValueError(
            "Two of the `inputs` are so alike that none of the gates tried tells them apart; such measures need no two targets, "
            "so leave one of them out."
        )
    return near


def _limits(measures: Sequence[Particles]) -> np.ndarray:
    """Where measures contract to."""
    value = piece(measures[0].space.dim, np.eye(measures[0].space.dim), None)
    return unit(means(advanced(value, measures, 12.0)))


def _separating(pieces: _Pieces, rng: np.random.Generator) -> Perceptron:
    """Of many gates the one after which the directions of the means differ most."""
    points = pieces.points
    centres = points[rng.integers(len(points), size=GATES)]
    towards = unit(centres + rng.normal(size=centres.shape))
    radii = rng.uniform(0.1, 1.0, size=GATES)
    speeds = 2 / (1 - np.cos(radii))
    gates = eqx.filter_vmap(Perceptron.gate)(*map(jnp.asarray, (centres, radii, towards, speeds)))
    found = np.stack([np.asarray(_moved(gates, _some(mu, rng))) for mu in pieces.measures], 1)
    scores = [closest(unit(one)) for one in found]
    best = int(np.argmax(scores))
    return Perceptron.gate(centres[best], radii[best], towards[best], speeds[best])


def _some(mu: Particles, rng: np.random.Generator) -> Particles:
    """At most so many tokens of a measure, which are enough to choose a gate by."""
    if len(mu.points) <= SOME_TOKENS:
        return mu
    which = rng.choice(len(mu.points), SOME_TOKENS, replace=False)
    return Particles(mu.space, mu.points[which], mu.weights[which])


@eqx.filter_jit
@eqx.filter_vmap(in_axes=(0, None))
def _moved(gate: Perceptron, mu: Particles):
    final = evolve(gate, mu, jnp.array([0.0, 1.0]), RK4(0.1)).final
    return final.weights @ final.points


def _contract(pieces: _Pieces, name: str, small: float, step: float) -> None:
    """Contract each measure towards a point, `x' = P_x mean(mu)`, until its radius is small."""
    value, duration, measures = np.eye(pieces.dim), 0.0, pieces.measures
    while max(map(radius, measures)) > small:
        measures, duration = advanced(piece(pieces.dim, value, None), measures, step), duration + step
        if duration > 60:
            raise ValueError("`inputs` do not contract to points: some of their tokens are antipodes of the others.")
    if duration:
        pieces.add(name, value=value, duration=duration, follow=False)
        pieces.measures = measures


def _spread(pieces: _Pieces, hold: float) -> None:
    """Move clusters apart by a linear map of directions, the flow of `x' = P_x (V + cI) x` for unit time with `V` its logarithm.

    The map whitens: as many points as coordinates become orthogonal. The multiple of the identity moves no cluster. It keeps
    each together at a rate of at least `hold`, or as large as it is, about, if that is zero.
    """
    centres = pieces.centres
    if closest(centres) >= SPREAD:
        return
    spectrum, basis = np.linalg.eigh(centres.T @ centres)
    floor = max(spectrum[spectrum > 1e-12].min(), 1e-6)
    logs = -0.5 * np.log(np.maximum(spectrum, floor))
    shift = hold - logs.min() if hold else -logs.mean()
    pieces.add("spread", value=(basis * (logs + shift)) @ basis.T, duration=1.0)


def _match(
    pieces: _Pieces, ends: np.ndarray, rng: np.random.Generator, *, within: float = 0.0, size: float = 0.0
) -> None:
    """Gates that carry measures to their ends one by one."""
    for leg in routing.matched(pieces.centres, ends, rng, within=within, size=size):
        pieces.add("match", perceptron=leg.gate, duration=leg.duration, who=leg.who, follow=bool(size))


def _shape(pieces: _Pieces, goals: list[Particles], rng: np.random.Generator, width: int) -> None:
    """Draw both sides apart, carry inputs to targets, fit their shapes, and run the side of the targets backwards."""
    other = _Pieces(goals)
    _push(other, rng)
    _separate(other, rng)
    for side in (pieces, other):
        _contract(side, "apart", AROUND * closest(side.centres), 0.25)
        _spread(side, 0.0)
    _match(pieces, other.centres, rng, size=max(map(radius, [*pieces.measures, *other.measures])))
    back = other.backwards()
    for mlp in fitted(pieces.measures, goals, back, width, rng):
        pieces.add("shape", perceptron=mlp, duration=1.0, follow=False)
    for field, duration in back:
        pieces.append("return", field, duration, follow=False)


def closest(points: np.ndarray) -> float:
    """The smallest angle between two of the points."""
    if len(points) < 2:
        return np.pi
    return float((angles(points, points) + 10 * np.eye(len(points))).min())


def as_measures(targets: Sequence[Particles] | Numbers, space: AbstractSpace) -> list[Particles]:
    """Targets as measures: a point is a Dirac."""
    if isinstance(targets, Sequence) and any(isinstance(nu, Particles) for nu in targets):
        return checked(cast("Sequence[Particles]", targets), "targets")
    points = checks.floating(targets)
    checks.shaped("targets", points, ("N", space.dim), "Rows are points of the sphere of the inputs.")
    return [Particles(space, point[None]) for point in points]


def checked(measures: Sequence[Particles], name: str = "inputs") -> list[Particles]:
    """Measures on one sphere on which interpolation is possible."""
    if not measures:
        raise ValueError(f"`{name}` is empty; give at least one measure.")
    for k, mu in enumerate(measures):
        if not isinstance(mu, Particles) or not mu.space.spherical:
            raise TypeError(f"`{name}[{k}]` must be `Particles` on a `Sphere`; got {mu!r}.")
        if mu.space.dim != measures[0].space.dim:
            raise ValueError(
                f"`{name}` must be on one sphere; got {measures[0].space} and {mu.space} for `{name}[{k}]`."
            )
    if measures[0].space.dim < 3:
        raise ValueError(
            f"`{name}` are on the circle, where interpolation is impossible: a flow moves tokens continuously and lets none pass "
            "another, so their order around the circle stays. Use `Sphere(3)` or higher."
        )
    return list(measures)


def check_pairs(inputs: list[Particles], targets: list[Particles]) -> None:
    """Refuse what no flow can do: one measure to two places, and two measures to one point."""
    if len(inputs) != len(targets):
        raise ValueError(f"Each input needs a target; got {len(inputs)} `inputs` and {len(targets)} `targets`.")
    seen = _seen(inputs)
    for i in range(len(inputs)):
        for j in range(i):
            if np.allclose(seen[i], seen[j], rtol=1e-9, atol=0.0):
                raise ValueError(
                    f"`inputs[{j}]` and `inputs[{i}]` are the same measure, which a flow sends to one place: no weights send it "
                    "to two targets. Leave one of them out."
                )
    ends = np.stack([np.asarray(nu.points[0], float) for nu in targets if len(nu.points) == 1] or [np.zeros(3)])
    if len(ends) > 1 and (near := closest(ends)) < NARROW:
        raise ValueError(
            f"Two of the `targets` are only {near:.2g} apart; different points are carried one by one and need {NARROW:g}. Move "
            "them apart."
        )


def _seen(measures: list[Particles]) -> np.ndarray:
    """What measures look like through a few test functions: equal numbers are equal measures, almost surely."""
    tests = np.random.default_rng(0).normal(size=(8, measures[0].space.dim))
    return np.stack([np.asarray(mu.weights, float) @ np.exp(np.asarray(mu.points, float) @ tests.T) for mu in measures])


keep_all(globals())

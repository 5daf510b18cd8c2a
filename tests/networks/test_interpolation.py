"""One schedule for several measures: gates, ways past others, and what every stage does."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import measureflow as mf
from measureflow.networks import interpolate, routing
from measureflow.networks.interpolation import _Pieces, advanced

RNG = np.random.default_rng(0)
TARGETS = -np.eye(3)


def cloud(centre, n=20, spread=0.4, rng=RNG):
    points = np.asarray(centre) + spread * rng.normal(size=(n, len(centre)))
    return mf.Particles(mf.Sphere(len(centre)), routing.unit(points))


@pytest.fixture(scope="module")
def inputs():
    return [cloud(centre, spread=0.6) for centre in np.eye(3) + 0.4]


@pytest.fixture(scope="module")
def plan(inputs):
    return interpolate(inputs, TARGETS)


def test_measures_arrive_and_parked_ones_stay(plan, inputs):
    found = plan.verify(inputs, TARGETS)
    assert found.error < 1e-3  # what was asked for
    assert found.parked < 1e-14  # a division by the norm each step
    assert plan.switches <= 2 * 3 * 3
    assert found.names == ("start", "push", "cluster", "spread", "match")
    push, cluster, spread, match = (found.diameters[k].max() for k in range(1, 5))
    assert push < 2.1  # of a cap of radius one
    assert cluster < 2e-3
    assert spread < cluster
    assert match < spread


def test_the_push_brings_all_tokens_just_into_the_cap(plan, inputs):
    away = np.asarray(plan.schedule.fields.terms[1].W[0, :, 0])  # the drift of the first piece
    pushed = np.asarray(plan.path(inputs, [0.0, plan.stages[0].end]).final.points)
    assert routing.angles(away[None], pushed).max() == pytest.approx(1.0, abs=1e-6)


def test_pieces_are_undone_backwards(inputs):
    pieces = _Pieces(inputs)
    pieces.add("push", perceptron=mf.Perceptron.drift(np.array([0.0, 0.5, -0.5])), duration=0.7)
    pieces.add("apart", value=np.diag([1.0, 0.5, 2.0]), duration=0.4)
    measures = pieces.measures
    for field, duration in pieces.backwards():
        measures = advanced(field, measures, duration)
    np.testing.assert_allclose(measures[0].points, inputs[0].points, atol=1e-7)  # tolerances of the solver


def test_spread_makes_as_many_clusters_as_coordinates_orthogonal(plan, inputs):
    end = next(stage.end for stage in plan.stages if stage.name == "spread")
    parts = mf.Packed(plan, [20] * 3).unpack(plan.path(inputs, [0.0, end]).final)
    centres = routing.unit(np.stack([mu.points.mean(0) for mu in parts]))
    # A map that whitens points makes them orthogonal; points were clusters of size 1e-3.
    np.testing.assert_allclose(centres @ centres.T, np.eye(3), atol=1e-5)


def test_a_plan_is_an_ordinary_field_with_one_width_and_any_duration(plan, inputs):
    quick = interpolate(inputs, TARGETS, time=2.0)
    assert quick.until == pytest.approx(2.0)
    ends = [one.path(inputs, [0.0, one.until]).final.points for one in (plan, quick)]
    np.testing.assert_allclose(ends[0], ends[1], atol=1e-7)  # tolerances of the solver

    @jax.jit
    @jax.grad
    def slope(scale):
        field = eqx.tree_at(lambda one: one.schedule.fields.terms[1].W, plan, replace_fn=lambda W: scale * W)
        return mf.evolve(field, inputs[0], [0.0, 1.0], mf.RK4(0.25)).final.points[0] @ jnp.ones(3)

    def end(scale):
        field = eqx.tree_at(lambda one: one.schedule.fields.terms[1].W, plan, replace_fn=lambda W: scale * W)
        return float(mf.evolve(field, inputs[0], [0.0, 1.0], mf.RK4(0.25)).final.points[0] @ jnp.ones(3))

    assert float(slope(1.0)) == pytest.approx((end(1 + 1e-5) - end(1 - 1e-5)) / 2e-5, rel=1e-6)


def test_packed_measures_move_as_each_alone(plan, inputs):
    sizes, times = (20, 12), [0.0, 1.0]
    two = [inputs[0], mf.Particles(inputs[1].space, inputs[1].points[:12], np.arange(1.0, 13.0))]
    pack = mf.Packed(plan, sizes)
    together = pack.unpack(mf.evolve(pack, mf.Packed.pack(two), times).final)
    for mu, part in zip(two, together, strict=True):
        alone = mf.evolve(plan, mu, times).final
        np.testing.assert_allclose(part.points, alone.points, atol=1e-8)
        np.testing.assert_allclose(part.weights, alone.weights, rtol=1e-12)


def test_one_mean_direction_is_told_apart_by_a_gate():
    half = np.asarray(cloud([0.0, 0.0, 1.0], 10, 0.3).points)
    wide = np.asarray(cloud([0.0, 0.0, 1.0], 10, 0.6).points)
    inputs = [mf.Particles(mf.Sphere(3), np.r_[part, part * [-1, -1, 1]]) for part in (half, wide)]
    plan = interpolate(inputs, TARGETS[:2])
    assert "separate" in [stage.name for stage in plan.stages]
    assert plan.verify(inputs, TARGETS[:2]).error < 1e-3


def test_ways_pass_parked_points():
    rng = np.random.default_rng(1)
    start, end = np.array([1.0, 0.0, 0.0]), np.array([0.0, 1.0, 0.0])
    parked = routing.unit(np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 0.3], [0.0, 0.0, 1.0]]))  # the first two on the way
    way = routing.route(start, end, parked, 0.0, rng)
    assert way is not None
    assert len(way) > 2
    for a, b in itertools.pairwise(way):
        radius = routing.radii(routing.middles(a, b)[None], parked, 0.0)[0]
        assert routing.angles_of(a, b) / 2 < radius < routing.angles_of(routing.middles(a, b), parked).min()


def test_a_cap_is_carried_as_it_is():
    a, b = routing.unit(np.array([[1.0, 0.3, 0.0], [1.0, -0.4, 0.2]]))
    gate, duration = routing.carrying(a, b, 1.2)
    mu = mf.Particles(mf.Sphere(3), routing.unit(a + 0.03 * RNG.normal(size=(30, 3))))
    final = mf.evolve(gate, mf.Particles(mu.space, [a, *np.asarray(mu.points)]), [0.0, duration]).final
    assert routing.angles_of(np.asarray(final.points[0]), b) < 1e-6
    size, before = (float(points.std(0).max()) for points in (final.points[1:], mu.points))
    assert size == pytest.approx(before, rel=0.25)  # sides lag behind where the gate is less open


def test_clouds_are_met_by_shapes_that_are_fitted(monkeypatch):
    from measureflow.networks import shaping

    monkeypatch.setattr(shaping, "ROUNDS", 3)
    rng = np.random.default_rng(3)
    inputs = [cloud(centre, 16, 0.3, rng) for centre in np.eye(3)[:2] + 0.3]
    ring = np.linspace(0, 2 * np.pi, 16, endpoint=False)
    circle = np.stack([0.5 * np.cos(ring), 0.5 * np.sin(ring), -np.ones(16)], 1)
    targets = [mf.Particles(mf.Sphere(3), routing.unit(circle)), cloud([-1.0, 0.0, 0.5], 16, 0.2, rng)]
    plan = interpolate(inputs, targets, width=24)
    found = plan.verify(inputs, targets)
    assert found.names[-2:] == ("shape", "return")
    assert found.error < 0.15  # clouds of size 0.5; the full fit comes to 0.03
    assert found.errors[0].min() > 1.0


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda mu: ([mu, mu], TARGETS[:2]), "are the same measure"),
        (lambda mu: ([mf.Particles.iid(mf.Sphere(2), 5, key=0)], [[1.0, 0.0]]), "on the circle"),
        (lambda mu: ([mu, mu], TARGETS), "got 2 `inputs` and 3 `targets`"),
        (lambda mu: ([mu, cloud([0.0, 1.0, 0.0])], [[1.0, 0, 0], [1.0, 0, 0]]), "`targets` are only 0 apart"),
        (lambda mu: ([], TARGETS), "`inputs` is empty"),
        (lambda mu: ([mu, cloud([0.0, 1.0, 0.0, 0.0])], TARGETS[:2]), "must be on one sphere"),
    ],
)
def test_what_cannot_be_is_explained(make, words, inputs):
    given, targets = make(inputs[0])
    with pytest.raises(ValueError, match=words):
        interpolate(given, targets)


def test_a_measure_that_is_there_stays():
    mu = mf.Particles(mf.Sphere(3), TARGETS[:1])
    plan = interpolate([mu], TARGETS[:1])
    assert ([stage.name for stage in plan.stages], plan.verify([mu], TARGETS[:1]).error) == (["rest"], 0.0)
    with pytest.raises(ValueError, match="`time`"):
        interpolate([mu], TARGETS[:1], time=-1.0)


def test_gates_and_widths_that_cannot_be_are_refused():
    gate = mf.Perceptron.gate([1.0, 0.0], 0.5, [0.0, 1.0])
    with pytest.raises(ValueError, match="`width` must be at least the 1"):
        gate.widened(0)
    with pytest.raises(ValueError, match="`towards`"):
        mf.Perceptron.gate([1.0, 0.0], 0.5, [0.0, 1.0, 0.0])
    wide = gate.widened(3)
    mu = mf.Particles.iid(mf.Sphere(2), 9, key=0)
    np.testing.assert_array_equal(wide(0.0, mu.points, mu), gate(0.0, mu.points, mu))
    with pytest.raises(ValueError, match="`sizes` add up"):
        mf.Packed(gate, (2, 3))(0.0, mu.points, mu)

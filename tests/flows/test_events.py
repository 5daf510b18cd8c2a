"""Events are located inside the steps, by whatever method takes them, and leave the path as it is."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import measureflow as mf

FIELD = mf.SoftmaxAttention.isotropic(2, beta=0.0)
LEVELS = np.array([0.5, 0.9, 0.999])
"""At beta = 0 the overlap of two tokens is tanh(t + c), so that it passes a level r at t = artanh(r) - c."""


def overlap(mu):
    return mu.points[0] @ mu.points[1] - jnp.asarray(LEVELS)


def pair(angle=np.pi / 2):
    return mf.Particles(mf.Sphere(2), jnp.stack([jnp.eye(2)[0], jnp.stack([jnp.cos(angle), jnp.sin(angle)])]))


# The speed of the overlap at a level is 1 - level^2, by which an error of the path becomes one of the time.
@pytest.mark.parametrize(
    ("solver", "error"),
    [(mf.Adaptive(), 1e-9), (mf.Stiff(), 1e-7), (mf.RK4(0.5), 1e-4), (mf.Euler(0.1), 0.01)],
    ids=lambda value: type(value).__name__,
)
def test_events_are_where_the_exact_solution_has_them(solver, error):
    path = mf.evolve(FIELD, pair(), [0.0, 2.0, 6.0], solver, events=overlap)
    late = (path.events.times - np.arctanh(LEVELS)) * (1 - LEVELS**2)
    np.testing.assert_allclose(late, 0.0, atol=error)
    np.testing.assert_array_equal(path.events.which, [0, 1, 2])
    np.testing.assert_allclose(jax.vmap(overlap)(path.events.measures).diagonal(), 0.0, atol=1e-9)
    assert path.outcome.ok
    assert path.events.sides.all()


def test_a_path_is_the_same_with_events_and_without():
    times = jnp.linspace(0.0, 3.0, 5)
    watched, plain = (mf.evolve(FIELD, pair(), times, events=events) for events in (overlap, None))
    np.testing.assert_array_equal(watched.points, plain.points)
    assert plain.events is None


def test_a_flow_ends_at_the_last_event_there_is_room_for():
    path = mf.evolve(FIELD, pair(), [0.0, 1.0, 6.0], events=overlap, most_events=2)
    assert len(path.events) == 2
    assert len(path) == 2
    assert not path.outcome.ok
    assert "last event" in str(path.outcome)
    np.testing.assert_array_equal(path.final.points, path.events.measures.points[-1])
    np.testing.assert_allclose(path.outcome.time, np.arctanh(0.9), rtol=1e-7)


def test_events_of_many_flows_are_found_at_once():
    angles = jnp.array([1.2, 1.5, 2.0])
    times = jax.vmap(lambda a: mf.evolve(FIELD, pair(a), [0.0, 2.0], events=overlap, most_events=4).events.times)(
        angles
    )
    expected = np.arctanh(LEVELS[None]) - np.arctanh(np.cos(angles))[:, None]
    expected = np.append(np.where(expected < 2, expected, np.inf), np.full((3, 1), np.inf), axis=1)
    np.testing.assert_allclose(times, expected, atol=1e-7)


def test_two_crossings_in_one_step_are_found_in_order():
    path = mf.evolve(FIELD, pair(), [0.0, 2.0], mf.RK4(2.0), events=overlap)
    assert path.stats["steps"] == 1
    np.testing.assert_allclose(path.events.times, np.arctanh(LEVELS[:2]), rtol=0.1)  # as good as one step


def test_a_crossing_back_is_an_event_as_well():
    spin = mf.SoftmaxAttention(np.zeros((2, 2)), np.array([[0.0, -1.0], [1.0, 0.0]]))  # one token turns at unit speed
    alone = mf.Particles(mf.Sphere(2), [[1.0, 0.0]])
    path = mf.evolve(spin, alone, [0.0, 6.0], events=lambda mu: mu.points[0, 0])
    np.testing.assert_allclose(path.events.times, [np.pi / 2, 3 * np.pi / 2], atol=1e-7)


def test_events_are_those_of_all_tokens_when_some_have_merged():
    angles = np.array([0.0, 0.4, 1.2, 2.0, 2.9])
    mu = mf.Particles(mf.Sphere(2), np.stack([np.cos(angles), np.sin(angles)], 1))
    field, meet = mf.SoftmaxAttention.isotropic(2, beta=4.0), mf.diagnostics.Linkage(0.01)
    plain = mf.evolve(field, mu, [0.0, 30.0], events=meet)
    merged = mf.evolve(field, mu, [0.0, 30.0], events=meet, merge=1e-6)
    # Merging moves tokens by less than 1e-6, and they drift at speeds above 0.1 when they meet.
    np.testing.assert_allclose(merged.events.times, plain.events.times, atol=1e-5)
    np.testing.assert_allclose(merged.events.measures.points, plain.events.measures.points, atol=1e-5)
    assert merged.stats["tokens"] == 1


def test_what_events_cannot_do_is_said():
    with pytest.raises(ValueError, match="`events` is computed while the flow runs"):
        mf.evolve(FIELD, pair(), [0.0, 1.0], events=lambda mu: float(mu.points[0, 0]))
    with pytest.raises(ValueError, match="`most_events` must be at least 1; got 0"):
        mf.evolve(FIELD, pair(), [0.0, 1.0], events=overlap, most_events=0)
    with pytest.raises(ValueError, match="`follow` and `events` exclude each other"):
        mf.evolve(FIELD, mf.CircleDensity.uniform(8), [0.0, 1.0], events=lambda mu: 1.0, follow=True)
    with pytest.raises(RuntimeError, match="Derivatives do not pass through the `events`"):
        jax.grad(lambda b: mf.evolve(FIELD, pair(b), [0.0, 1.0], events=overlap).events.times[0])(1.5)

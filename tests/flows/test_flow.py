"""Flows: orders, closed forms, error estimates, outcomes, derivatives, legs and compilation."""

import os
import signal
import subprocess
import sys
import threading

import diffrax as dfx
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Float

import measureflow as mf
from measureflow.fields import AbstractField
from measureflow.flows import stepping
from measureflow.sums import native

SOLVERS = {"Euler": mf.Euler, "Heun": mf.Heun, "RK4": mf.RK4}
A = np.array([[1.5, 0.4, 0.0], [-0.3, 1.0, 0.2], [0.1, 0.0, 2.0]])
V = np.array([[1.0, 0.3, 0.0], [0.0, 0.8, -0.5], [0.2, 0.0, 1.2]])


@pytest.fixture(scope="module", params=[mf.Sphere(3), mf.Euclidean(3)], ids=str)
def problem(request):
    """A coupled nonlinear flow and its state at t = 1 from a tight adaptive run."""
    start = mf.Particles(request.param, mf.Particles.iid(mf.Sphere(3), 6, key=0).points, jnp.arange(1.0, 7.0))
    field = mf.SoftmaxAttention(A, V)
    reference = mf.evolve(field, start, [0.0, 1.0], mf.Adaptive(1e-13, 1e-14))
    return field, start, reference.final.points


@pytest.mark.parametrize("kind", SOLVERS.values(), ids=SOLVERS.keys())
def test_each_solver_has_its_declared_order(kind, problem):
    field, start, exact = problem
    steps = np.array([1 / 8, 1 / 16, 1 / 32, 1 / 64])
    errors = [np.abs(mf.evolve(field, start, [0.0, 1.0], kind(h)).final.points - exact).max() for h in steps]
    slope = np.polyfit(np.log(steps), np.log(errors), 1)[0]
    assert slope == pytest.approx(kind.order, abs=0.15)


@pytest.mark.parametrize("solver", [mf.Adaptive(), mf.Stiff()], ids=["Adaptive", "Stiff"])
def test_adaptive_solvers_meet_their_tolerance(solver, problem):
    field, start, exact = problem
    path = mf.evolve(field, start, [0.0, 0.3, 1.0], solver)
    # The default keeps each step below 1e-8; about ten steps add up over a unit of time.
    assert np.abs(path.final.points - exact).max() < 1e-7


@pytest.mark.parametrize(
    "solver", [mf.Euler(0.1), mf.Heun(0.1), mf.RK4(0.1), mf.Adaptive(), mf.Stiff(1e-6)], ids=lambda s: type(s).__name__
)
def test_every_solver_stays_on_the_sphere(solver):
    start = mf.Particles.iid(mf.Sphere(3), 5, key=1)
    path = mf.evolve(mf.UnnormalisedAttention.isotropic(3, 2.0), start, jnp.linspace(0.0, 3.0, 5), solver)
    np.testing.assert_allclose(jnp.linalg.norm(path.measures.points, axis=-1), 1.0, atol=1e-15)


@pytest.mark.parametrize("kind", SOLVERS.values(), ids=SOLVERS.keys())
def test_the_error_estimate_of_a_fixed_step_is_close_to_the_error(kind, problem):
    field, start, exact = problem
    path = mf.evolve(field, start, jnp.linspace(0.0, 1.0, 5), kind(1 / 32), verify=True)
    error = np.abs(path.final.points - exact).max()
    # Richardson's estimate is exact up to the next order in the step.
    assert path.stats["error"] == pytest.approx(error, rel=0.3)


@pytest.mark.parametrize("rtol", [1e-5, 1e-7, 1e-9])
def test_the_error_estimate_of_an_adaptive_run_has_the_size_of_the_error(rtol, problem):
    field, start, exact = problem
    path = mf.evolve(field, start, [0.0, 1.0], mf.Adaptive(rtol, rtol), verify=True)
    error = np.abs(path.final.points - exact).max()
    # The second run keeps a quarter of the error, more or less: its steps are not all as the tolerance wants them.
    assert error / 1.5 < path.stats["error"] < 1.5 * error


class Linear(AbstractField):
    """Plain growth or decay, `v = k x`."""

    rate: float

    def __call__(self, t, xs: Float[Array, "m d"], mu) -> Float[Array, "m d"]:
        return self.rate * xs


@pytest.mark.parametrize("rate", [1.0, -1.0, 0.3])
@pytest.mark.parametrize("solver", [mf.Adaptive(), mf.Adaptive(1e-5), mf.RK4(0.1)], ids=["1e-8", "1e-5", "RK4"])
def test_the_error_estimate_of_plain_growth_is_within_a_factor_of_two(rate, solver):
    """Where the terms of an error cancel at some tolerance, as they do here at 3e-7, a looser run would say nothing."""
    start = mf.Particles(mf.Euclidean(2), [[1.0, -0.3], [0.2, 2.0]])
    for end in (1.0, 5.0):
        path = mf.evolve(Linear(rate), start, [0.0, end], solver, verify=True)
        error = np.abs(path.final.points - start.points * np.exp(rate * end)).max()
        assert error / 2 < path.stats["error"] < 2 * error


def test_the_error_estimate_covers_the_resolution_of_a_density():
    field, times = mf.SoftmaxAttention.isotropic(2, 30.0), [0.0, 0.2]
    bump = lambda modes: mf.CircleDensity.from_function(lambda t: (1 + 0.4 * jnp.cos(t)) / (2 * jnp.pi), modes)  # noqa: E731
    coarse, fine = mf.evolve(field, bump(4), times, verify=True), mf.evolve(field, bump(48), times)
    error = np.abs(coarse.final.moments - fine.final.moments[:, :5]).max()
    assert error > 1e-4
    assert error / 3 < coarse.stats["error"] < 30 * error


def test_the_error_estimate_covers_merging():
    points = np.array([[1.0, 0.2, 0.1], [1.0, -0.3, 0.0], [0.9, 0.1, 0.5], [1.0, 0.0, -0.4]])
    start = mf.Particles(mf.Sphere(3), points / np.linalg.norm(points, axis=1, keepdims=True))
    field, times = mf.SoftmaxAttention.isotropic(3, 1.0), [0.0, 0.5]
    merged, apart = mf.evolve(field, start, times, merge=10.0, verify=True), mf.evolve(field, start, times)
    assert merged.stats["tokens"] == 1
    moved = np.abs(merged.final.points - apart.final.points).max()
    assert 0.1 < moved <= merged.stats["error"]


def test_there_is_no_error_estimate_beside_a_blow_up():
    start = mf.Particles(mf.Euclidean(1), [[0.7]])
    path = mf.evolve(mf.UnnormalisedAttention.isotropic(1, 1.0), start, [0.0, 0.5], verify=True)
    assert path.outcome.blew_up
    assert "error" not in path.stats


def test_dense_frames_do_not_hide_the_error(problem):
    field, start, exact = problem
    path = mf.evolve(field, start, jnp.linspace(0.0, 1.0, 201), mf.Adaptive(1e-6, 1e-6), verify=True)
    assert path.stats["error"] >= np.abs(path.final.points - exact).max()


def test_frames_are_as_accurate_as_the_end(problem):
    field, start, _ = problem
    times = jnp.array([0.0, 0.37, 0.81, 1.0])
    loose = mf.evolve(field, start, times, mf.Adaptive(1e-6, 1e-6))
    tight = mf.evolve(field, start, times, mf.Adaptive(1e-12, 1e-12))
    errors = np.abs(loose.measures.points - tight.measures.points).max((1, 2))
    assert errors[0] == 0
    assert errors.max() < 1e-5


def test_the_first_frame_is_the_initial_measure_and_the_last_the_final_one(problem):
    field, start, _ = problem
    path = mf.evolve(field, start, [2.0, 2.5, 3.0], mf.RK4(0.1))
    np.testing.assert_array_equal(path.at(0).points, start.points)
    # Frames go through the solver's interpolation, which ends at the step up to rounding.
    np.testing.assert_allclose(path.at(-1).points, path.final.points, rtol=0, atol=1e-14)
    assert len(path) == path.frames == 3
    assert len(list(path)) == 3
    assert str(path.outcome) == "Reached t = 3."
    assert path.stats["steps"] == 10


def test_two_tokens_follow_the_hyperbolic_tangent():
    rho = -0.3
    start = mf.Particles(mf.Sphere(2), [[1.0, 0.0], [rho, np.sqrt(1 - rho**2)]])
    path = mf.evolve(
        mf.SoftmaxAttention.isotropic(2, 0.0), start, jnp.linspace(0.0, 5.0, 11), mf.Adaptive(1e-11, 1e-12)
    )
    overlap = path.map(lambda mu: jnp.vdot(mu.points[0], mu.points[1]))
    np.testing.assert_allclose(overlap, jnp.tanh(path.times + jnp.arctanh(rho)), atol=1e-9)


def test_energy_rises_at_the_rate_of_squared_speed():
    mu = mf.Particles(mf.Sphere(3), mf.Particles.iid(mf.Sphere(3), 8, key=3).points, jnp.arange(1.0, 9.0))
    field, energy = mf.UnnormalisedAttention.isotropic(3, 2.0), mf.InteractionEnergy(2.0)
    rate = mu.transport(lambda xs: field(0.0, xs, mu))
    slope = jax.jvp(lambda x: energy(eqx.tree_at(lambda m: m.points, mu, x)), (mu.points,), (rate.points,))[1]
    np.testing.assert_allclose(slope, mu.weights @ (rate.points**2).sum(-1), rtol=1e-12)


def test_a_blow_up_is_an_outcome_with_its_time():
    start = mf.Particles(mf.Euclidean(1), [[0.7]])
    path = mf.evolve(mf.UnnormalisedAttention.isotropic(1, 1.0), start, jnp.linspace(0.0, 0.5, 6))
    assert not path.outcome.ok
    assert path.outcome.blew_up
    # E_1(0.49) / 2; the tolerance of the run is 1e-8 relative.
    assert path.stats["blow_up_time"] == pytest.approx(0.2860444180, abs=1e-8)
    assert len(path) == 3
    assert str(path.outcome).startswith("Blew up at t = 0.28604")
    assert np.isfinite(path.measures.points).all()
    assert np.isfinite(path.final.points).all()


def test_a_blow_up_ends_a_fixed_step_before_the_first_infinity():
    start = mf.Particles(mf.Euclidean(1), [[0.7]])
    path = mf.evolve(mf.UnnormalisedAttention.isotropic(1, 1.0), start, jnp.linspace(0.0, 0.5, 6), mf.RK4(0.001))
    assert path.outcome.blew_up
    assert "Adaptive()" in str(path.outcome)
    assert np.isfinite(path.final.points).all()


class Ending(AbstractField):
    """A field that is not defined after t = 1/2."""

    def __call__(self, t, xs: Float[Array, "m d"], mu) -> Float[Array, "m d"]:
        return jnp.sqrt(0.5 - t) * jnp.ones_like(xs)


def test_a_field_that_ends_stops_the_flow_there_with_a_sentence():
    path = mf.evolve(Ending(), mf.Particles(mf.Euclidean(1), [[0.0]]), [0.0, 0.25, 1.0])
    assert not path.outcome.ok
    assert "not be smooth" in str(path.outcome)
    assert path.outcome.time == pytest.approx(0.5, abs=1e-9)
    # The integral of sqrt(1/2 - t) up to 1/2; the tolerance of the run is 1e-8.
    assert float(path.final.points[0, 0]) == pytest.approx(2 / 3 * 0.5**1.5, abs=1e-7)


@pytest.mark.parametrize("adjoint", [None, dfx.ForwardMode()], ids=["reverse", "forward"])
def test_derivatives_in_beta_match_finite_differences(adjoint):
    start = mf.Particles.iid(mf.Sphere(3), 5, key=4)

    def spread(beta):
        field = mf.SoftmaxAttention.isotropic(3, beta)
        solver = mf.Adaptive(1e-10, 1e-10)
        path = mf.evolve(field, start, [0.0, 0.5, 1.0], solver, derivative=adjoint)
        return jnp.sum(path.final.points[0] * path.final.points[1]) + path.measures.points[1].sum()

    slope = (jax.grad if adjoint is None else jax.jacfwd)(spread)(1.5)
    h = 1e-4
    # Central differences: h^2 = 1e-8 from curvature, 1e-10 / h = 1e-6 from the solver tolerance.
    np.testing.assert_allclose(slope, (spread(1.5 + h) - spread(1.5 - h)) / (2 * h), atol=5e-6)


def test_derivatives_in_the_initial_tokens_match_finite_differences():
    start = mf.Particles.iid(mf.Euclidean(2), 4, key=4)
    field = mf.SoftmaxAttention(-np.eye(2), np.eye(2))

    def size(points):
        return (mf.evolve(field, mf.Particles(start.space, points), [0.0, 1.0], mf.RK4(0.1)).final.points ** 2).sum()

    direction = jnp.ones((4, 2))
    slope = jnp.sum(jax.grad(size)(start.points) * direction)
    h = 1e-5
    difference = (size(start.points + h * direction) - size(start.points - h * direction)) / (2 * h)
    # Fixed steps make the map smooth: h^2 = 1e-10 and rounding 1e-16 / h = 1e-11 remain.
    np.testing.assert_allclose(slope, difference, rtol=1e-8)


class Counted(AbstractField):
    """Softmax attention that counts how often it is traced."""

    inner: mf.SoftmaxAttention
    traces: list[int] = eqx.field(static=True)

    def __call__(self, t, xs: Float[Array, "m d"], mu) -> Float[Array, "m d"]:
        self.traces.append(1)
        return self.inner(t, xs, mu)


class Tally(list):
    """A list that compares by identity, so that it can be part of a static field."""

    __hash__ = object.__hash__
    __eq__ = object.__eq__


def test_a_sweep_over_beta_seeds_and_steps_compiles_once():
    traces = Tally()
    times = jnp.linspace(0.0, 1.0, 3)

    @jax.jit
    def order(beta, seed, dt):
        start = mf.Particles.iid(mf.Sphere(3), 8, key=jax.random.key(seed))
        field = Counted(mf.SoftmaxAttention.isotropic(3, beta), traces)
        return mf.evolve(field, start, times, mf.RK4(dt)).map(mf.diagnostics.order_parameter)

    sweep = jax.vmap(jax.vmap(order, (0, None, None)), (None, 0, None))
    first = sweep(jnp.linspace(0.0, 4.0, 5), jnp.arange(3), 0.1)
    count = len(traces)
    second = sweep(jnp.linspace(1.0, 9.0, 5), jnp.arange(3, 6), 0.05)
    assert count > 0
    assert len(traces) == count
    assert first.shape == second.shape == (3, 5, 3)
    assert not np.allclose(first, second)


def test_eager_runs_with_other_numbers_do_not_trace_again():
    traces = Tally()
    start = mf.Particles.iid(mf.Sphere(3), 8, key=0)
    for beta, dt in ((1.0, 0.1), (2.0, 0.05), (3.0, 0.2)):
        mf.evolve(Counted(mf.SoftmaxAttention.isotropic(3, beta), traces), start, [0.0, 1.0], mf.RK4(dt))
        if beta == 1.0:
            count = len(traces)
    assert len(traces) == count


def test_a_batched_flow_matches_single_runs():
    betas = jnp.array([0.0, 1.0, 5.0])
    start = mf.Particles.iid(mf.Sphere(3), 6, key=2)
    times = jnp.linspace(0.0, 2.0, 4)

    def run(beta):
        return mf.evolve(mf.SoftmaxAttention.isotropic(3, beta), start, times)

    paths = jax.vmap(run)(betas)
    assert paths.outcome.ok.all()
    assert str(paths.outcome) == "3 of 3 flows reached their last time."
    for i, beta in enumerate(betas):
        # Steps are chosen for each run alone, so only the rounding of batched products differs.
        np.testing.assert_allclose(paths.final.points[i], run(beta).final.points, atol=1e-12)


def test_legs_give_the_frames_of_one_run_within_the_tolerance():
    start = mf.Particles.iid(mf.Sphere(3), 6, key=2)
    field, times = mf.SoftmaxAttention.isotropic(3, 4.0), jnp.linspace(0.0, 4.0, 9)
    for solver, tolerance in ((mf.RK4(0.1), 1e-14), (mf.Adaptive(), 1e-7)):
        parts = list(mf.Flow(field, start, times, solver).legs(3))
        frames = jnp.concatenate([part.measures.points for part in parts])
        np.testing.assert_allclose(jnp.concatenate([part.times for part in parts]), times)
        whole = mf.evolve(field, start, times, solver)
        np.testing.assert_allclose(frames, whole.measures.points, atol=tolerance)


def test_legs_resume_to_the_same_bits():
    start = mf.Particles.iid(mf.Sphere(3), 6, key=2)
    field, times, solver = mf.SoftmaxAttention.isotropic(3, 4.0), jnp.linspace(0.0, 4.0, 9), mf.Adaptive()
    first, second, third = mf.Flow(field, start, times, solver).legs(3)
    again, last = mf.Flow(field, start, times, solver).legs(3, since=3, state=first.final)
    np.testing.assert_array_equal(again.measures.points, second.measures.points)
    np.testing.assert_array_equal(last.measures.points, third.measures.points)
    assert third.outcome.ok


def test_legs_go_on_after_whole_legs_alone():
    flow = mf.Flow(
        mf.SoftmaxAttention.isotropic(3, 4.0), mf.Particles.iid(mf.Sphere(3), 6, key=2), [0.0, 1.0, 2.0, 3.0]
    )
    for size, since, state in ((2, 1, flow.start), (2, 2, None), (2, 0, flow.start), (0, 0, None)):
        with pytest.raises(ValueError, match=r"`since`|`size`"):
            next(flow.legs(size, since, state))


def test_evolve_is_the_run_of_a_flow_and_its_error():
    arguments = (mf.SoftmaxAttention.isotropic(3, 4.0), mf.Particles.iid(mf.Sphere(3), 6, key=2), [0.0, 1.0, 2.0])
    flow, path = mf.Flow(*arguments), mf.evolve(*arguments, verify=True)
    np.testing.assert_array_equal(flow.run().measures.points, path.measures.points)
    assert float(flow.error(path.final)) == path.stats["error"]


def test_legs_stop_after_a_blow_up():
    start = mf.Particles(mf.Euclidean(1), [[0.7]])
    parts = list(mf.Flow(mf.UnnormalisedAttention.isotropic(1, 1.0), start, jnp.linspace(0.0, 0.5, 11)).legs(2))
    assert [part.outcome.ok.item() for part in parts] == [True, True, True, False]
    assert sum(len(part) for part in parts) == 6


def test_float32_works_at_its_own_tolerance():
    start = mf.Particles.iid(mf.Sphere(3), 16, key=0)
    field, times = mf.SoftmaxAttention.isotropic(3, 4.0), [0.0, 1.0, 2.0]
    single = mf.Particles(mf.Sphere(3), start.points.astype(jnp.float32))
    with jax.numpy_dtype_promotion("standard"):  # diffrax's controller mixes precisions inside
        path = mf.evolve(field, single, times)
    assert path.final.points.dtype == jnp.float32
    # The default tolerance in float32 is 1e-5 for each step.
    np.testing.assert_allclose(path.final.points, mf.evolve(field, start, times).final.points, atol=1e-4)


def test_an_engine_can_be_chosen_and_is_named():
    start = mf.Particles.iid(mf.Sphere(3), 16, key=0)
    field = mf.SoftmaxAttention.isotropic(3, 4.0)
    default = mf.evolve(field, start, [0.0, 1.0])
    dense = mf.evolve(field, start, [0.0, 1.0], engine=mf.sums.Dense())
    blockwise = mf.evolve(field, start, [0.0, 1.0], engine=mf.sums.Blockwise())
    engines = [path.stats["engine"] for path in (default, dense, blockwise)]
    assert engines == ["native" if native.available() else "dense", "dense", "blockwise"]
    np.testing.assert_allclose(default.final.points, dense.final.points, atol=1e-12)


class Chattering(AbstractField):
    """A field that points to zero from both sides, and nowhere else."""

    def __call__(self, t, xs: Float[Array, "m d"], mu) -> Float[Array, "m d"]:
        return -jnp.sign(xs)


class Lost(AbstractField):
    """A field that is never a number."""

    def __call__(self, t, xs: Float[Array, "m d"], mu) -> Float[Array, "m d"]:
        return jnp.nan * xs


def test_a_flow_without_an_end_is_given_up_with_a_sentence():
    path = mf.evolve(
        Chattering(), mf.Particles(mf.Euclidean(1), [[0.1]]), [0.0, 0.05, 1.0], mf.Adaptive(most_steps=100)
    )
    assert not path.outcome.ok
    assert "too many steps to the next frame" in str(path.outcome)
    assert len(path) == 2
    assert path.outcome.time == pytest.approx(0.1, abs=1e-4)


def test_a_field_that_is_not_a_number_at_the_start_says_so_and_keeps_the_start():
    start = mf.Particles(mf.Euclidean(1), [[0.1]])
    for solver in (mf.Adaptive(), mf.Euler(0.1)):
        path = mf.evolve(Lost(), start, [0.0, 1.0], solver)
        assert "not a number" in str(path.outcome)
        assert len(path) == 1
        np.testing.assert_array_equal(path.at(0).points, start.points)


TRACED = {
    "backwards": dict(times=[1.0, 0.0]),
    "no time": dict(times=[0.0, np.nan]),
    "step": dict(dt=-0.1),
    "off the sphere": dict(size=1.01),
    "no weight": dict(weight=0.0),
}


@eqx.filter_jit
def traced_outcome(times, dt, size, weight):
    start = mf.Particles(mf.Sphere(2), size * jnp.array([[1.0, 0.0], [0.0, 1.0]]), jnp.stack([weight, 1.0]))
    return mf.evolve(mf.SoftmaxAttention.isotropic(2), start, times, mf.Euler(dt)).outcome


@pytest.mark.parametrize("bad", TRACED.values(), ids=TRACED.keys())
def test_what_tracing_hides_is_found_when_it_runs(bad):
    good = {"times": [0.0, 1.0], "dt": 0.1, "size": 1.0, "weight": 1.0}
    outcome = traced_outcome(*(jnp.asarray(value) for value in (good | bad).values()))
    assert not outcome.ok
    assert str(outcome).startswith("Not started")
    assert traced_outcome(*(jnp.asarray(value) for value in good.values())).ok


def test_a_frame_that_is_not_there_is_refused():
    path = mf.evolve(Linear(1.0), mf.Particles(mf.Euclidean(1), [[1.0]]), [0.0, 1.0])
    assert path.at(-1).points[0, 0] == pytest.approx(np.e, rel=1e-7)
    with pytest.raises(IndexError, match="`i` is 2, but the path has 2 frames"):
        path.at(2)


def test_a_field_for_other_tokens_gets_a_sentence():
    with pytest.raises(ValueError, match="`field` gives no velocity to tokens of 2 coordinates"):
        mf.evolve(mf.SoftmaxAttention.isotropic(3), mf.Particles.iid(mf.Sphere(2), 3, key=0), [0.0, 1.0])


BAD = {
    "clock": (
        dict(times=[1e6, 1e6 + 1], solver=mf.Euler(1e-9)),
        "`dt` is 1e-09, which float64 does not resolve at t = 1e",
    ),
    "backwards": (dict(times=[0.0, 2.0, 1.0]), "`times` must increase strictly; entry 2 is 1 after 2"),
    "one time": (dict(times=[0.0]), "at least a first and a last time"),
    "infinite": (dict(times=[0.0, np.inf]), "`times` has 1 NaN or infinite"),
    "tolerance": (dict(times=[0.0, 1.0], solver=mf.Adaptive(1e-16)), "`rtol` must be at least 2.2e-15"),
}


@pytest.mark.parametrize(("arguments", "words"), BAD.values(), ids=BAD.keys())
def test_bad_arguments_get_a_sentence(arguments, words):
    with pytest.raises(ValueError, match="`") as caught:
        mf.evolve(mf.SoftmaxAttention.isotropic(2, 1.0), mf.Particles.iid(mf.Sphere(2), 3, key=0), **arguments)
    assert words in str(caught.value)


@pytest.mark.parametrize("make", [lambda: mf.Euler(0.0), lambda: mf.RK4(-1.0), lambda: mf.Adaptive(rtol=-1e-8)])
def test_bad_steps_are_refused(make):
    with pytest.raises(ValueError, match="must be positive"):
        make()


@pytest.mark.parametrize("move", [lambda f, mu: mf.evolve(f, mu, [0.0, 1.0]), lambda f, mu: mf.layers(f, mu, 2)])
def test_products_keep_the_precision_of_their_factors_on_every_device(move):
    def last(x):
        return move(mf.SoftmaxAttention(jnp.eye(3), 2 * jnp.eye(3)), mf.Particles(mf.Euclidean(3), x)).final.points

    # On a GPU products of float32 numbers are otherwise done with ten bits.
    products = [line for line in jax.jit(last).lower(jnp.eye(3)).as_text().splitlines() if "dot_general" in line]
    assert products
    assert all("precision = [HIGHEST, HIGHEST]" in line for line in products if "xf64>" in line)


def overlap(mu):
    return jnp.sum(mu.points[0] * mu.points[1])


def test_what_is_observed_is_what_frames_would_show():
    start, times = mf.Particles.iid(mf.Sphere(3), 8, key=0), jnp.linspace(0.0, 2.0, 5)
    field = mf.SoftmaxAttention.isotropic(3, 4.0)
    kept = mf.evolve(field, start, times, observe=overlap, keep=True)
    seen = mf.evolve(field, start, times, observe=overlap)
    np.testing.assert_allclose(seen.observed, kept.map(overlap), rtol=0, atol=1e-14)
    assert seen.kept is None
    with pytest.raises(ValueError, match="observed and not kept"):
        seen.at(0)
    merged = mf.evolve(field, start, times, merge=1e-6, observe=overlap)
    np.testing.assert_allclose(merged.observed, kept.observed, atol=1e-6)


def test_what_is_observed_ends_with_the_flow():
    start = mf.Particles(mf.Euclidean(1), [[0.7], [0.7]])
    field, times = mf.UnnormalisedAttention.isotropic(1, 1.0), jnp.linspace(0.0, 0.5, 6)
    path = mf.evolve(field, start, times, observe=overlap)
    assert path.outcome.blew_up
    assert path.observed.shape == (3,)
    inside = eqx.filter_jit(lambda: mf.evolve(field, start, times, observe=overlap).observed)()
    np.testing.assert_array_equal(np.isfinite(inside), [True] * 3 + [False] * 3)


def test_frames_of_whole_steps_are_not_halved_by_rounding_in_float32():
    """At t = 12 neighbouring times are 1e-6 apart in float32, a hundred thousandth of the step between frames."""
    start = mf.Particles(mf.Sphere(2), np.array([[1.0, 0.0], [0.0, 1.0]], np.float32))
    path = mf.evolve(
        mf.SoftmaxAttention.isotropic(2), start, np.float32(0.1) * np.arange(121, dtype=np.float32), mf.Euler(0.1)
    )
    assert path.stats["steps"] == 120


def test_the_coefficients_are_those_of_the_peer():
    for ours, peer in ((stepping.TSITOURAS, dfx.Tsit5.tableau), (stepping.HEUN, dfx.Heun.tableau)):
        a = np.zeros((peer.num_stages, peer.num_stages))
        for i, row in enumerate(peer.a_lower):
            a[i + 1, : i + 1] = row
        np.testing.assert_array_equal(ours.matrix, a)
        np.testing.assert_array_equal(ours.b, peer.b_sol)
        np.testing.assert_array_equal(ours.c, [0.0, *peer.c])
    np.testing.assert_allclose(stepping.TSITOURAS.b_error, dfx.Tsit5.tableau.b_error, rtol=0, atol=1e-15)


def test_derivatives_in_the_last_time_are_the_velocity():
    start, field = mf.Particles.iid(mf.Sphere(3), 5, key=4), mf.SoftmaxAttention.isotropic(3, 1.5)
    end = lambda t: mf.evolve(field, start, jnp.stack([0.0, t]), mf.Adaptive(1e-10, 1e-10)).final  # noqa: E731
    slope = jax.jacrev(lambda t: end(t).points)(1.0)
    mu = end(1.0)
    # Off by the local error per step of the last step, which the tolerance bounds.
    np.testing.assert_allclose(slope, mu.transport(lambda xs: field(1.0, xs, mu)).points, atol=1e-7)


def test_second_derivatives_forward_over_reverse_and_twice_forward_agree():
    start = mf.Particles.iid(mf.Sphere(3), 4, key=4)

    def height(beta, derivative=None):
        field = mf.SoftmaxAttention.isotropic(3, beta)
        return mf.evolve(field, start, [0.0, 1.0], mf.RK4(0.1), derivative=derivative).final.points[0, 0]

    mixed = jax.hessian(height)(1.5)
    twice = jax.jacfwd(jax.jacfwd(lambda beta: height(beta, dfx.ForwardMode())))(1.5)
    np.testing.assert_allclose(mixed, twice, rtol=1e-10)
    with pytest.raises(TypeError, match="`derivative` must be"):
        height(1.5, "forward")
    with pytest.raises(TypeError, match=r"passes through a flow with `derivative=diffrax.ForwardMode\(\)`"):
        jax.jacfwd(height)(1.5)


@pytest.mark.skipif(not native.available(), reason="loops have no pulse without the native library")
def test_a_leg_tells_how_far_it_is_and_stops_when_it_is_asked_to():
    flow = mf.Flow(
        mf.SoftmaxAttention.isotropic(3, 4.0), mf.Particles.iid(mf.Sphere(3), 6, key=2), [0.0, 1.0, 2.0, 3.0]
    )
    pulse = native.pulse()
    path = flow.leg(flow.start, 0, 4, pulse)
    assert path.outcome.ok
    assert pulse.time == 3.0
    assert pulse.steps == path.stats["steps"] + path.stats["rejected"]
    pulse.stop()
    path = flow.leg(flow.start, 0, 4, pulse).reached()
    assert str(path.outcome).startswith("Interrupted at t = ")
    assert len(path) == 1
    assert path.stats["steps"] == 1


class Endless(AbstractField):
    """A field that chatters, so that an adaptive run takes very many steps."""

    def __call__(self, t, xs: Float[Array, "m d"], mu) -> Float[Array, "m d"]:
        return -jnp.sign(xs)


@pytest.mark.skipif(not native.available(), reason="loops have no pulse without the native library")
def test_an_interruption_is_heard_while_a_flow_runs():
    start, solver = mf.Particles(mf.Euclidean(1), [[0.1]]), mf.Adaptive(most_steps=10**7)
    evolve = lambda end: mf.evolve(Endless(), start, [0.0, end], solver)  # noqa: E731
    evolve(0.05)  # compiled before the clock runs

    # Whoever started the tests may have had the signal ignored, as a shell does in the background.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            evolve(1e4)
    finally:
        signal.signal(signal.SIGINT, before)
    assert evolve(0.06).outcome.ok


SPOKEN = {
    "other sizes": (lambda mu, f: mf.SoftmaxAttention.isotropic(4)(0.0, mu.points, mu), r"shape \(4, 4\), \(4, 4\)"),
    "an energy of other sizes": (lambda mu, f: mf.BilinearEnergy(np.eye(4))(mu), "do not fit points of shape"),
    "beta alone": (lambda mu, f: mf.SoftmaxAttention(beta=1.0), r"write `SoftmaxAttention.isotropic\(dim, beta\)`"),
    "one point": (lambda mu, f: mu.integrate(lambda x: x[0] ** 2), "`expect` takes functions of one point"),
    "a host function observed": (lambda mu, f: mf.evolve(f, mu, [0.0, 1.0], observe=on_host), "use `path.map`"),
    "a host function traced": (
        lambda mu, f: jax.jit(lambda b: mf.evolve(b * f, mu, [0.0, 1.0]).map(on_host))(1.0),
        "looks at numbers, which are not there",
    ),
    "reverse twice": (
        lambda mu, f: jax.grad(jax.grad(lambda b: mf.evolve(b * f, mu, [0.0, 1.0]).final.points[0, 0]))(1.0),
        "Reverse mode over reverse mode",
    ),
}


def on_host(mu):
    return len(mf.diagnostics.clusters(mu, 0.1).sizes)


@pytest.mark.parametrize("name", SPOKEN)
def test_what_cannot_be_gets_a_sentence(name):
    call, sentence = SPOKEN[name]
    with pytest.raises((TypeError, ValueError, RuntimeError), match=sentence):
        call(mf.Particles.iid(mf.Sphere(3), 4, key=0), mf.SoftmaxAttention.isotropic(3, 2.0))


def test_arguments_of_another_kind_get_a_sentence_without_checks_of_types():
    script = """
import measureflow as mf
mu, f = mf.Particles.iid(mf.Sphere(3), 4, key=0), mf.SoftmaxAttention.isotropic(3, 2.0)
calls = (
    lambda: mf.evolve(mu, f, [0.0, 1.0]),
    lambda: mf.evolve(f, mu, [0.0, 1.0], "euler"),
    lambda: mf.evolve(f, mu, [0.0, 1.0], noise=0.1),
    lambda: mf.layers(mu, f, 3),
)
for call in calls:
    try:
        call()
    except TypeError as error:
        print(error)
"""
    said = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    wanted = (
        "The field comes first",
        "`solver` must be a solver such as",
        "`noise` must be a noise",
        "The field comes first",
    )
    assert len(said) == len(wanted)
    assert all(line.startswith(word) for line, word in zip(said, wanted, strict=True))

"""Training moves heads as the papers say: normalisation, samples, momentum, noise, and the limit of stable steps."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import measureflow as mf
from measureflow import training
from measureflow.training import fixtures
from measureflow.training.free_energies import entropy, virial

RISK = fixtures.f1()
MU = mf.Particles(RISK.heads.space, fixtures.f1_heads(4) * 1.5)


def test_descent_is_n_times_the_head_gradient_times_two_and_the_rate():
    field = training.Descent(RISK, training.InverseTime(2.0))
    gradient = jax.jit(jax.grad(lambda x: RISK(mf.Particles(MU.space, x))))(MU.points)
    velocity = eqx.filter_jit(field)(2.0, MU.points, MU)
    np.testing.assert_allclose(velocity, -2 * 0.5 * 4 * gradient, atol=1e-15)


@pytest.mark.parametrize("profile", [training.Constant(0.7), training.InverseTime(1.5)], ids=str)
def test_the_elapsed_training_time_is_the_integral_of_the_rate(profile):
    nodes, weights = np.polynomial.legendre.leggauss(30)
    integral = 1.5 * weights @ np.array([profile(t) for t in 1.5 * (nodes + 1)])
    np.testing.assert_allclose(profile.elapsed(3.0), integral, rtol=1e-13)


def test_stochastic_descent_is_the_recursion_of_the_paper():
    path = training.sgd(RISK, MU, 0.01, 4, key=3, batch=2, profile=training.InverseTime())
    points = MU.points

    @jax.jit
    def step(x, k):
        batch = RISK.draw(jax.random.fold_in(jax.random.key(3), k), 2)
        slope = -mf.GradientFlow(batch)(0.0, x, mf.Particles(MU.space, x))
        return x - 2 * 0.01 / (1 + 0.01 * k.astype(float) / 2) * slope

    for k in range(4):
        points = step(points, jnp.asarray(k))
    np.testing.assert_allclose(path.final.points, points, atol=1e-14)


def test_a_run_in_legs_goes_on_to_the_same_bits():
    field = training.StochasticDescent(RISK, 5, 0.01)
    times = np.arange(0, 41, 10) * 0.01
    whole = mf.evolve(field, MU, times, mf.Euler(0.01))
    parts = list(mf.Flow(field, MU, times, mf.Euler(0.01)).legs(2))
    np.testing.assert_array_equal(parts[-1].final.points, whole.final.points)


def test_a_step_beyond_the_limit_is_refused_with_the_limit():
    curvature = jax.jit(jax.hessian(lambda x: 4 * RISK(mf.Particles(MU.space, x.reshape(4, 24)))))(MU.points.ravel())
    largest = np.linalg.eigvalsh(curvature)[-1]
    # Lanczos in 30 dimensions of 96 finds the largest eigenvalue well.
    np.testing.assert_allclose(training.curvature.stiffness(RISK, MU), largest, rtol=1e-6)
    np.testing.assert_allclose(training.Descent(RISK).step_limit(MU), 1 / largest, rtol=1e-6)
    with pytest.raises(ValueError, match=rf"`step` 2 is beyond the stability limit {1 / largest:.4g}"):
        training.sgd(RISK, MU, 2.0, 1, key=0)
    training.Descent(RISK).check_step(MU, 0.9 / largest)


def test_the_limit_is_where_descent_stops_to_descend():
    # A pure ridge of strength 4 is multiplied by 1 - 8 eps each step: the limit is 1/4.
    ridge = training.Ridge(4.0)
    assert training.Descent(ridge).step_limit(MU) == pytest.approx(0.25)
    for step, grows in ((0.24, False), (0.26, True)):
        path = mf.evolve(training.Descent(ridge), MU, [0.0, 50 * step], mf.Euler(step))
        assert (np.abs(path.final.points).max() > np.abs(MU.points).max()) == grows


@pytest.mark.parametrize("friction", [1.0, 8.0])
def test_the_limit_of_momentum_is_where_oscillations_grow_or_fast_modes_overshoot(friction):
    # A ridge of strength 4 has the curvature 8: friction 1 oscillates, and the limit is 1/8; friction 8 does not, and its
    # faster mode is 4 + sqrt(8).
    field = training.HeavyBall(training.Descent(training.Ridge(4.0)), friction)
    start = field.start(MU)
    limit = field.step_limit(start)
    assert training.HeavyBall(field.descent, 1e300).step_limit(start) == pytest.approx(2e-300)  # 2 / friction
    assert limit == pytest.approx(1 / 8 if friction == 1.0 else 2 / (4 + 8**0.5))
    for step, grows in ((0.97 * limit, False), (1.03 * limit, True)):
        path = mf.evolve(field, start, [0.0, 400 * step], mf.Euler(step))
        assert (np.abs(path.final.points).max() > np.abs(start.points).max()) == grows


def test_momentum_loses_energy_to_friction():
    friction = 0.5
    field = training.HeavyBall(training.Descent(RISK, factor=1.0), friction)
    path = mf.evolve(field, field.start(MU), np.linspace(0, 2, 201), mf.RK4(0.01))
    kinetic = (np.asarray(path.measures.points)[..., 24:] ** 2).sum(-1).mean(-1) / 2
    total = kinetic + np.asarray(path.map(lambda m: RISK(field.particles(m))))
    lost = np.trapezoid(2 * friction * kinetic, path.times)
    # Trapezoidal rule with spacing 0.01 on a loss of order 0.1.
    np.testing.assert_allclose(total[0] - total[-1], lost, rtol=1e-4)
    assert (np.diff(total) < 0).all()


def test_adam_does_not_see_the_number_of_heads():
    field = training.Adam(training.Descent(RISK), 0.1, 0.2, 1e-3)
    times = [0.0, 0.5]
    few = mf.evolve(field, field.start(MU), times, mf.Euler(0.01))
    twice = mf.Particles(MU.space, jnp.concatenate([MU.points, MU.points]))
    many = mf.evolve(field, field.start(twice), times, mf.Euler(0.01))
    np.testing.assert_allclose(many.final.points[:4], few.final.points, atol=1e-13)
    assert RISK(field.particles(few.final)) < RISK(MU)


@pytest.mark.busy
def test_langevin_heads_reach_the_gaussian_of_a_ridge():
    beta, strength = 4.0, 0.5
    ridge, start = training.Ridge(strength), mf.Particles.iid(mf.Euclidean(2), 4000, key=0)
    noise = training.langevin(beta)
    path = mf.evolve(training.Descent(ridge), start, [0.0, 4.0], mf.Euler(0.02), noise=noise, key=1)
    # Variance 1/(beta strength), shifted by the step by 1%; 4000 heads in the plane know it to 2.2%, three times that.
    np.testing.assert_allclose(np.var(path.final.points), 1 / (beta * strength), rtol=0.07)
    np.testing.assert_allclose(eqx.filter_jit(virial)(ridge, path.final, beta), 1.0, rtol=0.07)
    # The estimator's error for 4000 points is about 0.02.
    gaussian = -np.log(2 * np.pi * np.e / (beta * strength))
    np.testing.assert_allclose(entropy(path.final), gaussian, atol=0.07)
    first, last = (training.free_energies.free_energy(ridge, mu, beta) for mu in (start, path.final))
    assert last < first
    residual = [training.free_energies.self_consistency(ridge, mu, beta) for mu in (start, path.final)]
    # At the fixed point the discrepancy is of order N^{-1/2} = 0.016 times the root of the Stein kernel's mean.
    assert residual[1] < 0.05 < residual[0]


def test_streams_and_texts_are_sources():
    def sample(key):
        codes = jax.random.randint(key, (5,), 0, 3)
        return jax.nn.one_hot(codes[:-1], 3, dtype=float), codes[1:]

    heads = training.FullHeads(3, 2, 2)
    stream = training.Stream(sample, np.eye(3), heads)
    path = training.sgd(stream, heads.gaussian(6, key=0), 0.05, 4, key=1, batch=3)
    assert path.outcome.ok
    text = training.Text("to be or not to be, that is the question " * 20, 8, training.FullHeads(6, 2, 2))
    assert len(text.alphabet) == text.unembedding.shape[1] == 14
    whole = text.windows(10)
    assert whole.tokens.shape == (10, 8, 6)
    np.testing.assert_array_equal(np.argmax(whole.targets[0], -1), text.codes[1:9])
    drawn = text.draw(jax.random.key(0), 5)
    assert drawn.tokens.shape == (5, 8, 6)
    with pytest.raises(ValueError, match="`length` must be between 1 and 2"):
        training.Text("abc", 3, training.FullHeads(6, 2, 2))


def test_balancedness_is_conserved_and_decays_with_the_weights():
    path = mf.evolve(training.Descent(RISK), MU, [0.0, 0.5], mf.RK4(0.005))
    assert training.convergence.balance_drift(RISK.heads, path)[-1] < 1e-10
    decayed = mf.evolve(training.Descent(RISK + training.Ridge(0.3)), MU, [0.0, 0.5], mf.RK4(0.005))
    balance = jax.jit(jax.vmap(RISK.heads.balance))
    for before, after in zip(balance(MU.points), balance(decayed.final.points), strict=True):
        np.testing.assert_allclose(after, np.exp(-0.6) * np.asarray(before), atol=1e-9)
    assert (training.convergence.confinement(path) > 1).all()

"""Constants of the theory: bounds of features, the tangent kernel, gradient domination, basins, and what a run meets of them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import measureflow as mf
from measureflow import training
from measureflow.flows import RK4
from measureflow.training import fixtures
from measureflow.training.bounds import _around, _possible

LOSSES = {"square": training.Square(), "cross-entropy": training.CrossEntropy(), "logistic": training.Logistic()}


def risk_of(loss="square", seed=0, count=3, dim=4):
    """Few data, so that the kernel of some neurons is positive definite."""
    rng = np.random.default_rng(seed)
    outputs = 1 if loss == "logistic" else 3
    labels = {
        "square": rng.normal(size=(count, outputs)),
        "cross-entropy": rng.integers(0, outputs, count),
        "logistic": np.sign(rng.normal(size=count)),
    }
    neurons = training.Neurons(dim, outputs, activation=jnp.tanh, bias=True)
    return training.NeuronRisk(rng.normal(size=(count, dim)), labels[loss], neurons, LOSSES[loss])


def crowd(risk, n=20, seed=1):
    rng = np.random.default_rng(seed)
    return mf.Particles(risk.neurons.space, rng.normal(size=(n, risk.neurons.size)), rng.uniform(1, 2, n))


def test_feature_bounds_of_a_sine_are_those_worked_out_by_hand():
    x, (a, w, b) = 1.7, (0.8, 0.6, -0.3)
    neurons = training.Neurons(1, activation=jnp.sin, bias=True)
    found = training.bounds.feature_bounds(training.NeuronRisk([[x]], [0.0], neurons), jnp.array([[a, w, b]]))
    s, c = np.sin(w * x + b), np.cos(w * x + b)
    J = np.array([s, a * c * x, a * c])
    H = np.array([[0, c * x, c], [c * x, -a * s * x**2, -a * s * x], [c, -a * s * x, -a * s]])
    np.testing.assert_allclose(found, [abs(a * s), np.linalg.norm(J), np.linalg.norm(H)], rtol=1e-12)
    assert found.total == pytest.approx(sum(found), rel=1e-12)


def test_feature_bounds_are_the_largest_over_particles_and_data():
    risk, points = risk_of(), crowd(risk_of(), 6).points
    each = [training.bounds.feature_bounds(risk, one[None]) for one in points]
    np.testing.assert_allclose(training.bounds.feature_bounds(risk, points), np.max(each, axis=0), rtol=1e-12)


@pytest.mark.parametrize("loss", LOSSES)
def test_the_dissipation_is_the_quadratic_form_of_the_tangent_kernel(loss):
    risk = risk_of(loss)
    mu = crowd(risk)
    r = risk.residuals(mu).ravel()
    lost = training.dissipation(risk, mu)
    np.testing.assert_allclose(r @ training.bounds.tangent_kernel(risk, mu) @ r, lost, rtol=1e-12)


@pytest.mark.parametrize("loss", LOSSES)
def test_the_dissipation_dominates_the_excess_risk(loss):
    for seed in range(5):
        risk = risk_of(loss, seed)
        mu = crowd(risk, seed=seed)
        found = training.bounds.domination(risk, mu)
        gap = float(risk(mu) - risk.floor())
        assert 0 < found.constant * gap <= float(training.dissipation(risk, mu))


def test_the_constant_is_sharp_for_one_datum_of_one_output():
    risk = risk_of("logistic", count=1)
    mu = crowd(risk)
    ratio = float(training.dissipation(risk, mu) / risk(mu))
    assert training.bounds.domination(risk, mu).constant == pytest.approx(ratio, rel=1e-12)


def test_residuals_of_cross_entropy_live_where_they_add_up_to_zero():
    basis = _possible(np.array([[1.0, -1.0, 0.0], [0.5, 0.5, -1.0]]))
    np.testing.assert_allclose(basis @ basis.T, np.eye(4), atol=1e-14)
    np.testing.assert_allclose(basis.reshape(4, 2, 3).sum(-1), 0.0, atol=1e-14)
    assert _possible(np.array([[1.0, 2.0]])).shape == (2, 2)


def test_too_many_predictions_are_refused_with_the_number_that_is_possible():
    neurons = training.Neurons(1)
    risk = training.NeuronRisk(np.ones((3001, 1)), np.ones(3001), neurons)
    with pytest.raises(ValueError, match=r"3001 predictions.*at most 3000.*`risk.draw\(key, size\)`"):
        training.bounds.domination(risk, mf.Particles(neurons.space, np.ones((1, 2))))


def test_few_parameters_give_no_constant():
    risk = risk_of(count=10)
    assert training.bounds.domination(risk, crowd(risk, 1)).constant == pytest.approx(0.0, abs=1e-12)


@pytest.fixture(scope="module")
def stable():
    energy = fixtures.f2() + training.Ridge(0.3)
    return energy, training.perturbation.rest_point(energy, jnp.zeros(4))


def test_the_basin_of_a_quadratic_energy_is_all_that_was_asked_for():
    """Features `w x` are linear and the Hessian is constant: all that shrinks the ball is the pull of the others."""
    neurons = training.Neurons(1, activation=lambda x: x, output=False)
    energy = training.NeuronRisk([[2.0]], [0.0], neurons) + training.Ridge(0.5)
    found = training.bounds.basin(energy, jnp.zeros(1))
    # H = 0.5, k = 2 and |J|^2 = 4: the ball is shrunk by 1 + 2 * 2 * 4 / (e / 2).
    np.testing.assert_allclose(found, [1 / (1 + 32 / np.e), 0.5, 1.0], rtol=1e-12)


def test_the_basin_leaves_half_of_the_curvature(stable):
    energy, rest = stable
    found = training.bounds.basin(energy, rest, samples=64)
    assert found.rate == pytest.approx(0.232870, abs=1e-6)
    # By the formula of the proof, at other samples of the ball; suprema grow with it, so that a ball twice as large is too large.
    offsets = jax.random.ball(jax.random.key(3), 4, shape=(512,), dtype=float)
    lost = [
        scale * found.reach * (third + mixed) / found.rate
        for scale in (1.0, 2.0)
        for third, mixed, _ in [_around(energy, fixtures.f2(), rest, scale * found.reach * offsets)]
    ]
    assert 0.8 < lost[0] < 1.1
    assert lost[1] > 1.5


def test_an_unstable_point_has_no_basin():
    energy = fixtures.f2(4.0) + training.Ridge(1e-3)
    with pytest.raises(
        ValueError, match=r"`theta` has no basin: the Hessian of Psi has the eigenvalue -.* particles part"
    ):
        training.bounds.basin(energy, jnp.zeros(4))


def test_the_constants_of_monotonicity_of_a_quadratic_energy_are_its_decay_and_its_slope():
    neurons = training.Neurons(1, activation=lambda x: x, output=False)
    risk = training.NeuronRisk([[2.0]], [0.0], neurons)
    found = training.perturbation.monotonicity(risk + training.Ridge(0.5), risk, jnp.zeros(1), 1.0, samples=8)
    np.testing.assert_allclose(found, [0.5, 2 * 4.0], rtol=1e-12)
    assert found.m == pytest.approx(-7.5)


@pytest.mark.parametrize(
    ("profile", "largest", "least"),
    [(training.Constant(0.7), 0.7, 0.7), (training.InverseTime(3.0), 1.0, 0.0)],
)
def test_a_profile_knows_its_range_its_slope_and_whether_its_time_ends(profile, largest, least):
    t = np.linspace(0.0, 50.0, 20001)
    rates = np.array(jax.vmap(profile)(jnp.asarray(t)))
    assert (profile.largest, profile.least) == pytest.approx((largest, least))
    assert rates.max() == pytest.approx(profile.largest, abs=1e-12)
    assert rates.min() >= profile.least
    slope = np.abs(np.diff(rates)).max() / (t[1] - t[0])
    # The secant of the first step, 0.0025 long, lies below the tangent by half its length over the scale.
    assert slope == pytest.approx(profile.lipschitz, rel=2e-3)
    assert slope <= profile.lipschitz + 1e-12
    assert profile.diverges
    np.testing.assert_allclose(profile.elapsed(50.0), np.trapezoid(rates, t), rtol=1e-6)


def test_a_rate_of_zero_does_not_go_on():
    assert not training.Constant(0.0).diverges


def test_the_assumptions_of_a_run_are_answered_one_by_one(stable):
    energy, rest = stable
    field = training.Descent(energy)
    start = mf.Particles(mf.Euclidean(4), rest[None] + 1e-2 * np.eye(4)[:2])
    path = mf.evolve(field, start, np.linspace(0.0, 60.0, 9), RK4(0.1))
    found = training.check_assumptions(
        field, path.measures.points, training.examine(fixtures.f2(), path.at(8), decay=0.3), samples=16
    )
    answers = {one.name: one.holds for one in found.each}
    assert answers == {
        "learning rate": True,
        "features bounded": True,
        "confinement": True,
        "gradient domination": None,
        "strong monotonicity": False,
        "stationary": True,
        "H positive": True,
        "H_tr positive": True,
        "basin": True,
        "isolated rest points": None,
        "support condition": answers["support condition"],
    }
    rows = dict(found.report.rows)
    assert list(rows) == [one.name for one in found.each]
    assert rows["gradient domination"].startswith("not decidable: weight decay is not a loss of features")
    assert rows["strong monotonicity"].startswith("no: m_0 = ")
    assert rows["learning rate"].startswith("yes: rate at most 1")
    assert "(Theorem 7.5)" in rows["basin"]
    assert str(found) == str(found.report)


def test_a_run_that_still_moves_is_not_at_rest_and_has_no_basin():
    risk = risk_of("square")
    field = training.Descent(risk)
    path = mf.evolve(field, crowd(risk, 4), np.linspace(0.0, 0.1, 3), RK4(0.05))
    found = training.check_assumptions(field, path.measures.points, training.examine(risk, path.at(2)), samples=4)
    answers = {one.name: one.holds for one in found.each}
    assert answers["stationary"] is False
    assert answers["basin"] is None
    assert answers["gradient domination"] is True


def test_norms_that_still_grow_leave_confinement_open(stable):
    energy, _ = stable
    points = jnp.linspace(1.0, 2.0, 9)[:, None, None] * jnp.ones((1, 2, 4))
    last = mf.Particles(mf.Euclidean(4), points[-1])
    found = training.check_assumptions(
        training.Descent(energy), points, training.examine(fixtures.f2(), last, decay=0.3), samples=4
    )
    assert {one.name: one.holds for one in found.each}["confinement"] is None

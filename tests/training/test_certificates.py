"""Certificates, stability, error laws and long times, against closed forms and the reference values of the sheets."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import measureflow as mf
from measureflow import training
from measureflow.theory import heads as oracle
from measureflow.training import chaos, fixtures
from measureflow.training.convergence import decay_exponent
from measureflow.training.optimum import corrected
from measureflow.training.perturbation import coupling, gauge_directions, least, matrix, splitting, translation

RISK = fixtures.f1()
BALLS = RISK.heads.balls(query=2.0, key=2.0, value=1.0, output=1.0)
ZERO = mf.Particles(RISK.heads.space, jnp.zeros((1, 24)))
SEARCH = {"starts": 24, "steps": 150}


def test_a_certificate_bounds_the_excess_risk_and_names_the_offender():
    certificate = training.certify(RISK, ZERO, BALLS, **SEARCH)
    assert certificate.dissipation == 0
    assert not certificate.optimal
    assert certificate.gap == pytest.approx(1.5737, abs=1e-5)
    assert (training.certificates.violations(RISK, ZERO, certificate.offender) < 0).all()
    better = mf.Particles(RISK.heads.space, jnp.stack([ZERO.points[0], certificate.offender]), jnp.array([0.7, 0.3]))
    assert certificate.lower_bound <= RISK(better) < certificate.risk


def test_the_gap_averages_over_the_measure_with_its_weights():
    points, weights = jnp.asarray(fixtures.f1_heads(3)), jnp.array([0.7, 0.2, 0.1])
    mu = mf.Particles(RISK.heads.space, points, weights)
    certificate = training.duality_gap(RISK, mu, BALLS, **SEARCH)
    score = eqx.filter_jit(RISK.variation)
    scores, lowest = np.asarray(score(mu, points)), float(score(mu, certificate.offender[None])[0])
    assert np.ptp(scores) > 0.05
    assert certificate.gap == pytest.approx(float(weights @ scores) - min(lowest, scores.min()), rel=1e-9)


def test_certificates_that_cannot_be_given_are_refused():
    with pytest.raises(ValueError, match=r"not stationary: its dissipation is \d"):
        training.certify(RISK, mf.Particles(RISK.heads.space, fixtures.f1_heads(2)), BALLS)
    with pytest.raises(ValueError, match="`space` must be compact"):
        training.best_response(RISK, ZERO, RISK.heads.space)
    with pytest.raises(ValueError, match="`output` has no radius"):
        RISK.heads.balls(query=1.0, key=1.0, value=1.0)
    with pytest.raises(ValueError, match="4 coordinates; the heads have 24"):
        training.best_response(RISK, ZERO, mf.Ball(4, 1.0))
    with pytest.raises(ValueError, match="not stationary: its gradient"):
        training.stability(RISK, RISK.heads, mf.Particles(RISK.heads.space, fixtures.f1_heads(1)))


def test_weights_are_corrected_to_the_least_risk():
    atoms = fixtures.f1_heads(3)
    features = np.stack([RISK.features(theta) for theta in atoms])
    weights = corrected(RISK, features, np.ones(3) / 3)
    mu = mf.Particles(RISK.heads.space, atoms[weights > 1e-9], weights[weights > 1e-9])
    scores = np.asarray(RISK.variation(mu, atoms))
    # First-order conditions: all active atoms have the least score.
    assert scores[weights > 1e-6].max() - scores.min() < 1e-6


def test_the_three_operators_are_hessians():
    mu = mf.Particles(RISK.heads.space, fixtures.f1_heads(1))
    H, K, H_tr = (matrix(make, RISK, mu) for make in (splitting, coupling, translation))
    one_head = jax.jit(jax.hessian(lambda x: RISK(mf.Particles(mu.space, x[None]))))(mu.points[0])
    np.testing.assert_allclose(H_tr, one_head, atol=1e-15)
    np.testing.assert_allclose(H + K, one_head, atol=1e-15)
    assert np.linalg.eigvalsh(K)[0] > -1e-15
    assert not H[12:18, 12:18].any()
    assert not H[18:, 18:].any()


def test_lanczos_and_dense_spectra_agree_outside_given_directions():
    energy = fixtures.f2() + training.Ridge(0.3)
    mu = mf.Particles(mf.Euclidean(4), jnp.asarray(np.random.default_rng(0).standard_normal((4, 4))))
    H = np.asarray(matrix(translation, energy, mu))
    np.testing.assert_allclose(least(translation, energy, mu, 3)[0], np.linalg.eigvalsh(H)[:3])
    first = np.linalg.eigh(H)[1][:, :1].T
    rest = least(translation, energy, mu, 2, outside=first)[0]
    np.testing.assert_allclose(rest, np.linalg.eigvalsh(H)[1:3])


def test_the_zero_head_bifurcates():
    critical = training.perturbation.critical_decay(RISK)
    G = oracle.zero_head_matrix(RISK.tokens, np.argmax(RISK.targets, -1), RISK.unembedding)
    assert critical == pytest.approx(np.linalg.norm(G, 2), abs=1e-13) == pytest.approx(0.7066840280, abs=1e-10)
    for ratio, kind in ((1.5, "stable"), (1.0, "marginal"), (0.5, "translation-unstable")):
        found = training.stability(RISK + training.Ridge(ratio * critical), RISK.heads, ZERO)
        assert found.kind == kind
        assert found.rate == pytest.approx(float(oracle.zero_head_rate(ratio * critical, critical)), abs=1e-9)


def test_only_gauge_directions_that_the_hessian_does_not_feel_are_counted():
    still = mf.Particles(RISK.heads.space, fixtures.f1_heads(1).at[:, 12:].set(0.0))
    # Without output the features vanish identically, and so does every turn of the scores.
    assert len(gauge_directions(RISK, RISK.heads, still)) == 4
    # Weight decay sees all turns but the rotation.
    assert len(gauge_directions(RISK + training.Ridge(0.1), RISK.heads, still)) == 0
    moving = mf.Particles(RISK.heads.space, fixtures.f1_heads(1))
    assert len(gauge_directions(RISK, RISK.heads, moving)) < 8


TABLE = {
    (1.0, 0.0): (4.821399, [1.55e-4, 9.76e-4, 6.24e-3, 1.33e-2], [5.68e-4, 0.0015, 0.00744, 0.0163]),
    (1.0, 0.3): (4.913522914993, [0.232870, 0.280480, 0.311642, 0.460502], [0.313545, 0.375379, 0.440957, 0.807942]),
    (1.0, 0.1): (4.864144, [0.052572, 0.087632, 0.111953, 0.240288], [0.117392, 0.166081, 0.202470, 0.494137]),
    (2.0, 0.1): (5.904368, [-0.072389, 0.047360, 0.055390, 0.245654], [0.159074, 0.364030, 0.481318, 1.452254]),
    (0.1, 0.3): (4.427378291980, [0.293244, 0.301684], [0.295236, 0.305042]),
}
REST = {
    (1.0, 0.0): [-7.620887, 3.255479, 2.192844, -4.624291],
    (1.0, 0.3): [-0.339828, 0.070092, -0.024014, -0.432983],
    (1.0, 0.1): [-0.554155, 0.104920, -0.240658, -0.688872],
    (2.0, 0.1): [-0.287397, 0.212148, -0.343877, -0.640219],
    (0.1, 0.3): [-0.068791, 0.027778, 0.021183, -0.087216],
}


@pytest.mark.parametrize(("scale", "ridge"), TABLE)
def test_spectra_of_the_second_fixture(scale, ridge):
    risk = fixtures.f2(scale)
    energy = risk + training.Ridge(ridge)
    start = jnp.array([-7.0, 3.0, 2.0, -4.0] if ridge == 0.0 else [-0.3, 0.1, -0.1, -0.5])
    rest = training.perturbation.rest_point(energy, start)
    mu = mf.Particles(mf.Euclidean(4), rest[None])
    found = training.stability(energy, risk.heads, mu)
    value, apart, together = TABLE[scale, ridge]
    # Printed digits of the sheet: six, and three of the small eigenvalues without a ridge (half a unit of the third is 5e-5).
    digits = 5e-5 if ridge == 0.0 else 1e-6
    np.testing.assert_allclose(rest, REST[scale, ridge], atol=1e-6)
    np.testing.assert_allclose(energy(mu), value, atol=1e-6)
    ends = slice(None) if len(apart) == 4 else slice(None, None, 3)
    np.testing.assert_allclose(found.splitting[ends], apart, atol=digits)
    np.testing.assert_allclose(found.translation[ends], together, atol=digits)
    assert found.kind == ("stable" if apart[0] > 0 else "splitting-unstable")


def test_an_anchored_ridge_makes_any_head_stable():
    theta = fixtures.f1_heads(1)
    mu = mf.Particles(RISK.heads.space, theta)
    lowest = np.linalg.eigvalsh(matrix(splitting, RISK, mu))[0]
    assert lowest == pytest.approx(-0.67731839, abs=1e-8)
    strength = 0.2 - lowest
    anchor = theta[0] - mf.GradientFlow(RISK)(0.0, theta, mu)[0] / strength
    found = training.stability(RISK + training.Ridge(strength, anchor), RISK.heads, mu)
    assert found.kind == "stable"
    assert found.splitting[0] == pytest.approx(0.2, abs=1e-12)


def test_power_laws_and_budgets():
    x = np.array([8.0, 32.0, 128.0, 512.0])
    exact = training.chaos.power_law(x, 3 * x**-0.5)
    assert exact.exponent == pytest.approx(-0.5)
    assert exact.constant == pytest.approx(3.0)
    assert exact.interval == pytest.approx((-0.5, -0.5))
    budget = training.chaos.error_law(
        {n: 0.4 * n**-0.5 for n in (8, 64)}, {0.1: 0.2, 0.05: 0.1}, {0.04: 0.6, 0.01: 0.3}
    )
    assert tuple(budget) == pytest.approx((0.4, 2.0, 3.0, 0.0, 0.0))
    spread = budget._replace(empirical_spread=0.8, sample_spread=0.6)
    assert spread.error(16, 0.01, z=1.0) == pytest.approx(1.2 / 4 + 0.02 + 3.6 * 0.1)
    heads, step = budget.settings(0.31)
    assert heads == 15  # the square of 1.2 / 0.31, rounded up
    assert step == pytest.approx((0.31 / 9) ** 2)
    assert budget.error(heads, step) <= 0.31
    with pytest.raises(ValueError, match="three points"):
        training.chaos.power_law(x[:2], x[:2])


def test_the_bias_of_few_heads():
    risk = fixtures.f2()
    pool = mf.Particles(mf.Euclidean(4), jnp.asarray(np.random.default_rng(1).standard_normal((6, 4))))
    N = 64
    keys = jax.random.split(jax.random.key(0), 4000)

    @jax.jit
    @jax.vmap
    def excess(key):
        chosen = pool.points[jax.random.randint(key, (N,), 0, 6)]
        return risk(mf.Particles(pool.space, chosen)) - risk(pool)

    found = N * excess(keys)
    error = float(found.std() / len(keys) ** 0.5)
    # Three standard errors, and a next order of 1/N.
    assert abs(float(found.mean()) - float(chaos.bias_coefficient(risk, pool))) < 3 * error + 0.02


def test_exponents_settle_or_say_that_they_have_not():
    gap = np.geomspace(1e-1, 1e-8, 60)
    power = training.convergence.kl_exponent(gap, 2 * gap**1.5)
    assert power.value == pytest.approx(0.75)
    assert power.constant == pytest.approx(2.0)
    assert power.converged
    assert not training.convergence.kl_exponent(gap, np.exp(-(np.log(gap) ** 2) / 9)).converged
    t = np.geomspace(1, 1e3, 40)
    assert decay_exponent(t, t**-2.0).value == pytest.approx(-2)
    with pytest.raises(ValueError, match="fewer than three frames"):
        training.convergence.kl_exponent(gap[:6], gap[:6])

"""Training against its mean-field equation: terms add up, their laws are those of the theory, and settings follow from them."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import measureflow as mf
from measureflow import training
from measureflow.plotting.budgets import budget_figure
from measureflow.training import fixtures
from measureflow.training.budgets import CONFIDENCE, Largest, Term
from measureflow.training.chaos import ErrorLaw, confidence

RISK = fixtures.f2()
SIZES = {"counts": (4, 12, 36), "steps": (0.05, 0.025, 0.0125), "frames": 5, "repeats": 12, "noun": "heads"}
NEURONS = training.Neurons(2, activation=jnp.tanh)
NETWORK = training.NeuronRisk([[1.0, 0.3], [-0.4, 1.0], [0.2, -1.0]], [1.0, -1.0, 0.5], NEURONS) + training.Ridge(0.1)


@functools.cache
def budget_of(name):
    descent = training.Descent(RISK)
    rule, family = {
        "sgd": (training.TrainingRule(descent, batch=1), RISK.heads),
        "adam": (training.TrainingRule(training.Adam(descent, 0.1, 1.0, 1e-3)), RISK.heads),
        "langevin": (training.TrainingRule(descent, noise=training.langevin(50.0)), RISK.heads),
        "momentum of neurons": (
            training.TrainingRule(training.HeavyBall(training.Descent(NETWORK), 1.0), batch=2),
            NEURONS,
        ),
    }[name]
    fewer = {"counts": (4, 8, 16), "repeats": 4, "frames": 3} if name in ("adam", "langevin") else {}
    return training.error_budget(rule, family.gaussian(12 * 36, 0.5, key=0), 0.2 if fewer else 0.4, **SIZES | fewer)


@pytest.mark.parametrize("name", ["sgd", "momentum of neurons"])
def test_the_whole_is_at_most_the_sum_of_its_terms(name):
    found = budget_of(name)
    empirical, step, samples = (term.risk.values for term in found.terms)
    # The triangle inequality, run by run, where all terms are measured on the same heads.
    assert (found.total[0] <= empirical[0][None] + step + samples + 1e-12).all()
    empirical, step, samples = (term.test.values for term in found.terms)
    assert (found.total_test[0] <= empirical[0][None] + step + samples + 1e-12).all()
    # The bound holds for 95% of runs, and is a few times what they need.
    assert 1 < found.ratios.min() < found.ratios.max() < 6
    assert found.covered().min() >= 0.95


def test_variances_of_heads_and_samples_add_up():
    found = budget_of("sgd")
    foretold = [[found.law.deviation(int(n), float(e)) for e in found.steps] for n in found.counts]
    # Twelve repetitions know a deviation to a fifth.
    np.testing.assert_allclose(found.deviations[0] / foretold, 1.0, atol=0.5)


def test_runs_are_watched_at_every_step():
    found = budget_of("sgd")
    rule, mu = training.TrainingRule(training.Descent(RISK), batch=1), RISK.heads.gaussian(12 * 36, 0.5, key=0)
    times, key = jnp.asarray(0.05 * np.arange(9)), jax.random.split(jax.random.key(0), 12)[2]
    one = rule.sampled(mu.points[8:12], times, 0.05, key)[:, 0]
    limit = mf.evolve(training.Descent(RISK), mu, times, mf.RK4(0.05)).map(RISK)
    # A cubic spline through five frames.
    assert found.total[0, 0, 2] == pytest.approx(float(jnp.abs(one - limit).max()), abs=1e-4)


def test_many_particles_are_not_copied_to_save_a_program(monkeypatch):
    rule, pool = training.TrainingRule(training.Descent(RISK), batch=1), RISK.heads.gaussian(64, 0.5, key=0)
    sizes = {"counts": (4, 8), "steps": (0.1, 0.05), "frames": 3, "repeats": 4}
    one = training.error_budget(rule, pool, 0.2, **sizes)
    monkeypatch.setattr("measureflow.training.budgets.CHEAP", 0)
    other = training.error_budget(rule, pool, 0.2, **sizes)
    np.testing.assert_allclose(one.total, other.total, rtol=1e-10)
    np.testing.assert_allclose(one.terms[2].risk.squares, other.terms[2].risk.squares, rtol=1e-8)


def test_a_run_is_stochastic_descent_itself():
    rule, mu = training.TrainingRule(training.Descent(RISK), batch=1), RISK.heads.gaussian(4, 0.5, key=1)
    times, key = jnp.array([0.0, 0.1, 0.2]), jax.random.key(3)
    path = training.sgd(RISK, mu, 0.05, 4, key=key, every=2)
    np.testing.assert_allclose(rule.sampled(mu.points, times, 0.05, key)[:, 0], path.map(RISK), rtol=1e-13)
    exact = mf.evolve(training.Descent(RISK), mu, times, mf.RK4(0.005)).map(RISK)
    np.testing.assert_allclose(rule.exact(mu.points, times, key)[:, 0], exact, rtol=1e-6)


def test_exponents_are_those_of_the_theory():
    empirical, step, samples = (term.power for term in budget_of("sgd").terms)
    assert step.exponent == pytest.approx(1.0, abs=0.1)
    # Twelve repetitions tell the others to about 0.15; the interval says so.
    for found, law in ((empirical, -0.5), (samples, 0.5)):
        assert found.interval[0] < found.exponent < found.interval[1]
        assert found.exponent == pytest.approx(law, abs=0.45)


@pytest.mark.parametrize("name", ["adam", "langevin"])
def test_what_is_not_sampled_has_no_term_of_samples(name):
    found = budget_of(name)
    assert not found.terms[2].risk.values.any()
    assert dict(found.report().rows)["samples"] == "none: nothing is sampled"
    count, step = found.settings(0.01)
    assert count[1] <= count[0] <= count[2]
    assert np.isfinite(step).all()
    # Two terms share the error.
    assert found.law.error(int(count[0]), step[0], 1, CONFIDENCE) == pytest.approx(0.01, rel=0.01)


def test_constants_and_settings_follow_from_the_laws():
    counts, steps, ones = np.array([4.0, 16.0, 64.0]), np.array([0.1, 0.05, 0.025]), np.ones((3, 4))

    def largest(means):
        return Largest(means[:, None] * ones, 0 * ones)

    terms = (
        Term("empirical measure", counts, largest(2 * counts**-0.5), largest(counts), -0.5),
        Term("step", steps, largest(3 * steps), largest(steps), 1.0),
        Term("samples", steps, largest(4 * steps**0.5), largest(steps), 0.5),
    )
    totals = np.ones((2, 1, 4)), np.ones((2, 1, 4)), np.ones((2, 2, 1))
    found = training.ErrorBudget(np.array([4, 16]), np.array([0.1]), 1, terms, *totals, "heads")
    assert found.law == pytest.approx((2.0, 3.0, 4.0, 0.0, 0.0))
    assert found.bounds[0, 0] == pytest.approx(2 / 2 + 0.3 + 4 * 0.1**0.5)
    count, step = found.settings(0.3)
    assert count == pytest.approx((400, 400, 400))
    assert step == pytest.approx(((0.1 / 4) ** 2,) * 3)
    assert terms[0].power.exponent == pytest.approx(-0.5)


def test_confidence_adds_to_the_random_terms_alone():
    law = ErrorLaw(2.0, 3.0, 4.0, 0.5, 0.25)
    assert law.error(4, 0.01, 1, 2.0) == pytest.approx((2 + 1) / 2 + 0.03 + (4 + 0.5) * 0.1)
    assert law.deviation(4, 0.01) == pytest.approx(np.sqrt((0.25 / 4 + 0.0625 * 0.01) / 2))
    assert 2 * np.exp(-(confidence(0.05) ** 2)) == pytest.approx(0.05)
    count, step = law.settings(0.3, 1, 2.0)
    assert (3 / count**0.5, 4.5 * step**0.5) == pytest.approx((0.1, 0.1), rel=1e-3)


def test_the_picture_has_a_line_and_a_bound_for_each_setting():
    found = budget_of("sgd")
    figure = budget_figure(found.counts, found.steps, found.total, found.bounds)
    gids = [line.get_gid() for ax in figure.axes for line in ax.lines]
    assert (gids.count("found"), gids.count("law")) == (6, 6)


def test_a_pool_that_is_too_small_is_refused():
    with pytest.raises(ValueError, match="12 repetitions of 36 need 432"):
        training.error_budget(
            training.TrainingRule(training.Descent(RISK)), RISK.heads.gaussian(8, key=0), 0.1, **SIZES
        )
    with pytest.raises(ValueError, match="`error` must be positive"):
        budget_of("sgd").settings(0.0)

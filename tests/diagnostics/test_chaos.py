"""Tokens approach the flow of their law at the rate of a Monte Carlo average."""

import jax.numpy as jnp
import numpy as np
import pytest

import measureflow as mf
from measureflow.diagnostics.chaos import fitted_rate, moment_distance
from measureflow.theory import circle

DENSITY = lambda: mf.CircleDensity.from_function(lambda t: circle.von_mises(t, 1.0), 24)  # noqa: E731


def test_tokens_on_the_circle_approach_the_density_like_one_over_root_n():
    found = mf.diagnostics.chaos_rate(
        mf.SoftmaxAttention.isotropic(2, 1.0), DENSITY(), [50, 200, 800], [0.0, 0.5], mf.RK4(0.25), runs=24, key=0
    )
    assert found.errors.shape == (24, 3)
    low, high = found.interval
    assert low < 0.5 < high  # true at 95 %; the seed is fixed
    assert high - low < 0.25  # 24 runs over a factor of 16: a scatter of 0.55 / 2.8 each
    np.testing.assert_allclose(found.rms * np.sqrt(found.ns), found.rms[0] * np.sqrt(50), rtol=0.35)


@pytest.mark.slow
def test_tokens_approach_a_gaussian_too():
    field = mf.SoftmaxAttention([[-0.6, 0.1], [0.0, -0.4]], np.eye(2))
    found = mf.diagnostics.chaos_rate(
        field, mf.Gaussian([0.5, 0.0], np.eye(2)), [100, 1600], [0.0, 0.5], mf.RK4(0.25), runs=12, key=1
    )
    assert found.rate == pytest.approx(0.5, abs=0.2)  # three standard errors


@pytest.mark.slow
def test_noisy_tokens_approach_the_fokker_planck_equation():
    found = mf.diagnostics.chaos_rate(
        mf.SoftmaxAttention.isotropic(2, 1.0), DENSITY(), [50, 800], [0.0, 0.5], mf.Euler(0.05), runs=12, key=2,
        noise=mf.Langevin(0.3),
    )  # fmt: skip
    assert found.rate == pytest.approx(0.5, abs=0.25)  # three standard errors


def test_exact_powers_are_fitted_exactly():
    ns = np.array([10, 100, 1000])
    rate, margin = fitted_rate(ns, np.array([[1.0], [2.0], [5.0]]) * ns[None] ** -0.7)
    assert rate == pytest.approx(0.7, rel=1e-12)
    assert margin == pytest.approx(0.0, abs=1e-12)


def test_the_interval_covers_the_truth_as_often_as_it_says():
    rng, ns = np.random.default_rng(0), np.array([10, 100, 1000])
    errors = np.abs(rng.normal(size=(400, 10, 3))) / np.sqrt(ns)
    fits = np.array([fitted_rate(ns, e, 0.9) for e in errors])
    share = np.mean(np.abs(fits[:, 0] - 0.5) < fits[:, 1])
    assert share == pytest.approx(0.9, abs=0.05)  # three standard errors of a share of 400


def test_the_distance_of_moments_is_that_of_two_points():
    at = lambda *x: mf.Particles(mf.Euclidean(2), jnp.array([x]))  # noqa: E731
    # Means differ by (1, 0), second moments by 1 in one entry.
    assert float(moment_distance(at(1.0, 0.0), at(0.0, 0.0))) == pytest.approx(np.sqrt(2), rel=1e-14)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"law": mf.Particles.iid(mf.Sphere(2), 3, key=0)}, "`law` must be a measure that tokens can be drawn from"),
        ({"ns": [10]}, "at least two numbers"),
        ({"ns": [10, 5]}, "`ns` must increase"),
        ({"ns": [0, 5]}, "at least one token"),
        ({"runs": 1}, "`runs` must be at least 2"),
        ({"confidence": 1.5}, "`confidence` must lie between"),
        ({"times": [0.0, 30.0]}, "did not reach the last of `times`: Stopped"),
    ],
)
def test_bad_input_gets_a_sentence(change, sentence):
    arguments = {"field": mf.SoftmaxAttention.isotropic(2, 4.0), "law": DENSITY(), "ns": [5, 10]} | change
    with pytest.raises((ValueError, TypeError), match=sentence):
        mf.diagnostics.chaos_rate(**arguments)

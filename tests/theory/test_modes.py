import jax
import jax.numpy as jnp
import numpy as np
import pytest

from measureflow.theory.modes import DENSE, constant, count, edge, kac_rice, kac_rice_count, law, shot_noise


def test_printed_values_of_kac_rice_and_the_law():
    beta = np.array([20.0, 100.0, 1e3, 1e4])
    np.testing.assert_allclose(kac_rice_count(1e3, beta), [1.23, 7.33, 31.8, 83.6], rtol=5e-3)  # digits printed
    np.testing.assert_allclose(law(1e3, beta), [1.90, 11.83, 32.4, 83.7], rtol=5e-3)


def test_kac_rice_is_the_rice_rate_of_the_slope_at_a_place():
    """Moments of kernel sums by quadrature over the normal law, instead of closed forms."""
    n, beta, t = 500.0, 30.0, 1.3
    x = np.linspace(-9.0, 9.0, 20_001)
    w = np.exp(-(x**2) / 2)
    w = w / w.sum()
    u = t - x
    g, h = u * np.exp(-beta * u**2 / 2), (1 - beta * u**2) * np.exp(-beta * u**2 / 2)
    cov = np.cov(g, h, aweights=w, ddof=0) / n
    mean = np.array([w @ g, w @ h])
    middle = mean[1] - cov[0, 1] / cov[0, 0] * mean[0]
    s = np.sqrt(cov[1, 1] - cov[0, 1] ** 2 / cov[0, 0])
    # E (middle + s Z)_+ by a fine sum.
    z = np.linspace(-10, 10, 200_001)
    part = np.trapezoid(np.maximum(middle + s * z, 0) * np.exp(-(z**2) / 2), z) / np.sqrt(2 * np.pi)
    at_zero = np.exp(-(mean[0] ** 2) / (2 * cov[0, 0])) / np.sqrt(2 * np.pi * cov[0, 0])
    assert float(kac_rice(t, n, beta)) == pytest.approx(at_zero * part, rel=1e-8)  # the fine sum


def test_far_out_kac_rice_goes_on_for_ever():
    far = np.asarray(kac_rice(jnp.array([10.0, 20.0]), 1e3, 1e4))
    np.testing.assert_allclose(far, DENSE * 100.0, rtol=1e-2)  # terms of the size of the place squared over beta


def test_shot_noise_joins_lone_tokens_and_stationary_noise():
    assert float(shot_noise(1e-4)) == pytest.approx(1e-4, rel=3e-4)
    assert float(shot_noise(100.0)) == pytest.approx(np.sqrt(1.5) / (2 * np.pi))
    tokens = np.linspace(0.0, 3.0, 301)
    assert np.all(np.diff(shot_noise(tokens)) > -1e-3)  # the standard error of the table
    assert np.abs(np.diff(shot_noise(tokens))).max() < 0.011  # no jump: the steepest slope is one, at zero


def test_the_constant_vanishes_at_the_ends_and_the_count_tends_to_the_law():
    np.testing.assert_allclose(constant(jnp.array([1.0, 2.0])), [np.sqrt(1.5) / np.pi, 0.0], atol=1e-15)
    n = np.array([1e3, 1e6, 1e12, 1e24])
    ratios = np.asarray(count(n, n) / law(n, n))
    assert np.all(np.diff(np.abs(ratios - 1)) < 0)
    assert ratios[-1] == pytest.approx(1.0, abs=0.05)


def test_beyond_the_square_no_window_is_left():
    assert np.isnan(edge(10.0, 101.0))
    assert float(edge(10.0, 100.0)) == pytest.approx(0.0, abs=1e-7)  # a root of rounding


def test_counts_broadcast_and_differentiate():
    assert count(jnp.array([[1e3], [1e4]]), jnp.array([100.0, 1e3, 1e4])).shape == (2, 3)
    assert float(jax.grad(lambda beta: count(1e3, beta))(1e3)) > 0

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

from measureflow.theory.kuramoto import order_parameter, poisson_angles, rate, time_to


def mean_token(angles):
    return np.mean(np.exp(1j * np.asarray(angles)), axis=-1)


@pytest.mark.parametrize(("n", "r"), [(1, 0.4), (2, 0.4), (3, 0.7), (5, 0.9), (64, 0.5)])
def test_placed_tokens_have_the_mean_that_is_told(n, r):
    expected = r + (1 - r**2) * r ** (n - 1) / (1 + r**n)
    np.testing.assert_allclose(mean_token(poisson_angles(n, r)), expected, rtol=0, atol=1e-15)  # rounding of a mean


def test_placed_tokens_have_the_moments_of_a_poisson_kernel():
    angles, r = np.asarray(poisson_angles(200, 0.5)), 0.5
    for k in range(1, 20):  # the k-th moment of the grid is off by about r^(200 - k) 200^k / k!, below 1e-25 for k < 20
        np.testing.assert_allclose(mean_token(k * angles), r**k, rtol=0, atol=1e-14)  # rounding of angles, times k


def test_tokens_of_order_zero_are_equally_spaced():
    np.testing.assert_allclose(np.diff(poisson_angles(12, 0.0)), 2 * np.pi / 12, rtol=1e-14)  # rounding


def test_oscillators_follow_the_ott_antonsen_law_while_they_resolve_the_kernel():
    n, r0 = 128, 0.2
    times = np.linspace(0, float(time_to(0.8, r0)), 9)

    def velocity(_, angles):
        return np.imag(mean_token(angles) * np.exp(-1j * angles))

    path = solve_ivp(
        velocity, times[[0, -1]], np.asarray(poisson_angles(n, r0)), "DOP853", times, rtol=1e-12, atol=1e-13
    )
    assert 0.8 ** (n - 1) < 1e-12  # the kernel stays resolved, so what is left is the solver's error
    np.testing.assert_allclose(np.abs(mean_token(path.y.T)), order_parameter(times, r0), rtol=0, atol=1e-9)


def test_the_odds_grow_exponentially():
    assert order_parameter(jnp.log(3.0), 0.5) ** 2 == pytest.approx(0.5, abs=1e-15)  # rounding
    assert time_to(jnp.sqrt(0.5), 0.5) == pytest.approx(np.log(3.0), rel=1e-14, abs=0)  # rounding


def test_the_law_moves_at_its_rate():
    for t in (-2.0, 0.0, 1.0, 6.0):
        speed = jax.grad(order_parameter)(t, 0.3)
        assert speed == pytest.approx(float(rate(order_parameter(t, 0.3))), rel=1e-12, abs=0)  # rounding of 1 - r^2


def test_time_to_an_order_inverts_the_law():
    r = jnp.linspace(0.01, 0.99, 9)
    np.testing.assert_allclose(order_parameter(time_to(r, 0.3), 0.3), r, rtol=0, atol=1e-14)  # roundings


def test_uniform_and_equal_tokens_rest():
    np.testing.assert_array_equal(order_parameter(3.0, jnp.array([0.0, 1.0])), [0.0, 1.0])

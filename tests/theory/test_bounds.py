import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
from scipy.integrate import quad, solve_ivp

from measureflow.theory.bounds import (
    adversarial_lipschitz,
    adversarial_peak,
    cubic_radius,
    dobrushin_exponent,
    existence_time,
    finite_lipschitz,
    l2_slope,
    mean_field_lipschitz,
    output,
    published_finite_lipschitz,
    sensitivity,
    slope,
    support_radius,
    temptation,
    unnormalised_blow_up,
)


def softmax_output(x, y, A, V):
    """Softmax attention at one query, as the paper prints it."""
    scores = y @ (A @ x)
    weights = np.exp(scores - scores.max())
    return V @ (weights @ y) / weights.sum()


def norm(matrix):
    return np.linalg.norm(matrix, 2)


def test_bounds_have_the_values_one_finds_by_hand():
    # All tolerances are roundings.
    assert output(2.0, 3) == pytest.approx(6.0, rel=1e-15)
    assert support_radius(np.log(2), 3.0) == pytest.approx(6.0, rel=1e-15)
    assert slope(2, 5, 3) == pytest.approx(90.0, rel=1e-15)
    assert l2_slope(2, 5, 3) == pytest.approx(180.0, rel=1e-15)
    assert sensitivity(2.0, 0.5, 0.0, 3.0) == 2.0
    assert sensitivity(2.0, 0.5, 1.0, 1.0) == pytest.approx(4 * np.e, rel=1e-15)
    assert mean_field_lipschitz(2.0, 0.5, 1.0) == pytest.approx(1 + 4 * np.e, rel=1e-15)
    assert mean_field_lipschitz(2.0, 0.0, 7.0) == 2.0
    assert existence_time(1.0) == 0.5
    assert existence_time(0.5, 2.0, 4.0) == 0.25
    assert cubic_radius(0.375, 1.0) == 2.0


def test_two_opposite_tokens_have_the_largest_slope():
    y, A, V, h = np.array([[0.6, 0.8], [-0.6, -0.8]]) * 1.5, np.diag([2.0, 2.0]), np.eye(2) * 0.7, 1e-6
    steps = [(softmax_output(h * e, y, A, V) - softmax_output(-h * e, y, A, V)) / (2 * h) for e in np.eye(2)]
    assert norm(np.stack(steps)) == pytest.approx(float(slope(0.7, 2.0, 1.5)), rel=1e-9)  # h^2 and rounding / h


@pytest.mark.parametrize("p", [0.3, 0.5, 0.9])
def test_a_shifted_token_moves_the_mean_no_more_than_the_sensitivity_allows(p):
    y, A, V = np.array([[1.0], [-1.0]]), np.array([[3.0]]), np.eye(1)
    moved, h = y - np.array([[0.0], [-1e-6]]), 1e-6  # both tokens stay in the unit ball
    x = np.array([p])
    change = norm((softmax_output(x, moved, A, V) - softmax_output(x, y, A, V))[None])
    assert 0 < change <= float(sensitivity(1.0, 3.0, p, 1.0)) * h / 2  # W_1 of the clouds: half of one shift


@pytest.mark.parametrize(
    ("t", "start", "value", "interaction"),
    [(1.0, 1.0, 0.7, 0.5), (2.0, 1.0, 0.5, 1.0), (0.01, 1.0, 1.0, 1.0), (1.0, 0.2, 1.0, 1e-3), (3.0, 0.5, 0.1, 40.0)],
)
def test_the_dobrushin_exponent_is_the_integral_of_the_lipschitz_bound(t, start, value, interaction):
    def integrand(s):
        u = interaction * (start * np.exp(value * s)) ** 2
        return value * (u + (1 + 2 * u) * np.exp(2 * u))

    exponent, error = quad(integrand, 0, t, epsabs=0, epsrel=1e-12)
    assert error < 1e-11 * exponent
    ours = float(dobrushin_exponent(t, start, value, interaction))
    assert ours == pytest.approx(exponent, rel=1e-11, abs=0)  # the quadrature's error


def test_the_dobrushin_exponent_at_its_edges():
    assert dobrushin_exponent(3.0, 2.0, 0.5, 0.0) == pytest.approx(1.5, rel=1e-15)  # rounding
    assert dobrushin_exponent(3.0, 2.0, 0.0, 1.0) == 0
    assert dobrushin_exponent(0.0, 2.0, 1.0, 1.0) == 0
    assert dobrushin_exponent(2.0, 3.0, 1.0, 1.0) == np.inf


@pytest.mark.parametrize(("start", "value", "interaction"), [(0.7, 1.0, 1.0), (0.3, 2.0, 5.0), (4.0, 0.5, 0.1)])
def test_single_tokens_blow_up_when_they_should(start, value, interaction):
    # The equation for the time as a function of the position has no singularity: integrate it to infinity.
    cubic = quad(lambda x: 1 / (value * interaction * x**3), start, np.inf, epsabs=0, epsrel=1e-10)[0]
    wild = quad(lambda x: np.exp(-interaction * x**2) / (value * x), start, np.inf, epsabs=0, epsrel=1e-10)[0]
    assert existence_time(start, value, interaction) == pytest.approx(cubic, rel=1e-9)  # ten times the quadrature's
    assert unnormalised_blow_up(start, value, interaction) == pytest.approx(wild, rel=1e-9)


def test_the_unnormalised_time_is_an_exponential_integral():
    starts = np.array([1e-3, 0.1, 0.7, 1.0, 3.0, 10.0])
    expected = scipy.special.exp1(starts**2) / 2
    np.testing.assert_allclose(unnormalised_blow_up(starts), expected, rtol=1e-13)  # roundings, times x^2
    assert unnormalised_blow_up(0.7) == pytest.approx(0.2860444180, abs=5e-11)  # the digits of the sheet


def test_the_cubic_radius_solves_its_equation():
    times = np.linspace(0, 0.99, 8) * float(existence_time(0.8, 1.5, 0.4))
    path = solve_ivp(lambda _, r: 0.6 * r**3, times[[0, -1]], [0.8], "DOP853", times, rtol=1e-12, atol=1e-14)
    # The solver's tolerance, magnified by 1 / (1 - t/T) = 100 towards the end.
    np.testing.assert_allclose(cubic_radius(times, 0.8, 1.5, 0.4), path.y[0], rtol=1e-9)


def test_the_support_radius_moves_at_the_output_bound():
    speed = jax.grad(lambda t: support_radius(0.7 * t, 2.0))(1.3)
    assert speed == pytest.approx(float(output(0.7, support_radius(0.7 * 1.3, 2.0))), rel=1e-14)  # rounding


def test_functions_broadcast_and_keep_one_trace_under_a_sweep():
    traces = []

    @jax.jit
    def sweep(t):
        traces.append(1)
        return dobrushin_exponent(t, 1.0, 0.5, jnp.array([0.1, 1.0]))

    assert sweep(jnp.asarray(0.5)).shape == (2,)
    assert np.all(sweep(jnp.asarray(1.0)) > sweep(jnp.asarray(0.5)))
    assert len(traces) == 1


def test_bounds_for_finitely_many_tokens_have_the_values_one_finds_by_hand():
    # All tolerances are roundings.
    assert finite_lipschitz(3, 2.0, 0.0, 5.0) == pytest.approx(6.0, rel=1e-15)
    assert finite_lipschitz(1, 1.0, 0.5, 2.0) == pytest.approx(np.sqrt(3 * (4 * 2 + 1)), rel=1e-15)
    assert published_finite_lipschitz(1, 1.0, 0.5, 2.0) == pytest.approx(np.sqrt(3 * (4 * 5 + 1)), rel=1e-15)
    assert adversarial_lipschitz(5, 0.0, 1.0) == pytest.approx(2 / 5, rel=1e-15)
    assert adversarial_lipschitz(5, 50.0, 1.0) == pytest.approx(2.0, rel=1e-15)


def test_one_token_is_looked_at_as_much_as_real_eigenvalues_allow():
    assert temptation(np.diag([-2.0, 0.5])) == 2.0
    assert temptation(np.diag([4.0, -0.1])) == 0.5
    assert temptation([[0.0, 1.0], [-1.0, 0.0]]) == 0.0  # a quarter turn
    assert temptation(np.zeros((3, 3))) == 0.0


@pytest.mark.parametrize(("strength", "radius"), [(2.0, 1.0), (0.5, 1.5)])
def test_the_lower_bound_is_highest_where_the_crowd_weighs_as_much_as_the_one(strength, radius):
    peak = adversarial_peak(strength, radius)
    assert adversarial_lipschitz(peak.n, strength, radius) == pytest.approx(float(peak.value), rel=1e-14)  # rounding
    slope = jax.grad(lambda n: adversarial_lipschitz(n, strength, radius))(peak.n)
    assert abs(slope) < 1e-14


@pytest.mark.parametrize("interaction", [[1.0, 2.0], np.zeros((2, 3))])
def test_what_is_no_square_matrix_tempts_nobody(interaction):
    with pytest.raises(ValueError, match="`interaction` must be a square matrix"):
        temptation(interaction)

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
from scipy.integrate import solve_ivp

from measureflow.theory.noise import cubic, growth, kuramoto_growth, kuramoto_order, threshold, type_change

BETAS = np.array([0.1, 1.0, 2.5, 9.0, 60.0, 150.0])


def published_threshold(beta, dim):
    """The coupling as noisy:26 prints it."""
    return beta ** (dim / 2) / (2 ** (dim / 2) * scipy.special.gamma(dim / 2) * scipy.special.iv(dim / 2, beta))


def spectrum_velocity(c, temperature, beta, coupling):
    """The Fokker-Planck equation of the circle for the Fourier coefficients c_0, c_1, ..., by convolution on a grid.

    The density is (1 + 2 sum_k Re c_k e^{ik theta}) / 2 pi and the drift the derivative of its convolution with
    coupling e^{beta cos} / beta.
    """
    n = 4 * len(c)
    angles = 2 * np.pi * np.arange(n) / n
    k = np.fft.rfftfreq(n, 1 / n)
    density = np.fft.irfft(np.pad(c, (0, len(k) - len(c))) * n)
    kernel = -coupling * np.exp(beta * np.cos(angles)) * np.sin(angles) / n
    drift = np.fft.irfft(np.fft.rfft(kernel) * np.fft.rfft(density))
    rate = -1j * k * np.fft.rfft(density * drift) / n
    return (rate[: len(c)] - temperature * k[: len(c)] ** 2 * c).real


@pytest.mark.parametrize("dim", [2, 3, 4, 7, 32])
def test_the_threshold_is_the_published_one(dim):
    np.testing.assert_allclose(threshold(BETAS, dim), published_threshold(BETAS, dim), rtol=1e-13)  # 200 roundings


def test_the_threshold_has_a_value_without_temperature_in_the_kernel():
    np.testing.assert_allclose(threshold(0.0, np.arange(2, 9)), np.arange(2, 9) / 2, rtol=1e-14)  # roundings


@pytest.mark.parametrize("dim", [2, 3, 5])
def test_degree_one_is_marginal_at_the_threshold_and_all_others_are_damped(dim):
    for beta in BETAS:
        rates = growth(np.arange(1, 12), 0.5, beta, threshold(beta, dim), dim)
        assert abs(rates[0]) < 1e-13  # roundings of a difference of two numbers of size d / 2
        assert np.all(rates[1:] < 0)


@pytest.mark.parametrize("beta", [0.0, 0.7, 4.0])
def test_fourier_modes_grow_at_the_rate_of_the_linearised_equation(beta):
    temperature, coupling, small = 0.3, 1.7, 1e-7
    for k in range(1, 8):
        c = np.zeros(33)
        c[0], c[k] = 1.0, small
        measured = spectrum_velocity(c, temperature, beta, coupling)[k] / small
        expected = float(growth(k, temperature, beta, coupling))
        # The second order in the amplitude drops out of mode k; rounding is 1e-16 / 1e-7, times k^2.
        assert measured == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize(("dim", "k"), [(3, 1), (3, 2), (3, 4), (5, 1), (7, 3)])
def test_harmonics_grow_at_the_rate_of_the_linearised_equation(dim, k):
    beta, temperature, coupling = 2.3, 0.4, 1.9
    z, w = np.polynomial.legendre.leggauss(40)
    w = w * (1 - z**2) ** ((dim - 3) / 2)
    w /= w.sum()
    harmonic = scipy.special.eval_gegenbauer(k, dim / 2 - 1, z) / scipy.special.eval_gegenbauer(k, dim / 2 - 1, 1.0)
    # Funk and Hecke: the kernel multiplies a harmonic by its average over the kernel seen from the pole.
    multiplier = w @ (np.exp(beta * z) * harmonic)
    expected = k * (k + dim - 2) * (coupling * multiplier / beta - temperature)
    # In odd dimensions the integrand is entire, so 40 nodes leave rounding: of terms of size e^beta, times k (k + d - 2).
    assert growth(k, temperature, beta, coupling, dim) == pytest.approx(expected, abs=1e-12)


def test_the_type_changes_where_it_should():
    assert type_change() == pytest.approx(2.446918, abs=5e-7)  # the digits of the sheet
    for dim in (2, 3, 4, 10, 50):
        beta = float(type_change(dim))
        ratio = scipy.special.iv(dim / 2 + 1, beta) / scipy.special.iv(dim / 2, beta)
        assert ratio == pytest.approx(1 / dim, rel=1e-13)  # roundings of the two series
    assert cubic(type_change()) == pytest.approx(0.0, abs=1e-13)  # roundings


def test_the_cubic_term_is_the_published_expression():
    first, second = scipy.special.iv(1, BETAS), scipy.special.iv(2, BETAS)
    expected = 1.3 / BETAS * first * (2 * second - first) / (2 * (first - second))
    np.testing.assert_allclose(cubic(BETAS, 1.3), expected, rtol=1e-11)  # 1 - I_2/I_1 loses a digit or two
    assert cubic(0.0) == pytest.approx(-0.25, rel=1e-15)  # rounding


@pytest.mark.parametrize("beta", [0.0, 1.0, 2.0])
def test_above_a_continuous_transition_the_order_is_the_root_of_growth_over_cubic(beta):
    coupling = float(threshold(beta)) * (1 + 1e-3)
    start = np.zeros(17)
    start[:2] = 1.0, 0.05
    rate = float(growth(1, 0.5, beta, coupling))
    path = solve_ivp(
        lambda _, c: spectrum_velocity(c, 0.5, beta, coupling), (0, 12 / rate), start, "LSODA", rtol=1e-9, atol=1e-12
    )
    # The next order of the amplitude equation is 1e-3 relative to this one, times a constant of order ten near type_change.
    assert path.y[1, -1] == pytest.approx(np.sqrt(-rate / float(cubic(beta, coupling))), rel=0.02)


def test_beyond_the_type_change_order_survives_below_the_threshold():
    beta = 4.0
    coupling = float(threshold(beta)) * 0.98
    ordered = np.append(1.0, 0.8 ** np.arange(1, 33))
    path = solve_ivp(
        lambda _, c: spectrum_velocity(c, 0.5, beta, coupling), (0, 100), ordered, "LSODA", rtol=1e-8, atol=1e-10
    )
    assert growth(1, 0.5, beta, coupling) < 0
    assert path.y[1, -1] > 0.5


def test_the_type_changes_in_three_dimensions_as_well():
    z, w = np.polynomial.legendre.leggauss(60)

    def driven(beta):
        """The part of the rate of <P_1> that comes from the second harmonic and the first together."""
        kernel = [scipy.special.iv(k + 0.5, beta) for k in (1, 2)]
        drift = 3 * kernel[0] * np.ones_like(z), 5 * kernel[1] * 3 * z
        density = 3 * z, 5 * (3 * z**2 - 1) / 2
        return w @ ((1 - z**2) * (drift[0] * density[1] + drift[1] * density[0]))

    beta = float(type_change(3))
    assert driven(beta) == pytest.approx(0.0, abs=1e-14)  # rounding of numbers of size one
    assert driven(0.9 * beta) < 0 < driven(1.1 * beta)


def test_noisy_oscillators_order_beyond_two():
    kappas = np.array([1.5, 2.0, 2.5, 3.0])
    np.testing.assert_allclose(kuramoto_growth(kappas), 0.5 - 1 / kappas, rtol=0, atol=1e-15)  # rounding
    assert np.all(kuramoto_order(kappas[:2]) == 0)
    for kappa in (2.01, 2.5, 3.0, 40.0):
        r = float(kuramoto_order(kappa))
        fixed = scipy.special.i1e(kappa * r) / scipy.special.i0e(kappa * r)
        assert r == pytest.approx(fixed, abs=1e-14)  # roundings
        assert r > 0.09
    assert kuramoto_order(2 + 1e-6) == pytest.approx(1e-3, rel=1e-5)  # sqrt(kappa - 2), off by kappa - 2 relative
    assert kuramoto_order(1e4) == pytest.approx(1 - 0.5e-4, abs=1e-8)  # 1 - 1/(2 kappa), off by its square


def test_order_is_a_state_of_rest():
    kappa = 3.0
    x = kappa * float(kuramoto_order(kappa))
    c = scipy.special.ive(np.arange(40), x) / scipy.special.ive(0, x)
    velocity = spectrum_velocity(c, 1 / kappa, 0.0, 1.0)
    np.testing.assert_allclose(velocity, 0.0, rtol=0, atol=1e-12)  # roundings, times k^2


def test_functions_broadcast():
    assert growth(np.arange(1, 4)[:, None], 0.5, jnp.array([0.0, 1.0])[None, :]).shape == (3, 2)
    assert threshold(jnp.array([0.0, 1.0])).shape == (2,)
    assert type_change(jnp.array([2.0, 3.0])).shape == (2,)
    assert kuramoto_order(jnp.array([1.0, 3.0])).shape == (2,)

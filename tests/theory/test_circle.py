import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
import scipy.stats

from measureflow.theory import circle, noise

ANGLES = 2 * np.pi * np.arange(256) / 256


@pytest.mark.parametrize("dim", [2, 3, 7])
def test_softmax_divides_the_growth_by_what_a_token_sees(dim):
    k, beta = np.arange(1, 6), 2.5
    order = dim / 2 - 1
    ratio = scipy.special.iv(k + order, beta) / (beta * scipy.special.iv(order, beta))
    # Series and scipy, both to rounding.
    np.testing.assert_allclose(circle.softmax_growth(k, beta, 0.3, dim), k * (k + dim - 2) * (ratio - 0.3), rtol=1e-12)


def test_uniform_attention_makes_degree_one_grow():
    np.testing.assert_allclose(circle.softmax_growth(np.arange(1, 4), 0.0), [0.5, 0.0, 0.0], atol=1e-15)
    assert float(circle.softmax_growth(1, 0.0, dim=5)) == pytest.approx(4 / 5, rel=1e-14)


def test_the_number_of_first_clusters_is_of_order_root_beta():
    k = np.arange(1, 30)
    for beta in (1.0, 5.0, 10.0):
        assert int(circle.first_clusters(beta)) == k[np.argmax(k**2 * scipy.special.ive(k, beta))]
    betas = np.array([20.0, 50.0, 100.0, 180.0])
    # A whole number next to sqrt(2 beta), where corrections of order one over sqrt(beta) may change the neighbour.
    np.testing.assert_allclose(circle.first_clusters(betas), np.sqrt(2 * betas), atol=1.0)


def test_the_rates_of_the_sheet():
    # Digits of the formula sheet.
    np.testing.assert_allclose(
        noise.growth(np.arange(1, 4), 0.0, np.array([2.0, 5.0, 10.0])), [0.795318, 14.00449, 1582.5426], rtol=1e-6
    )


def test_a_poisson_kernel_has_powers_as_moments():
    values = circle.poisson_kernel(ANGLES, 0.6)
    moments = np.fft.rfft(values)[:20] * 2 * np.pi / 256
    np.testing.assert_allclose(moments, 0.6 ** np.arange(20), atol=1e-15)  # aliases are 0.6^236


def test_von_mises_is_that_of_scipy():
    np.testing.assert_allclose(circle.von_mises(ANGLES, 3.0), scipy.stats.vonmises.pdf(ANGLES, 3.0), rtol=1e-13)
    r = noise.kuramoto_order(2.7)
    mean = jnp.cos(ANGLES) @ circle.von_mises(ANGLES, 2.7 * r) * 2 * np.pi / 256
    assert float(mean) == pytest.approx(float(r), abs=1e-14)

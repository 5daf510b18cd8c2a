import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

from measureflow.theory._exponential_integral import ei_of_share

SHARES = np.geomspace(1e-12, 1.0, 400)
function = jax.jit(ei_of_share)
slope = jax.jit(jax.vmap(jax.grad(ei_of_share, argnums=1), in_axes=(None, 0)))


@pytest.mark.parametrize("b", [-40.0, -3.0, -1.0, 1.0, 2.0, 40.0])
def test_it_is_scipys_exponential_integral_when_b_is_large(b):
    ours = function(jnp.asarray(b), jnp.log(SHARES))
    # A hundred roundings: e^{|x|} magnifies the rounding of the share, and near -2 the series loses a factor of 30.
    np.testing.assert_allclose(ours, scipy.special.expi(b * SHARES), rtol=2e-14, atol=1e-14)


@pytest.mark.parametrize("b", [-0.9, -1e-9, 0.3])
def test_it_misses_only_a_constant_when_b_is_small(b):
    constant = np.euler_gamma + np.log(abs(b))
    ours = function(jnp.asarray(b), jnp.log(SHARES))
    np.testing.assert_allclose(ours + constant, scipy.special.expi(b * SHARES), rtol=1e-14, atol=1e-14)  # roundings


def test_it_is_the_logarithm_at_zero():
    np.testing.assert_array_equal(function(jnp.asarray(0.0), jnp.log(SHARES)), jnp.log(SHARES))


@pytest.mark.parametrize("b", [-30.0, -2.0, 0.0, 0.5, 2.0, 30.0])
def test_its_slope_in_the_logarithm_of_the_share_is_an_exponential(b):
    log_shares = jnp.linspace(-20.0, -1e-3, 101)
    np.testing.assert_allclose(
        slope(jnp.asarray(b), log_shares), jnp.exp(b * jnp.exp(log_shares)), rtol=1e-13
    )  # roundings times |b|

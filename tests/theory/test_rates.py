import jax
import jax.numpy as jnp
import numpy as np
import pytest

from measureflow.theory import kuramoto
from measureflow.theory.equiangular import gap, overlap, rate, softmax, unnormalised
from measureflow.theory.rates import (
    antipode_escape,
    displacement_contraction,
    hemisphere_bound,
    mean_field_contraction,
    overlap_contraction,
    simplex_escape,
)

MODELS = pytest.mark.parametrize("model", [softmax, unnormalised])
BETAS = jnp.array([-1.0, 0.0, 0.5, 3.0])


def token_velocity(x, beta, model):
    """Attention on the sphere, token by token."""
    kernel = np.exp(beta * x @ x.T)
    weights = kernel / kernel.sum(1, keepdims=True) if model is softmax else kernel / len(x)
    pull = weights @ x
    return pull - np.sum(pull * x, axis=1, keepdims=True) * x


def test_rates_have_their_published_values():
    # All tolerances are roundings.
    np.testing.assert_allclose(overlap_contraction(BETAS), 2.0, rtol=1e-15)
    np.testing.assert_allclose(overlap_contraction(BETAS, model=unnormalised), 2 * np.exp(BETAS), rtol=1e-15)
    np.testing.assert_allclose(displacement_contraction(BETAS), 1.0, rtol=1e-15)
    np.testing.assert_allclose(displacement_contraction(BETAS, model=unnormalised), np.exp(BETAS), rtol=1e-15)
    np.testing.assert_allclose(simplex_escape(4, BETAS), 8 / (np.exp(4 * BETAS / 3) + 3), rtol=1e-14)
    np.testing.assert_allclose(simplex_escape(4, BETAS, model=unnormalised), 2 * np.exp(-BETAS / 3), rtol=1e-14)


@pytest.mark.parametrize("n", [2, 5, 100])
@MODELS
def test_rates_are_slopes_of_the_overlap_equation_at_its_equilibria(n, model):
    slope = jax.vmap(jax.grad(lambda gamma, beta: rate(gamma, n, beta, model=model)), in_axes=(None, 0))
    np.testing.assert_allclose(slope(1.0, BETAS), -overlap_contraction(BETAS, model=model), rtol=1e-14)  # rounding
    np.testing.assert_allclose(slope(-1 / (n - 1), BETAS), simplex_escape(n, BETAS, model=model), rtol=1e-13)  # idem


@MODELS
def test_gaps_decay_at_the_contraction_rate(model):
    decay = overlap_contraction(BETAS, model=model)
    early, late = (gap(t / decay, 6, BETAS, 0.9, model=model) for t in (40.0, 44.0))
    # A gap of e^-40 is linear to rounding, and a logit of 40 is known to 1e-14.
    np.testing.assert_allclose(jnp.log(early / late), 4.0, rtol=0, atol=1e-12)


@MODELS
def test_overlaps_leave_the_simplex_at_the_escape_rate(model):
    n, nudge, growth = 6, 1e-7, simplex_escape(6, BETAS, model=model)
    distance = overlap(1 / growth, n, BETAS, -1 / (n - 1) + nudge, model=model) + 1 / (n - 1)
    # The nudge bends the growth by about (1 + |beta|) nudge, and rounding of the overlap is 1e-9 of it.
    np.testing.assert_allclose(jnp.log(distance / nudge), 1.0, rtol=0, atol=1e-5)


@pytest.mark.parametrize("beta", [0.0, 2.0])
@MODELS
def test_one_displaced_token_returns_at_the_displacement_rate(beta, model):
    angles = np.array([1e-5, 0.0, 0.0, 0.0])
    x = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    v, apart = token_velocity(x, beta, model), x[0] - x[1]
    measured = -(v[0] - v[1]) @ apart / (apart @ apart)
    # The displacement squared, 1e-10, times beta; rounding 1e-16 / 1e-5.
    assert measured == pytest.approx(float(displacement_contraction(beta, model=model)), rel=1e-9)


@pytest.mark.parametrize("beta", [0.0, 0.5, 2.0])
@MODELS
def test_the_worst_token_of_a_hemisphere_is_never_slower_than_the_bound(beta, model):
    rng, tried = np.random.default_rng(1), 0
    for _ in range(300):
        x = rng.normal(size=(rng.integers(2, 8), 3)) * rng.uniform(0.05, 1) + [0, 0, 1]
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        target = rng.dirichlet(np.ones(len(x))) @ x
        heights = x @ target / np.linalg.norm(target)
        worst = np.argmin(heights)
        speed = token_velocity(x, beta, model)[worst] @ target / np.linalg.norm(target)
        if heights[worst] >= 0.5:
            tried += 1
            assert speed >= hemisphere_bound(heights[worst], len(x), beta) - 1e-15  # rounding
    assert tried > 100


def test_a_density_is_as_fast_as_the_slower_of_contraction_and_escape():
    # All tolerances are roundings.
    np.testing.assert_allclose(antipode_escape(BETAS), 1.0, rtol=1e-15)
    np.testing.assert_allclose(antipode_escape(BETAS, model=unnormalised), np.exp(-BETAS), rtol=1e-15)
    np.testing.assert_allclose(mean_field_contraction(2, BETAS), 0.5, rtol=1e-15)
    np.testing.assert_allclose(mean_field_contraction(8, BETAS), 1.0, rtol=1e-15)
    circle = [np.exp(-1.0), 0.5, np.exp(-0.5) / 2, np.exp(-3.0) / 2]
    np.testing.assert_allclose(mean_field_contraction(2, BETAS, model=unnormalised), circle, rtol=1e-14)


@MODELS
def test_a_token_leaves_the_antipode_of_a_heavy_cluster_at_the_escape_rate(model):
    angles = np.append(np.zeros(999), np.pi - 1e-5)
    x = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    speed = -(token_velocity(x, 0.7, model)[-1] @ [-np.sin(angles[-1]), np.cos(angles[-1])]) / 1e-5
    # One of a thousand tokens sees itself, and under softmax with a weight of e^{1.4}.
    assert speed == pytest.approx(float(antipode_escape(0.7, model=model)), rel=6e-3)


def test_poisson_kernels_close_in_at_the_mean_field_rate():
    """On the circle at beta = 0 the distance is sqrt(2 - 2r) exactly."""
    early, late = (jnp.sqrt(2 - 2 * kuramoto.order_parameter(t, 0.3)) for t in (16.0, 18.0))
    # Corrections are of the size of the squared distance, 1e-6.
    assert float(jnp.log(early / late) / 2) == pytest.approx(float(mean_field_contraction(2, 0.0)), abs=1e-5)

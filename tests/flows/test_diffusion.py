"""The Fokker-Planck equation: heat is exact, methods keep their order, noise and attraction balance where they should."""

import jax.numpy as jnp
import numpy as np
import pytest

import measureflow as mf
from measureflow.theory import circle, noise


def still(dim):
    """A field that does not move anything."""
    return mf.Perceptron(np.zeros((dim, 1)), np.zeros((1, dim)), np.zeros(1))


def wavy(modes):
    return mf.CircleDensity.from_function(
        lambda t: (1 + 0.5 * jnp.cos(t - 1) + 0.3 * jnp.sin(2 * t)) / (2 * jnp.pi), modes
    )


def test_heat_alone_is_exact_in_one_step_and_needs_no_key():
    mu = mf.CircleDensity.from_function(lambda t: circle.poisson_kernel(t, 0.5), 16)
    path = mf.evolve(still(2), mu, [0.0, 0.7], mf.Euler(0.7), noise=mf.Langevin(0.3))
    decay = np.exp(-0.3 * 0.7 * np.arange(17) ** 2)
    np.testing.assert_allclose(path.final.moments[0], decay * mu.moments[0], atol=1e-15)
    assert path.stats["steps"] == 1


def test_methods_keep_their_order_along_the_heat_flow():
    field, times, warm = mf.SoftmaxAttention.isotropic(2, 2.0), [0.0, 1.0], mf.Langevin(0.2)
    exact = mf.evolve(field, wavy(16), times, mf.Adaptive(1e-12, 1e-14), noise=warm).final.moments
    for method, order in ((mf.Euler, 1), (mf.Heun, 2), (mf.RK4, 4)):
        finals = [mf.evolve(field, wavy(16), times, method(dt), noise=warm).final.moments for dt in (0.1, 0.05)]
        errors = [float(jnp.abs(final - exact).max()) for final in finals]
        assert np.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.15), method


def test_an_implicit_method_finds_the_same_solution():
    field, times, warm = mf.SoftmaxAttention.isotropic(2, 2.0), [0.0, 1.0], mf.Langevin(0.2)
    ours, theirs = (mf.evolve(field, wavy(8), times, solver, noise=warm) for solver in (None, mf.Stiff()))
    # Both at the tolerance 1e-10, over some hundred steps.
    np.testing.assert_allclose(ours.final.moments, theirs.final.moments, atol=1e-8)


@pytest.mark.parametrize("kappa", [1.5, 3.0])
def test_noisy_oscillators_come_to_rest_at_the_known_order(kappa):
    path = mf.evolve(mf.SoftmaxAttention.isotropic(2, 0.0), wavy(24), [0.0, 60.0], noise=mf.Langevin(1 / kappa))
    r = noise.kuramoto_order(kappa)
    # What is left of the start decays at least like e^{-t/6}, that is 5e-5 squared by the root at the threshold.
    np.testing.assert_allclose(jnp.hypot(*path.final.moments[:, 1]), r, atol=1e-4)
    angle = jnp.asarray(path.final.grid.angles) - jnp.arctan2(*path.final.moments[::-1, 1])
    np.testing.assert_allclose(path.final.values, circle.von_mises(angle, kappa * r), atol=1e-4)


def test_the_uniform_state_loses_its_stability_at_the_threshold():
    beta, temperature = 1.5, 0.5
    start = mf.CircleDensity.from_function(lambda t: (1 + 2e-7 * jnp.cos(t)) / (2 * jnp.pi), 8)
    for factor in (0.9, 1.1):
        coupling = factor * noise.threshold(beta)
        field = coupling * mf.UnnormalisedAttention.isotropic(2, beta)
        path = mf.evolve(field, start, [0.0, 2.0], mf.Adaptive(1e-10, 1e-16), noise=mf.Langevin(temperature))
        growth = jnp.log(path.final.moments[0, 1] / start.moments[0, 1]) / 2
        # A linear rate up to the square of the amplitude, and rounding 1e-16 of an amplitude 1e-7.
        np.testing.assert_allclose(growth, noise.growth(1, temperature, beta, coupling), atol=1e-8)
        assert bool(growth > 0) == (factor > 1)


def test_cells_with_noise_stay_positive():
    mu = mf.CircleCells(jnp.where(jnp.arange(200) < 100, 1 / jnp.pi, 0.0))
    path = mf.evolve(
        mf.SoftmaxAttention.isotropic(2, 4.0), mu, [0.0, 1.0, 4.0], mf.Heun(0.5 * mu.width), noise=mf.Langevin(0.02)
    )
    assert float(path.measures.values.min()) > -1e-14  # rounding of the transform that applies the heat
    np.testing.assert_allclose(path.measures.masses.sum(-1), 1.0, atol=1e-12)


def test_cells_diffuse_like_their_heat():
    mu = mf.CircleCells(circle.von_mises(2 * np.pi * np.arange(64) / 64, 2.0))
    change = (mu.heat(1e-4).values - mu.heat(-1e-4).values) / 2e-4
    np.testing.assert_allclose(mu.diffuse(1.0).values, change, atol=1e-5)  # second difference in time


def test_a_gaussian_on_a_spring_reaches_its_temperature():
    spring = mf.Perceptron(-np.eye(2), np.eye(2), np.zeros(2), lambda x: x)
    start = mf.Gaussian([1.0, 0.0], [[0.5, 0.2], [0.2, 2.0]])
    path = mf.evolve(spring, start, [0.0, 1.5], noise=mf.Langevin(0.7))
    left = np.exp(-2 * 1.5)
    np.testing.assert_allclose(path.final.cov, left * start.cov + 0.7 * (1 - left) * np.eye(2), atol=1e-8)  # tolerance


def test_particles_still_ask_for_a_key():
    mu = mf.Particles.iid(mf.Sphere(2), 4, key=0)
    with pytest.raises(ValueError, match="needs a `key`"):
        mf.evolve(still(2), mu, [0.0, 1.0], mf.Euler(0.1), noise=mf.Langevin(0.1))

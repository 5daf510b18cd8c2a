"""Entropic transport agrees with its closed forms, with exact transport and with its own derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import ot
import pytest
from scipy.stats import norm

import measureflow as mf
from measureflow import transport

PLANE = mf.Euclidean(2)


def clouds(space=PLANE, n=30, m=25):
    rng = np.random.default_rng(0)
    mu, nu = (mf.Particles(space, mf.Particles.iid(space, k, key=k).points, rng.random(k) + 0.1) for k in (n, m))
    return mu, nu


@pytest.mark.parametrize("epsilon", [1.0, 0.05])
def test_the_value_is_that_of_pot(epsilon):
    mu, nu = clouds()
    matrix = np.asarray(((mu.points[:, None] - nu.points[None]) ** 2).sum(-1) / 2)
    a, b = np.asarray(mu.weights), np.asarray(nu.weights)
    plan = np.asarray(ot.sinkhorn(a, b, matrix, epsilon, method="sinkhorn_log", stopThr=1e-13, numItermax=100_000))
    used = plan > 0
    entropy = (plan[used] * np.log(plan[used] / np.outer(a, b)[used])).sum()
    # The sum of all mass that POT still misplaces, times potentials of order one.
    assert abs(transport.entropic_cost(mu, nu, epsilon) - (plan * matrix).sum() - epsilon * entropy) < 1e-9


@pytest.mark.parametrize("epsilon", [1.0, 0.1, 0.01])
def test_a_shift_costs_half_its_square_at_every_regularisation(epsilon):
    mu, _ = clouds()
    shifted = mu.shift(jnp.full_like(mu.points, 0.5))
    # The tolerated rounding of scores grows with the cost over the regularisation.
    assert abs(transport.sinkhorn_divergence(mu, shifted, epsilon) - 0.25) < 1e-9


@pytest.mark.parametrize("space", [mf.Euclidean(1), PLANE, mf.Sphere(2), mf.Sphere(3)], ids=str)
def test_it_tends_to_exact_transport(space):
    mu, nu = clouds(space)
    exact = transport.wasserstein(mu, nu) ** 2 / 2
    far, near = (abs(transport.sinkhorn_divergence(mu, nu, epsilon) - exact) for epsilon in (0.1, 0.02))
    assert near < far / 2
    assert near < 0.02  # the regularisation itself


def test_equal_measures_have_no_divergence_and_others_do():
    mu, nu = clouds()
    assert abs(transport.sinkhorn_divergence(mu, mf.Particles(PLANE, mu.points, mu.weights), 0.1)) < 1e-10
    assert transport.sinkhorn_divergence(mu, nu, 0.1) > 0.01


def test_derivatives_of_first_and_second_order_are_those_of_differences():
    mu, nu = clouds(n=12, m=10)
    direction = jnp.cos(jnp.arange(24.0)).reshape(12, 2)
    value = jax.jit(lambda s: transport.sinkhorn_divergence(mu.shift(s * direction), nu, 0.1))
    slope = jax.jit(jax.grad(value))
    h = 1e-4
    # Central differences with h^2 = 1e-8 times derivatives of order ten.
    assert abs(slope(0.0) - (value(h) - value(-h)) / (2 * h)) < 1e-6
    assert abs(jax.grad(slope)(0.0) - (slope(h) - slope(-h)) / (2 * h)) < 1e-6
    assert abs(jax.jvp(value, (0.0,), (1.0,))[1] - slope(0.0)) < 1e-10


def test_single_precision_gives_its_digits():
    mu, nu = clouds()
    double = transport.sinkhorn_divergence(mu, nu, 0.1)
    low = [mf.Particles(PLANE, m.points.astype(jnp.float32), m.weights.astype(jnp.float32)) for m in (mu, nu)]
    single = transport.sinkhorn_divergence(*low, 0.1)
    assert single.dtype == jnp.float32
    assert abs(single.astype(float) - double) < 1e-4  # scores of a hundred, rounded to 1e-7


def test_the_map_between_gaussians_is_linear():
    quantiles = norm.ppf((np.arange(300) + 0.5) / 300)[:, None]
    mu, nu = (mf.Particles(mf.Euclidean(1), scale * quantiles) for scale in (1.0, 2.0))
    xs = jnp.array([[-1.0], [0.5], [1.0]])
    slope = (np.sqrt(16 + 0.09) - 0.3) / 2
    # The grid of quantiles cuts the tails: 1e-5 at 600 points, four times that at 300.
    assert np.allclose(transport.entropic_map(mu, nu, 0.3)(xs), slope * xs, rtol=0, atol=4e-5)


def test_the_map_sends_the_mean_to_the_mean():
    mu, nu = clouds()
    image = transport.entropic_map(mu, nu, 0.2)(mu.points)
    assert np.allclose(mu.weights @ image, nu.weights @ nu.points, rtol=0, atol=1e-9)


def test_the_map_for_samples_is_near_the_true_one():
    rng = np.random.default_rng(0)
    xs, ys = rng.normal(size=(2, 600, 2))
    A = np.array([[2.0, 0.5], [0.5, 1.0]])  # symmetric and positive, so the optimal map is linear
    found = transport.entropic_map(mf.Particles(PLANE, xs), mf.Particles(PLANE, ys @ A))
    inner = xs[np.linalg.norm(xs, axis=1) < 1]
    # Bias and sampling error of 600 draws; sending every point to the mean would be off by 1.1.
    assert np.sqrt(np.mean((np.asarray(found(jnp.asarray(inner))) - inner @ A) ** 2)) < 0.25


def test_the_default_regularisation_has_its_law_and_its_units():
    rng = np.random.default_rng(0)

    def default(n, d, scale=1.0, **options):
        mu, nu = (mf.Particles(mf.Euclidean(d), scale * x) for x in rng.normal(size=(2, n, d)))
        spread = np.mean([np.var(np.asarray(m.points), axis=0).mean() for m in (mu, nu)])
        return transport.default_regularisation(mu, nu, **options) / spread

    # d' = 2 ceil(d/2) and three derivatives: exponents 1/(2 + 4), 1/(2 + 4), 1/(4 + 4).
    for d, exponent in ((1, 6), (2, 6), (3, 8)):
        assert abs(default(64, d) - 64 ** (-1 / exponent)) < 1e-12
        assert abs(default(64, d, scale=10.0) - 64 ** (-1 / exponent)) < 1e-12
    assert abs(default(64, 1, smoothness=1) - 64 ** (-1 / 4)) < 1e-12


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda mu, nu: transport.sinkhorn_divergence(mu, nu, -0.1), "`epsilon` must be positive"),
        (lambda mu, nu: transport.sinkhorn_divergence(mu, nu, 1e-7), "`epsilon` 1e-07 is too small"),
        (lambda mu, nu: transport.sinkhorn_divergence(mu, clouds(mf.Sphere(2))[0], 0.1), "needs one space"),
        (lambda mu, nu: transport.entropic_map(*clouds(mf.Sphere(2))), "needs a convex space"),
        (lambda mu, nu: transport.default_regularisation(mu, nu, smoothness=0.5), "`smoothness`"),
        (lambda mu, nu: transport.entropic_map(*[mf.Particles(PLANE, [[0.0, 1.0]])] * 2), "give `epsilon`"),
    ],
)
def test_what_has_no_answer_is_refused_with_a_sentence(call, words):
    with pytest.raises((ValueError, TypeError), match=words):
        call(*clouds())

"""Particles: weights, spaces, and what a user may get wrong."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import measureflow as mf


@pytest.fixture
def mu(space):
    plain = mf.Particles.iid(space, 9, key=5)
    return mf.Particles(space, plain.points, jnp.arange(1.0, 10.0))


def test_weights_sum_to_one_and_keep_their_ratios(mu):
    np.testing.assert_allclose(mu.weights.sum(), 1.0, rtol=1e-14)
    np.testing.assert_allclose(mu.weights[8] / mu.weights[0], 9.0, rtol=1e-14)


def test_transport_moves_along_the_space_and_keeps_the_mass(mu):
    rate = mu.transport(lambda xs: jnp.ones_like(xs))
    np.testing.assert_array_equal(rate.log_weights, 0.0)
    tangent = jax.vmap(mu.space.tangent)(mu.points, rate.points)
    np.testing.assert_allclose(tangent, rate.points, atol=1e-14)


def test_settle_returns_a_stray_measure_to_its_space(mu):
    stray = mu.transport(lambda xs: xs)
    moved = jax.tree.map(lambda x, v: x + 0.1 * v, mu, stray).settle()
    mu.space.check(moved.points)


def test_integrate_takes_batches_and_expect_single_points(mu):
    batch = mu.integrate(lambda xs: (xs**2).sum(-1))
    np.testing.assert_allclose(batch, mu.expect(lambda x: jnp.vdot(x, x)), rtol=1e-14)


@settings(max_examples=20, deadline=None)
@given(share=st.floats(0.01, 0.99), token=st.integers(0, 5))
def test_splitting_a_token_into_two_shares_changes_nothing(share, token):
    mu = mf.Particles.iid(mf.Sphere(3), 6, key=2)
    weights = jnp.append(mu.weights, (1 - share) * mu.weights[token]).at[token].mul(share)
    split = mf.Particles(mu.space, jnp.concatenate([mu.points, mu.points[token][None]]), weights)
    a = 3.0 * mu.points
    np.testing.assert_allclose(split.attend(a).log_mass, mu.attend(a).log_mass, atol=1e-14)
    np.testing.assert_allclose(split.attend(a).mean, mu.attend(a).mean, atol=1e-14)


def test_a_seed_is_as_good_as_a_key():
    by_seed = mf.Particles.iid(mf.Sphere(3), 4, key=7)
    by_key = mf.Particles.iid(mf.Sphere(3), 4, key=jax.random.key(7))
    np.testing.assert_array_equal(by_seed.points, by_key.points)


ROW = [[1.0, 0.0]]
BAD = {
    "wrong width": (lambda: mf.Particles(mf.Sphere(3), ROW), "`points` must have shape (n, 3); got (1, 2)"),
    "no token": (lambda: mf.Particles(mf.Euclidean(2), np.zeros((0, 2))), "`points` has no token"),
    "off the sphere": (lambda: mf.Particles(mf.Sphere(2), [[1.0, 0.1]]), "Divide each token by its norm"),
    "NaN": (lambda: mf.Particles(mf.Euclidean(2), [[1.0, np.nan]]), "1 NaN or infinite"),
    "zero weight": (lambda: mf.Particles(mf.Sphere(2), ROW, [0.0]), "`weights` must be positive"),
    "weight count": (lambda: mf.Particles(mf.Sphere(2), ROW, [1.0, 1.0]), "one weight for each token"),
    "n = 0": (lambda: mf.Particles.iid(mf.Sphere(2), 0, key=0), "`n` must be at least 1"),
}


@pytest.mark.parametrize(("make", "words"), BAD.values(), ids=BAD.keys())
def test_bad_tokens_get_a_sentence(make, words):
    with pytest.raises(ValueError, match="`") as caught:
        make()
    assert words in str(caught.value)


def test_integers_become_floats_and_float32_stays():
    assert mf.Particles(mf.Euclidean(2), [[1, 2]]).points.dtype == jnp.float64
    assert mf.Particles(mf.Euclidean(2), jnp.ones((1, 2), jnp.float32)).log_weights.dtype == jnp.float32

"""Laws that every space obeys."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import measureflow as mf


@pytest.fixture
def sample(space):
    """A point, another point and an ambient vector."""
    k1, k2, k3 = jax.random.split(jax.random.key(1), 3)
    return space.sample(k1), space.sample(k2), jax.random.normal(k3, (space.dim,))


def test_a_projected_point_stays_where_it_is(space, sample):
    x = space.project(2.5 * sample[2])
    np.testing.assert_allclose(space.project(x), x, atol=1e-15)


def test_tangent_is_a_projection(space, sample):
    x, _, v = sample
    tangent = space.tangent(x, v)
    np.testing.assert_allclose(space.tangent(x, tangent), tangent, atol=1e-14)
    np.testing.assert_allclose(jnp.vdot(v - tangent, tangent), 0.0, atol=1e-14)


def test_exp_leaves_along_the_tangent_and_covers_its_length(space, sample):
    x, _, v = sample
    v = space.tangent(x, v)
    v = 0.3 * v / jnp.linalg.norm(v)
    np.testing.assert_allclose(jax.jvp(lambda h: space.exp(x, h * v), (0.0,), (1.0,))[1], v, atol=1e-14)
    np.testing.assert_allclose(space.distance(x, space.exp(x, v)), 0.3, rtol=1e-13)


def test_exp_of_zero_is_the_point_and_differentiable(space, sample):
    x = sample[0]
    np.testing.assert_allclose(space.exp(x, jnp.zeros_like(x)), x, atol=1e-15)
    assert jnp.isfinite(jax.jacfwd(lambda v: space.exp(x, v))(jnp.zeros_like(x))).all()


def test_distance_is_symmetric_and_its_chord_is_the_ambient_distance(space, sample):
    x, y, _ = sample
    assert space.distance(x, y) == space.distance(y, x)
    np.testing.assert_allclose(space.chord(space.distance(x, y)), jnp.linalg.norm(x - y), rtol=1e-12)


def test_samples_lie_in_the_space(space):
    points = mf.Particles.iid(space, 100, key=3).points
    space.check(points)
    np.testing.assert_allclose(jax.vmap(space.project)(points), points, atol=1e-15)


def test_sphere_distance_keeps_its_digits_at_small_angles():
    x = jnp.array([1.0, 0.0])
    y = jnp.array([jnp.cos(1e-9), jnp.sin(1e-9)])
    np.testing.assert_allclose(mf.Sphere(2).distance(x, y), 1e-9, rtol=1e-12)


@pytest.mark.parametrize(("make", "words"), [(lambda: mf.Sphere(1), "Sphere(2)"), (lambda: mf.Euclidean(0), "got 0")])
def test_too_few_coordinates_are_refused_with_a_remedy(make, words):
    with pytest.raises(ValueError, match="coordinate") as caught:
        make()
    assert words in str(caught.value)


def test_on_the_boundary_of_a_ball_a_velocity_loses_only_its_outward_part():
    ball, x = mf.Ball(2, 2.0), jnp.array([0.0, 2.0])
    np.testing.assert_array_equal(ball.tangent(x, jnp.array([1.0, 3.0])), [1.0, 0.0])
    np.testing.assert_array_equal(ball.tangent(x, jnp.array([1.0, -3.0])), [1.0, -3.0])
    np.testing.assert_array_equal(ball.tangent(x / 2, jnp.array([1.0, 3.0])), [1.0, 3.0])
    # A projected point is on the boundary for `tangent` too, whatever the rounding of the division was.
    y = jax.vmap(ball.project)(3 * jax.random.normal(jax.random.key(0), (100, 2)) + 9)
    radial = jax.vmap(lambda x: x @ ball.tangent(x, x))(y)
    np.testing.assert_allclose(radial, 0.0, atol=1e-14)


def test_points_outside_a_ball_are_refused_with_their_norm():
    with pytest.raises(ValueError, match="point 1 has 3"):
        mf.Particles(mf.Product(mf.Euclidean(1), mf.Ball(1, 2.0)), [[5.0, 2.0], [0.0, -3.0]])
    with pytest.raises(ValueError, match="must be positive"):
        mf.Ball(2, 0.0)

"""The Lipschitz constant by Lanczos steps is the norm of the Jacobian."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import measureflow as mf


def jacobian_norm(field, mu):
    """The spectral norm of the full Jacobian in `L^2(mu)`."""

    def velocities(points):
        return field(0.0, points, eqx.tree_at(lambda m: m.points, mu, points)).ravel()

    J = jax.jit(jax.jacfwd(velocities))(mu.points).reshape(mu.points.size, -1)
    root = np.repeat(np.sqrt(mu.weights), mu.points.shape[1])
    return np.linalg.norm(root[:, None] * np.asarray(J) / root[None], 2)


def random_field(kind, d):
    rng = np.random.default_rng(0)
    return kind(rng.normal(size=(d, d)) / 2, rng.normal(size=(d, d)) / 2)


@pytest.mark.parametrize("kind", [mf.SoftmaxAttention, mf.UnnormalisedAttention, mf.SigmoidAttention])
def test_lanczos_finds_the_norm_of_the_jacobian(kind):
    mu = mf.Particles(mf.Euclidean(4), 0.7 * np.random.default_rng(1).normal(size=(12, 4)), np.linspace(1, 2, 12))
    field = random_field(kind, 4)
    # The tolerance asked for bounds the residual; the value is off by its square over the gap.
    np.testing.assert_allclose(
        mf.diagnostics.lipschitz(field, mu, tolerance=1e-8).value, jacobian_norm(field, mu), rtol=1e-8
    )


def test_the_adversarial_cloud_has_the_published_constant():
    """castin:24: tokens at one end, one at the other; power iteration stops short at 9.9502."""
    points = np.zeros((100, 3))
    points[:, 0] = 2.0
    points[0, 0] = -2.0
    field = mf.SoftmaxAttention(np.diag([-2.0, 0.5, 0.3]), np.eye(3))
    found = mf.diagnostics.lipschitz(field, mf.Particles(mf.Euclidean(3), points))
    np.testing.assert_allclose(found.value, 9.9515, atol=5e-5)


def test_products_run_through_the_engine_of_the_measure():
    mu = mf.Particles.iid(mf.Sphere(3), 200, key=0)  # more pairs than the dense engine takes
    field = mf.SoftmaxAttention.isotropic(3, 4.0)
    np.testing.assert_allclose(mf.diagnostics.lipschitz(field, mu).value, jacobian_norm(field, mu), rtol=1e-6)


def test_one_token_gives_the_norm_of_the_value_matrix():
    V = jnp.array([[1.0, 2.0], [0.0, 1.0]])
    found = mf.diagnostics.lipschitz(mf.SoftmaxAttention(jnp.eye(2), V), mf.Particles(mf.Euclidean(2), [[0.3, 0.1]]))
    np.testing.assert_allclose(found.value, np.linalg.norm(V, 2), rtol=1e-12)


@pytest.mark.parametrize("mask", [lambda field: field, mf.Causal], ids=["plain", "causal"])
def test_the_extremal_direction_is_enlarged_by_the_constant(mask):
    mu = mf.Particles(mf.Euclidean(3), np.random.default_rng(2).normal(size=(10, 3)), np.linspace(1, 2, 10))
    field = mask(random_field(mf.SoftmaxAttention, 3))
    found = mf.diagnostics.lipschitz(field, mu, tolerance=1e-8)

    def velocities(points):
        return field(0.0, points, eqx.tree_at(lambda m: m.points, mu, points))

    def norm(change):
        return np.sqrt(mu.weights @ jnp.sum(change**2, 1))

    image = jax.jvp(velocities, (mu.points,), (found.direction,))[1]
    np.testing.assert_allclose(norm(found.direction), 1.0, rtol=1e-12)  # rounding
    # A residual r changes the gain of the vector by about r^2 over the gap to the next singular value.
    np.testing.assert_allclose(norm(image), found.value, rtol=1e-8)
    assert found.residual <= 1e-8 * found.value


def test_the_residual_tells_what_was_not_reached():
    mu = mf.Particles(mf.Euclidean(3), np.random.default_rng(3).normal(size=(40, 3)))
    field = random_field(mf.SoftmaxAttention, 3)
    rough, fine = (mf.diagnostics.lipschitz(field, mu, tolerance=tolerance) for tolerance in (0.5, 1e-9))
    assert fine.residual <= 1e-9 * fine.value
    # From below; the residual bounds the distance to some singular value, which here is the largest.
    assert fine.value - rough.residual <= rough.value <= fine.value * (1 + 1e-12)


def test_a_tolerance_that_is_not_positive_is_refused():
    mu = mf.Particles(mf.Euclidean(2), [[0.3, 0.1]])
    with pytest.raises(ValueError, match="`tolerance` must be positive"):
        mf.diagnostics.lipschitz(mf.SoftmaxAttention.isotropic(2), mu, tolerance=0.0)

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
    np.testing.assert_allclose(mf.diagnostics.lipschitz(field, mu, tolerance=1e-8), jacobian_norm(field, mu), rtol=1e-8)


def test_the_adversarial_cloud_has_the_published_constant():
    """castin:24: tokens at one end, one at the other; power iteration stops short at 9.9502."""
    points = np.zeros((100, 3))
    points[:, 0] = 2.0
    points[0, 0] = -2.0
    field = mf.SoftmaxAttention(np.diag([-2.0, 0.5, 0.3]), np.eye(3))
    found = mf.diagnostics.lipschitz(field, mf.Particles(mf.Euclidean(3), points))
    np.testing.assert_allclose(found, 9.9515, atol=5e-5)


def test_products_run_through_the_engine_of_the_measure():
    mu = mf.Particles.iid(mf.Sphere(3), 200, key=0)  # more pairs than the dense engine takes
    field = mf.SoftmaxAttention.isotropic(3, 4.0)
    np.testing.assert_allclose(mf.diagnostics.lipschitz(field, mu), jacobian_norm(field, mu), rtol=1e-6)


def test_one_token_gives_the_norm_of_the_value_matrix():
    V = jnp.array([[1.0, 2.0], [0.0, 1.0]])
    found = mf.diagnostics.lipschitz(mf.SoftmaxAttention(jnp.eye(2), V), mf.Particles(mf.Euclidean(2), [[0.3, 0.1]]))
    np.testing.assert_allclose(found, np.linalg.norm(V, 2), rtol=1e-12)

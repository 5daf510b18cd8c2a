"""Losses against differences, and the labels they take."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from measureflow.training import CrossEntropy, Logistic, Square

rng = np.random.default_rng(0)
LAWS = rng.dirichlet(np.ones(3), 4)
CASES = {
    "cross-entropy": (CrossEntropy(), rng.normal(size=(4, 3)), LAWS),
    "square": (Square(), rng.normal(size=(4, 3)), rng.normal(size=(4, 3))),
    "logistic": (Logistic(), rng.normal(size=(4, 1)), np.array([[1.0], [-1.0], [1.0], [-1.0]])),
}


@pytest.mark.parametrize("name", CASES)
def test_residuals_and_curvature_are_derivatives_and_no_loss_is_below_its_floor(name):
    loss, z, y = CASES[name]
    v = np.random.default_rng(1).normal(size=z.shape)

    @jax.jit
    def found(z, y, v):
        slope, curved = jax.jvp(lambda z: loss.residual(z, y), (z,), (v,))
        exact = jax.grad(lambda z: loss(z, y).sum())(z)
        return slope - exact, curved - loss.curved(z, y, v), (v * curved).sum(), loss(z, y) - loss.floor(y)

    slope, curved, form, above = found(z, y, v)
    assert np.abs(slope).max() < 1e-14
    assert np.abs(curved).max() < 1e-14
    assert form >= 0  # convex
    assert above.min() >= 0


def test_the_floors_are_reached():
    loss, laws = CrossEntropy(), jnp.asarray(LAWS)
    np.testing.assert_allclose(loss(jnp.log(laws), laws), loss.floor(laws), rtol=1e-12)
    np.testing.assert_allclose(Square()(laws, laws), 0.0)
    np.testing.assert_allclose(Logistic()(jnp.array([[800.0]]), jnp.array([[1.0]])), 0.0)


def test_labels_outside_the_domain_get_a_sentence():
    with pytest.raises(ValueError, match="`labels` must lie between 0 and 2, one below the number of outputs; got 3"):
        CrossEntropy().targets([0, 3], (2,), 3, float)
    with pytest.raises(ValueError, match="non-negative and sum to one"):
        CrossEntropy().targets([[0.5, 0.6]], (1,), 2, float)
    with pytest.raises(ValueError, match="are -1 or 1; got 0"):
        Logistic().targets([0, 1], (2,), 1, float)
    with pytest.raises(ValueError, match="takes one output; got 3"):
        Logistic().targets([1, -1], (2,), 3, float)
    with pytest.raises(ValueError, match="`labels` must have shape"):
        Square().targets([1.0, 2.0], (3,), 1, float)

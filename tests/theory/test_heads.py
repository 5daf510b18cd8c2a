"""Closed forms of the theory of heads: cases that can be done by hand."""

import jax.numpy as jnp
import numpy as np

from measureflow.theory import heads


def test_a_uniform_head_averages_the_past():
    x = np.arange(6.0).reshape(3, 2)
    zero, one = np.zeros((2, 1)), np.eye(2)
    seen = heads.features(x, zero, zero, one, one, one)
    np.testing.assert_allclose(seen, [[0, 1], [1, 2], [2, 3]])


def test_the_softmax_jacobian_at_a_fair_coin_has_eigenvalue_one_half():
    np.testing.assert_allclose(
        np.linalg.eigvalsh(heads.softmax_jacobian(np.array([0.5, 0.5, 0.0]))), [0, 0, 0.5], atol=1e-16
    )


def test_cross_entropy_of_equal_logits_is_the_logarithm_of_the_vocabulary():
    np.testing.assert_allclose(heads.cross_entropy(np.array([0, 2]), jnp.zeros((2, 3))), 2 * np.log(3), rtol=1e-15)


def test_gap_bounds_start_at_the_gap_and_obey_their_equation():
    for alpha in (0.5, 0.75):
        rates = jnp.linspace(0.0, 1.0, 4001)
        bound = heads.gap_bound(0.2, 3.0, alpha, rates)
        np.testing.assert_allclose(bound[0], 0.2, rtol=1e-14)
        slope = np.gradient(np.asarray(bound), np.asarray(rates))[1:-1]
        # Central differences: third derivative times the square of the spacing.
        np.testing.assert_allclose(slope, -2 * 3.0 * bound[1:-1] ** (2 * alpha), rtol=1e-5)
    assert heads.decay_exponent(0.75) == -2


def test_bounds_by_hand():
    assert heads.feature_bound(2.0, 3.0, 0.5) == 9
    np.testing.assert_allclose(heads.jacobian_bound(1.0, 1.0, 1.0, 2.0), np.sqrt(3))
    np.testing.assert_allclose(heads.static_gap_bound(4, 1.0, 16), np.sqrt(2))
    assert heads.sharp_static_gap_bound(4, 2.0, 2) == 2
    assert heads.zero_head_rate(0.5, 0.5) == 0
    np.testing.assert_allclose(heads.contraction(0.5, 2.0), np.exp(-2))


def test_the_zero_head_matrix_of_one_token():
    G = heads.zero_head_matrix(np.array([[[2.0]]]), np.array([[0]]), np.array([[1.0, -1.0]]))
    np.testing.assert_allclose(G, [[2.0 * (0.5 - 1) - 2.0 * 0.5]])

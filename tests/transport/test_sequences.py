"""Sequences are compared position by position, and refine to masked mean-field attention."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import measureflow as mf
from measureflow import transport

LINE, PLANE = mf.Euclidean(1), mf.Euclidean(2)
ROUNDING = 1e-12
"""Sums of few terms of order one in float64."""


def points(n, seed=0):
    return np.random.default_rng(seed).normal(size=(n, 2))


@pytest.mark.parametrize("p", [1, 2])
def test_distinct_positions_are_compared_without_matching(p):
    xs, ys = points(10), points(10, 1)
    expected = np.mean(np.linalg.norm(xs - ys, axis=1) ** p) ** (1 / p)
    assert abs(transport.conditional(mf.Sequence(PLANE, xs), mf.Sequence(PLANE, ys), p) - expected) < ROUNDING
    # Matching would exchange two tokens for nothing.
    swapped = xs[[1, 0, *range(2, 10)]]
    assert transport.conditional(mf.Sequence(PLANE, xs), mf.Sequence(PLANE, swapped), p) > 0.1
    assert transport.wasserstein(mf.Particles(PLANE, xs), mf.Particles(PLANE, swapped), p) < 1e-7


def test_the_order_in_which_tokens_are_listed_does_not_matter():
    xs, ys, order = points(10), points(10, 1), np.random.default_rng(2).permutation(10)
    positions, weights = np.arange(10) / 10, np.arange(1.0, 11)
    one = mf.Sequence(PLANE, xs, positions, weights)
    shuffled = mf.Sequence(PLANE, xs[order], positions[order], weights[order])
    other = mf.Sequence(PLANE, ys, positions, weights)
    assert abs(transport.conditional(shuffled, other) - transport.conditional(one, other)) < ROUNDING
    assert transport.conditional(one, shuffled) == 0


def test_equal_positions_are_matched_as_conditional_laws():
    xs, ys = points(12), points(9, 1)
    mu = mf.Sequence(PLANE, xs, np.repeat([0.2, 0.7, 1.0], 4))
    nu = mf.Sequence(PLANE, ys, np.repeat([0.2, 0.7, 1.0], 3))
    parts = [transport.wasserstein(mf.Particles(PLANE, x), mf.Particles(PLANE, y)) ** 2 for x, y in
             zip(xs.reshape(3, 4, 2), ys.reshape(3, 3, 2), strict=True)]  # fmt: skip
    assert abs(transport.conditional(mu, nu) - np.sqrt(np.mean(parts))) < ROUNDING
    tokens = transport.wasserstein(mu.tokens, nu.tokens)
    assert tokens < transport.conditional(mu, nu)  # one coupling among more


def test_one_position_is_no_condition():
    mu, nu = (mf.Sequence(PLANE, points(n, n), np.ones(n)) for n in (7, 5))
    assert abs(transport.conditional(mu, nu) - transport.wasserstein(mu.tokens, nu.tokens)) < ROUNDING


def test_other_positions_or_other_masses_there_are_infinitely_far():
    xs = points(4)
    here = mf.Sequence(PLANE, xs)
    assert transport.conditional(here, mf.Sequence(PLANE, xs, [0.1, 0.2, 0.3, 0.4])) == jnp.inf
    assert transport.conditional(here, mf.Sequence(PLANE, points(8))) == jnp.inf
    assert transport.conditional(here, mf.Sequence(PLANE, xs, weights=[1.0, 1, 1, 2])) == jnp.inf


def test_masked_layers_refine_at_first_order():
    # Without scores x_s = s is an eigenfunction of the mean of the past, with eigenvalue 1/2.
    def error(n):
        s = np.arange(1, n + 1)[:, None] / n
        path = mf.layers(mf.Causal(mf.SoftmaxAttention([[0.0]], [[1.0]])), mf.Sequence(LINE, s), 3, 0.5)
        return transport.conditional(path.final, mf.Sequence(LINE, s * 1.25**3))

    assert abs(np.log2(error(40) / error(80)) - 1) < 0.01  # exactly 1/(2n) for each mean, so only rounding is left


def test_what_is_no_sequence_on_one_space_is_refused_with_a_sentence():
    mu = mf.Sequence(PLANE, points(4))
    with pytest.raises(ValueError, match="needs one space"):
        transport.conditional(mu, mf.Sequence(LINE, np.ones((4, 1))))
    with pytest.raises(ValueError, match="for frame in path"):
        jax.jit(transport.conditional)(mu, mu)


def test_couplings_keep_double_precision_where_only_this_thread_has_it():
    with jax.enable_x64(False), jax.enable_x64(True):
        mu, nu = (mf.Particles(PLANE, points(20, seed)) for seed in (0, 1))
        inside = jax.jit(transport.wasserstein)(mu, nu)
        assert inside.dtype == jnp.float64
        assert abs(inside - transport.coupling(mu, nu).distance) < ROUNDING

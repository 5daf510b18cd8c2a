"""Shares of a token's own attention against sums over tokens and over Poisson points."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from measureflow.theory import context


def test_equal_angles_have_the_share_of_a_softmax():
    scores = np.full(50, 3.0 * 0.4)
    scores[0] = 3.0
    share = np.exp(scores[0]) / np.exp(scores).sum()
    np.testing.assert_allclose(context.equiangular_share(50, 3.0, 0.4), share, rtol=1e-12)


@pytest.mark.parametrize("dim", [2, 3, 4])
def test_uniform_shares_are_those_of_poisson_points(dim):
    m, scale, rng = dim - 1, 0.7, np.random.default_rng(dim)
    area = {2: 2 * np.pi, 3: 4 * np.pi, 4: 2 * np.pi**2}[dim]
    side, density = 12.0, scale ** (-m / 2) / area
    seen = []
    for count in rng.poisson(density * side**m, 20000):
        points = rng.uniform(-side / 2, side / 2, (count, m))
        seen.append(1 / (1 + np.exp(-(points**2).sum(1) / 2).sum()))
    found = float(jax.jit(lambda c: context.uniform_share(c, dim))(scale))
    assert abs(found - np.mean(seen)) < 5 * np.std(seen) / np.sqrt(len(seen))


def test_far_below_the_critical_scale_the_others_are_their_mean():
    # X is then n times a Gaussian integral, with a spread of order (mean X)^{1/2}: parts of 1 / mean X are left.
    scales = jnp.asarray([1e-6, 1e-4])
    mean = (2 * np.pi / scales) / (4 * np.pi)
    np.testing.assert_allclose(context.uniform_share(scales, 3) * mean, 1.0, atol=2e-4)


def test_far_above_it_a_token_is_alone():
    np.testing.assert_allclose(context.uniform_share(1e8, 3), 1.0, atol=1e-7)


def test_a_line_has_no_sphere():
    with pytest.raises(ValueError, match="`dim` must be at least 2; got 1"):
        context.uniform_share(1.0, 1)

"""Geodesics have constant speed, and mixtures do not move."""

import jax.numpy as jnp
import numpy as np
import pytest

import measureflow as mf
from measureflow import transport

SPACES = [mf.Euclidean(1), mf.Euclidean(3), mf.Ball(2, 1.5), mf.Sphere(2), mf.Sphere(3)]
ROUNDING = 1e-12
"""Sums of fewer than a hundred terms of order one in float64."""


def clouds(space):
    rng = np.random.default_rng(0)
    return [mf.Particles(space, mf.Particles.iid(space, n, key=n).points, rng.random(n) + 0.1) for n in (20, 15)]


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("space", SPACES, ids=str)
def test_geodesics_have_constant_speed(space, p):
    mu, nu = clouds(space)
    best = transport.coupling(mu, nu, p)
    for s, t in ((0.0, 1.0), (0.2, 0.5), (0.5, 0.9)):
        between = transport.wasserstein(best.geodesic(s), best.geodesic(t), p)
        assert abs(between - (t - s) * best.distance) < ROUNDING
    # The ends are the measures themselves; the p-th root of rounding is all that may remain.
    assert transport.wasserstein(best.geodesic(0), mu, p) < 1e-7
    assert transport.wasserstein(best.geodesic(1), nu, p) < 1e-7


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_a_coupling_has_its_marginals(space):
    mu, nu = clouds(space)
    best = transport.coupling(mu, nu)
    assert len(best.masses) <= len(mu.points) + len(nu.points) - 1
    for index, measure in ((best.sources, mu), (best.targets, nu)):
        assert np.allclose(np.bincount(index, best.masses), measure.weights, rtol=0, atol=ROUNDING)


def test_the_cost_of_a_mixture_is_linear_and_not_quadratic():
    mu, nu = clouds(mf.Euclidean(2))
    # Only the share t has to move, so W_2^2 grows linearly at most: at one half it is W_2^2 / 2 and not W_2^2 / 4.
    whole = transport.wasserstein(mu, nu)
    half = transport.wasserstein(mu, transport.mixture(mu, nu, 0.5))
    assert whole / 2 < half <= whole * np.sqrt(0.5) + ROUNDING
    far = nu.shift(jnp.full_like(nu.points, 1e4))
    ratio = transport.wasserstein(mu, transport.mixture(mu, far, 0.5)) / transport.wasserstein(mu, far)
    assert abs(ratio - np.sqrt(0.5)) < 1e-3  # the size of the clouds over their distance


def test_mixtures_average_and_geodesics_do_not():
    mu, nu = clouds(mf.Euclidean(2))
    square = lambda m: m.weights @ (m.points**2).sum(-1)  # noqa: E731
    mean = 0.7 * square(mu) + 0.3 * square(nu)
    assert abs(square(transport.mixture(mu, nu, 0.3)) - mean) < ROUNDING
    # E|(1 - t) x + t y|^2 = (1 - t) E|x|^2 + t E|y|^2 - t (1 - t) W_2^2.
    best = transport.coupling(mu, nu)
    assert abs(square(best.geodesic(0.3)) - (mean - 0.21 * best.cost)) < ROUNDING


def test_the_ends_of_a_mixture_are_the_measures():
    mu, nu = clouds(mf.Sphere(3))
    assert transport.mixture(mu, nu, 0) is mu
    assert transport.mixture(mu, nu, 1) is nu


def test_antipodal_points_have_no_geodesic():
    mu, nu = (mf.Particles(mf.Sphere(3), [[0.0, 0.0, z]]) for z in (1.0, -1.0))
    with pytest.raises(ValueError, match="antipodal"):
        transport.coupling(mu, nu).geodesic(0.5)

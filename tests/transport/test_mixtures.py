"""Mixtures are moved component by component."""

import numpy as np
import pytest

import measureflow as mf
from measureflow import transport

MEANS = np.array([[0.0, 0.0], [3.0, 1.0], [-2.0, 2.0]])
COVS = np.stack([np.eye(2), np.diag([0.5, 2.0]), [[1.0, 0.3], [0.3, 0.4]]])
WEIGHTS = np.array([0.5, 0.2, 0.3])
MIXTURE = mf.GaussianMixture(WEIGHTS, MEANS, COVS)
ROUNDING = 1e-12
"""Sums of few terms of order ten in float64."""


def test_single_components_have_the_distance_of_gaussians():
    one, other = (mf.GaussianMixture([1.0], MEANS[i : i + 1], COVS[i : i + 1]) for i in (0, 2))
    gaussians = [mf.Gaussian(MEANS[i], COVS[i]) for i in (0, 2)]
    assert abs(transport.mixture_distance(one, other) - transport.wasserstein(*gaussians)) < ROUNDING


def test_a_shift_moves_every_component():
    shifted = mf.GaussianMixture(WEIGHTS[[2, 0, 1]], MEANS[[2, 0, 1]] + [0.3, -0.4], COVS[[2, 0, 1]])
    assert abs(transport.mixture_distance(MIXTURE, shifted) - 0.5) < ROUNDING


def test_the_distance_lies_between_that_of_the_moments_and_a_bound():
    other = mf.GaussianMixture([0.6, 0.4], [[1.0, 1.0], [-1.0, -2.0]], COVS[:2])
    above = transport.mixture_distance(MIXTURE, other)
    below = transport.wasserstein(*(mf.Gaussian(m.mean, m.cov) for m in (MIXTURE, other)))
    sampled = transport.wasserstein(*(m.sample(1000, key=seed) for seed, m in enumerate((MIXTURE, other))))
    noise = 4 * np.sqrt(np.log(1000) / 1000)  # two samples in the plane, in units of a spread of two
    assert below - noise < sampled < above + noise
    assert below < above


def test_what_is_no_mixture_is_refused_with_a_sentence():
    with pytest.raises(TypeError, match="`nu` must be a GaussianMixture"):
        transport.mixture_distance(MIXTURE, mf.Gaussian(MEANS[0], COVS[0]))
    with pytest.raises(TypeError, match="use `transport"):
        transport.wasserstein(MIXTURE, MIXTURE)
    with pytest.raises(ValueError, match="needs one space"):
        transport.mixture_distance(MIXTURE, mf.GaussianMixture([1.0], [[0.0]], [[[1.0]]]))

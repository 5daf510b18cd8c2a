"""Modes of density estimates on the line are counted exactly."""

import numpy as np
import pytest

import measureflow as mf
from measureflow.diagnostics import line_modes, modes


def dense_count(places, beta, weights=None):
    """Sign changes of the slope on a grid of two hundred points per bandwidth, with all tokens at every point."""
    h = beta**-0.5
    t = np.arange(places.min() - h, places.max() + h, h / 200)
    u = (t[:, None] - places) / h
    kernel = np.exp((u**2).min(1, keepdims=True) / 2 - u**2 / 2) * (1.0 if weights is None else weights)
    slope = -(u * kernel).sum(1)
    signs = np.sign(slope[np.abs(slope) > 1e-13])
    return int(((signs[:-1] > 0) & (signs[1:] < 0)).sum())


@pytest.mark.parametrize("beta", [0.5, 5.0, 50.0, 500.0])
def test_counts_agree_with_a_very_fine_grid(beta):
    rng = np.random.default_rng(int(beta))
    for _ in range(5):
        places, weights = np.sort(rng.normal(size=40)), rng.uniform(0.2, 3.0, 40)
        assert len(line_modes(places, beta)) == dense_count(places, beta)
        assert len(line_modes(places, beta, weights)) == dense_count(places, beta, weights)


def test_two_tokens_are_two_modes_beyond_two_bandwidths():
    for away in (1e-2, 1e-4, 1e-6):
        assert len(line_modes([0.0, 2 + away], 1.0)) == 2
        assert len(line_modes([0.0, 2 - away], 1.0)) == 1
    assert len(line_modes([0.0, 2.0], 1.0)) == 1  # a top of the fourth order


def test_a_nearly_flat_shoulder_hides_no_pair_of_zeros():
    """A light token beside a heavy one gains its mode at a distance that a search finds; on both sides the count is right."""

    def count(distance):
        return len(line_modes([0.0, distance], 1.0, [1.0, 0.05]))

    low, high = 2.0, 5.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if count(middle) == 1 else (low, middle)
    # At the edge the slope of the estimate and its derivative vanish at one point of the shoulder.
    t = np.linspace(1.5, high, 200_001)
    slope = -t * np.exp(-(t**2) / 2) - 0.05 * (t - high) * np.exp(-((t - high) ** 2) / 2)
    assert abs(slope[t > 2].max()) < 1e-9
    assert count(high + 1e-9) == 2
    assert count(low - 1e-9) == 1


def test_places_of_modes_are_zeros_of_the_slope():
    rng = np.random.default_rng(3)
    places = np.sort(rng.normal(size=200))
    t = line_modes(places, 100.0)
    u = 10 * (t[:, None] - places)
    slope = (u * np.exp(-(u**2) / 2)).sum(1)
    np.testing.assert_allclose(slope, 0.0, atol=1e-10)  # rounding of places times the curvature
    assert ((u**2 - 1) * np.exp(-(u**2) / 2)).sum(1).max() < 0


def test_gaps_without_cells_hide_nothing():
    places = np.array([0.0, 4.5, 9.5, 1000.0, 1001.0, 1e6])
    assert len(line_modes(places, 1.0)) == 5
    np.testing.assert_allclose(line_modes(places, 1.0)[[2, 3, 4]], [9.5, 1000.5, 1e6], atol=1e-4)


def test_measures_are_counted_with_their_weights_and_ties():
    mu = mf.Particles(mf.Euclidean(1), [[2.0], [0.0], [0.0]])
    np.testing.assert_allclose(modes(mu, 4.0), line_modes([0.0, 2.0], 4.0, [2.0, 1.0]))
    assert len(modes(mf.Particles(mf.Euclidean(1), [[3.0], [3.0]]), 1.0)) == 1


@pytest.mark.parametrize(
    ("mu", "beta", "words"),
    [
        (mf.Particles.iid(mf.Euclidean(2), 3, key=0), 1.0, "`mu` must be tokens on the line"),
        (mf.Particles.iid(mf.Sphere(2), 3, key=0), 1.0, "`mu` must be tokens on the line"),
        (mf.Particles.iid(mf.Euclidean(1), 3, key=0), -1.0, "`beta` must be positive"),
        (mf.Particles.iid(mf.Euclidean(1), 3, key=0), np.inf, "`beta` has 1 NaN or infinite"),
    ],
)
def test_what_has_no_modes_on_the_line_is_refused(mu, beta, words):
    with pytest.raises(ValueError, match=words):
        modes(mu, beta)

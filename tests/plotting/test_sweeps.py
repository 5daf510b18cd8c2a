"""Pictures of sweeps: means, their bands and the scales of axes."""

import numpy as np

from measureflow.plotting.sweeps import Axis, mean_and_half


def test_bands_are_standard_errors_of_means_and_axes_know_their_scale():
    samples = np.array([[1.0, 3.0, 5.0], [2.0, np.nan, 2.0], [np.nan] * 3])
    mean, half = mean_and_half(samples)
    np.testing.assert_allclose(mean, [3.0, 2.0, np.nan])
    np.testing.assert_allclose(half, [1.96 * 2.0 / np.sqrt(3), 0.0, np.nan])
    assert Axis("n", [4, 8, 16, 32]).logarithmic
    assert Axis("n", [2, 3, 4, 6, 8, 12, 16]).logarithmic
    assert not Axis("beta", [0.1, 1.1, 2.1, 3.1]).logarithmic
    assert not Axis("beta", [0.0, 1.0, 10.0]).logarithmic
    np.testing.assert_allclose(Axis("n", [1, 4, 16]).edges, [0.5, 2, 8, 32])
    np.testing.assert_allclose(Axis("n", [1, 2, 3]).edges, [0.5, 1.5, 2.5, 3.5])

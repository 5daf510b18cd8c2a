"""Clusters against SciPy's hierarchy, and the order parameter."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.cluster.hierarchy import fcluster, linkage

import measureflow as mf
from measureflow import diagnostics


def on_circle(angles):
    return mf.Particles(mf.Sphere(2), np.stack([np.cos(angles), np.sin(angles)], -1))


def test_four_tokens_on_the_circle_form_two_clusters():
    found = diagnostics.clusters(on_circle([0.0, 0.05, 0.1, 3.0]), 0.06)
    np.testing.assert_array_equal(found.labels, [0, 0, 0, 1])
    np.testing.assert_array_equal(found.sizes, [3, 1])
    np.testing.assert_allclose(found.masses, [0.75, 0.25], rtol=1e-14)
    np.testing.assert_allclose(found.centres[0], [np.cos(0.05), np.sin(0.05)], rtol=1e-14)


def test_a_hop_of_just_the_tolerance_links_and_a_longer_one_does_not():
    pair = on_circle([0.0, 0.5])
    assert len(diagnostics.clusters(pair, 0.5 + 1e-12).sizes) == 1
    assert len(diagnostics.clusters(pair, 0.5 - 1e-12).sizes) == 2


@pytest.mark.parametrize("tolerance", [0.02, 0.1, 0.3, 4.0])
def test_clusters_agree_with_the_hierarchy_of_scipy(space, tolerance):
    mu = mf.Particles.iid(space, 200, key=0)
    expected = fcluster(linkage(mu.points, "single"), float(space.chord(tolerance)), "distance")
    labels = diagnostics.clusters(mu, tolerance).labels
    pairs = {(a, b) for a, b in zip(labels, expected, strict=True)}
    assert len(pairs) == len(set(labels)) == len(set(expected))


def test_the_heaviest_cluster_comes_first():
    mu = mf.Particles(mf.Euclidean(1), [[0.0], [5.0], [5.01], [9.0]], [1.0, 1.0, 1.0, 7.0])
    np.testing.assert_allclose(diagnostics.clusters(mu, 0.1).masses, [0.7, 0.2, 0.1], rtol=1e-14)


def test_merge_times_enclose_the_moment_two_tokens_meet():
    rho = -0.3
    start = on_circle([0.0, np.arccos(rho)])
    times = jnp.linspace(0.0, 6.0, 61)
    path = mf.evolve(mf.SoftmaxAttention.isotropic(2, 0.0), start, times)
    # At beta = 0 the overlap is tanh(t + atanh(rho)); the tokens are 0.1 apart when it is cos(0.1).
    met = np.arctanh(np.cos(0.1)) - np.arctanh(rho)
    (change,) = diagnostics.merge_times(path, 0.1)
    assert change.clusters == 1
    assert change.after <= met <= change.before
    assert change.before - change.after == pytest.approx(0.1)


def test_the_order_parameter_is_one_at_consensus_and_zero_for_a_polygon():
    assert diagnostics.order_parameter(on_circle([1.0, 1.0])) == pytest.approx(1.0)
    assert diagnostics.order_parameter(on_circle(np.arange(5) * 2 * np.pi / 5)) == pytest.approx(0.0, abs=1e-15)


def test_overlaps_of_a_square_are_two_thirds_right_angles():
    masses, edges = diagnostics.overlap_histogram(on_circle(np.arange(4) * np.pi / 2), bins=5)
    # Of the three other corners two are at a right angle and one is opposite.
    np.testing.assert_allclose(masses, [1 / 3, 0, 2 / 3, 0, 0], atol=1e-14)
    np.testing.assert_allclose(edges[[0, -1]], [-1, 1])


def test_overlaps_in_blocks_agree_with_all_pairs_at_once():
    mu = mf.Particles.iid(mf.Sphere(3), 1500, key=0)
    masses, edges = diagnostics.overlap_histogram(mu, bins=20)
    upper = np.triu_indices(1500, 1)
    counts = np.histogram((np.asarray(mu.points) @ np.asarray(mu.points).T)[upper], edges)[0]
    np.testing.assert_allclose(masses, counts / counts.sum(), atol=1e-12)


def test_a_tolerance_of_zero_is_refused():
    with pytest.raises(ValueError, match="`tolerance` must be positive"):
        diagnostics.clusters(on_circle([0.0, 1.0]), 0.0)

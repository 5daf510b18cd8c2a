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


OUTLIERS = [[0.0, 0.0], [0.0, 2.0], [2.5, 0.3], [0.4, -2.0]]


def blobs(width, n=60):
    """Three equal blobs around the corners of a triangle with sides of 1.7."""
    turn = 2 * np.pi * np.arange(n) / 3
    return np.stack([np.cos(turn), np.sin(turn)], -1) + width * np.random.default_rng(0).normal(size=(n, 2))


def count(points, space=None):
    return len(diagnostics.clusters(mf.Particles(space or mf.Euclidean(np.shape(points)[1]), points)).sizes)


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e300])
def test_three_blobs_are_three_clusters_at_every_scale_with_and_without_outliers(scale):
    for cloud in (blobs(0.1), np.concatenate([blobs(0.1), OUTLIERS])):
        found = diagnostics.clusters(mf.Particles(mf.Euclidean(2), scale * cloud))
        np.testing.assert_array_equal(found.sizes, [20, 20, 20])
        np.testing.assert_array_equal(found.labels[60:], -1)
    assert count(scale * blobs(0.002)) == 3
    assert count(np.concatenate([blobs(0.05), [[1e6, 0.0]]])) == 3


def test_a_few_tokens_together_are_a_cluster_beside_others_and_two_are_not():
    near = np.array([[0.0, 0.02], [0.01, -0.01], [-0.02, 0.0]])
    assert count(np.concatenate([blobs(0.1), near])) == 4
    assert count(np.concatenate([blobs(0.1), near[:2]])) == 3


def test_a_token_outside_a_blob_does_not_end_it():
    alone = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        blobs = np.repeat([[0.0, 0.0], [2.0, 0.0]], 20, axis=0) + 0.14 * rng.normal(size=(40, 2))
        cloud = mf.Particles(mf.Euclidean(2), np.concatenate([blobs, [[0.0, 0.8]]]))
        labels = mf.diagnostics.clusters(cloud).labels
        alone.append(labels[-1] == -1 and (labels[:40] >= 0).all() and labels.max() == 1)
    # The gap of a blob is that to the other one, three times its width and more; that to the token is less.
    assert np.mean(alone) > 0.8


def test_a_bridge_of_tokens_does_not_join_blobs():
    bridge = np.linspace([1.0, 0.0], [-0.5, 0.87], 12)[2:-2]
    cloud = np.concatenate([blobs(0.05), bridge])
    assert count(cloud) == 3
    assert len(diagnostics.clusters(mf.Particles(mf.Euclidean(2), cloud), 0.25).sizes) == 2


def test_a_collapsed_cloud_is_one_cluster_and_scattered_tokens_are_none():
    rng = np.random.default_rng(0)
    angles = rng.uniform(0, 2 * np.pi, 300)
    assert count(on_circle(angles).points, mf.Sphere(2)) == 0
    assert count(on_circle(angles / 50).points, mf.Sphere(2)) == 1
    assert count(on_circle(np.append(angles[:40] / 50, [3.0, 4.0])).points, mf.Sphere(2)) == 1
    assert count(np.ones((5, 2))) == count(np.zeros((5, 2))) == count([[1.0]]) == 1
    assert count(rng.normal(size=(200, 3))) == 0
    assert count(5e8 + rng.normal(size=(200, 3))) == 1


def test_scattered_tokens_seldom_look_like_clusters():
    rng = np.random.default_rng(1)
    spaces = (mf.Sphere(2), mf.Sphere(3), mf.Euclidean(1), mf.Euclidean(3))
    keys = rng.integers(1000, size=25).tolist()
    seen = [count(mf.Particles.iid(space, 64, key=key).points, space) for space in spaces for key in keys]
    # A twentieth of the clouds may; 12 of 100 are more than three standard deviations above that.
    assert np.count_nonzero(seen) < 12


def test_a_cloud_that_shrinks_has_collapsed_at_the_scale_of_its_start():
    mu = mf.Particles(mf.Euclidean(2), 1e-6 * np.random.default_rng(0).normal(size=(50, 2)))
    assert len(diagnostics.clusters(mu).sizes) == 0
    assert len(diagnostics.clusters(mu, size=1.0).sizes) == 1


def test_many_tokens_are_told_by_some_of_them():
    many = blobs(0.05, n=3000)
    found = diagnostics.clusters(mf.Particles(mf.Euclidean(2), many))
    np.testing.assert_array_equal(found.sizes, [1000, 1000, 1000])


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

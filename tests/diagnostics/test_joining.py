"""Mergers are found when they happen, and make a tree."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.cluster import hierarchy
from scipy.spatial.distance import pdist

import measureflow as mf
from measureflow import diagnostics


def on_circle(angles):
    return mf.Particles(mf.Sphere(2), np.stack([np.cos(angles), np.sin(angles)], 1))


def test_heights_are_those_of_the_single_linkage_tree():
    points = np.random.default_rng(0).normal(size=(12, 3))
    found = diagnostics.heights(mf.Particles(mf.Euclidean(3), points))
    expected = hierarchy.linkage(pdist(points), "single")[::-1, 2]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


ANGLES = np.array([0.0, 0.3, 1.0, 1.9, 2.9])
FIELD = mf.SoftmaxAttention.isotropic(2, beta=4.0)


@pytest.fixture(scope="module")
def path():
    return mf.evolve(FIELD, on_circle(ANGLES), jnp.linspace(0.0, 30.0, 31), events=diagnostics.Linkage(0.05))


def test_mergers_make_a_tree(path):
    tree = diagnostics.mergers(path, 0.05)
    assert "4 of 5 groups, 1 left" in repr(tree)
    np.testing.assert_array_equal(tree.labels, np.arange(5))
    np.testing.assert_array_equal(tree.pairs[0], [0, 1])  # the closest pair is first
    assert tree.sizes[-1] == 5
    assert hierarchy.is_valid_linkage(tree.linkage)
    times = [change.after for change in diagnostics.merge_times(path, 0.05)]
    np.testing.assert_array_equal(times, tree.times)
    # What the frames enclose.
    frames = diagnostics.changes(np.asarray(path.times), diagnostics.cluster_counts(path, 0.05))
    for located, enclosed in zip(times, frames, strict=True):
        assert enclosed.after <= located <= enclosed.before


def test_merge_times_are_as_sharp_as_the_solver(path):
    sharper = mf.evolve(
        FIELD, on_circle(ANGLES), path.times, mf.Adaptive(1e-9, 1e-11), events=diagnostics.Linkage(0.05)
    )
    np.testing.assert_allclose(path.events.times, sharper.events.times, rtol=1e-7)


def test_tokens_that_part_again_have_not_merged():
    """Between two heavy clusters, tokens near the watershed are close at first and end apart."""
    angles = np.array([-0.8, -0.01, 0.01, 0.8])
    mu = mf.Particles(mf.Sphere(2), on_circle(angles).points, [10.0, 1.0, 1.0, 10.0])
    field = mf.SoftmaxAttention.isotropic(2, beta=9.0)
    path = mf.evolve(field, mu, jnp.linspace(0.0, 10.0, 31), events=diagnostics.Linkage(0.1))
    tree = diagnostics.mergers(path, 0.1)
    assert len(path.events) == 3  # one parting, two mergers
    np.testing.assert_allclose(tree.times, path.events.times[1:])
    np.testing.assert_array_equal(tree.labels, np.arange(4))
    np.testing.assert_array_equal(np.sort(tree.pairs), [[0, 1], [2, 3]])
    with pytest.raises(ValueError, match="2 groups have not met"):
        _ = tree.linkage


def test_the_tree_is_drawn_over_time(path):
    axes = diagnostics.mergers(path, 0.05).plot(log=True).axes[0]
    assert axes.get_xscale() == "log"
    assert axes.get_xlim()[1] == 30.0


def test_other_events_are_refused(path):
    with pytest.raises(ValueError, match="not those of `Linkage"):
        diagnostics.mergers(path, 0.06)
    with pytest.raises(ValueError, match="evolve it with `events="):
        diagnostics.mergers(mf.layers(FIELD, on_circle(ANGLES), 2), 0.05)
    with pytest.raises(ValueError, match="`distance` must be positive"):
        diagnostics.Linkage(0.0)

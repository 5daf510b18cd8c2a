"""Tokens that have met go on as one."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import measureflow as mf
from measureflow.measures.grouping import linked, met

CIRCLE = mf.Sphere(2)


@pytest.fixture(scope="module")
def cloud() -> mf.Particles:
    points = mf.Particles.iid(CIRCLE, 100, key=3).points
    return mf.Particles(CIRCLE, points, weights=np.random.default_rng(0).uniform(0.5, 2.0, 100))


@pytest.fixture(scope="module")
def runs(cloud) -> dict[float | None, mf.Trajectory]:
    field = mf.SoftmaxAttention.isotropic(2, beta=9.0)
    times = [0.0, 2.0, 20.0, 200.0]
    return {merge: mf.evolve(field, cloud, times, merge=merge) for merge in (None, 1e-3, 1e-6)}


def test_merged_runs_follow_the_unmerged_one_within_the_stated_error(runs):
    whole = runs[None].measures.points
    for merge in (1e-3, 1e-6):
        path = runs[merge]
        # Tokens are where they were merged to, so the displacement is part of the difference; a factor 2 for what it causes.
        assert np.abs(path.measures.points - whole).max() <= 2 * path.stats["merge_error"] + 1e-7
        assert 0 < path.stats["merge_error"] < merge * path.stats["steps"]
    assert runs[1e-6].stats["merge_error"] < runs[1e-3].stats["merge_error"]


def test_merging_leaves_one_token_for_each_cluster(runs):
    assert runs[1e-3].stats["tokens"] == len(np.unique(linked(np.asarray(runs[None].final.points), CIRCLE, 1e-2)))


def test_frames_show_all_tokens_with_their_own_weights(runs, cloud):
    path = runs[1e-3]
    assert path.measures.points.shape == (4, 100, 2)
    np.testing.assert_array_equal(path.at(0).points, cloud.points)
    np.testing.assert_array_equal(path.final.weights, cloud.weights)
    np.testing.assert_allclose(np.linalg.norm(path.measures.points, axis=-1), 1, atol=1e-14)


def test_a_merged_run_goes_on_from_its_frames_to_the_same_bits(cloud):
    flow = mf.Flow(mf.SoftmaxAttention.isotropic(2, beta=9.0), cloud, np.linspace(0, 30, 7), merge=1e-3)
    first, second, _ = flow.legs(3)
    again = next(flow.legs(3, since=3, state=first.final))
    assert second.stats["tokens"] < 100
    np.testing.assert_array_equal(again.measures.points, second.measures.points)


def test_implicit_steps_on_merged_tokens_reach_a_million_million():
    mu = mf.Particles.iid(CIRCLE, 24, key=0)
    path = mf.evolve(mf.SoftmaxAttention.isotropic(2, beta=12.0), mu, [0.0, 1e12], mf.Stiff(), merge=1e-5)
    assert path.outcome.ok
    assert path.stats["tokens"] == 1
    np.testing.assert_allclose(path.final.points, jnp.broadcast_to(path.final.points[0], (24, 2)), atol=1e-12)


def test_the_error_estimate_sees_the_merging(cloud):
    path = mf.evolve(mf.SoftmaxAttention.isotropic(2, beta=9.0), cloud, [0.0, 20.0], merge=1e-2, verify=True)
    true = np.abs(
        path.final.points - mf.evolve(mf.SoftmaxAttention.isotropic(2, beta=9.0), cloud, [0.0, 20.0]).final.points
    )
    assert true.max() / 3 < path.stats["error"] < 0.1


def test_tokens_that_part_are_not_merged():
    # On the line x' = x tokens part however near they are.
    line = mf.Euclidean(1)
    near = mf.Particles(line, [[-1e-4], [1e-4]])
    path = mf.evolve(mf.Perceptron([[1.0, -1.0]], [[1.0], [-1.0]], [0.0, 0.0]), near, [0.0, 5.0], merge=1e-2)
    np.testing.assert_allclose(path.final.points[:, 0], np.exp(5) * np.array([-1e-4, 1e-4]), rtol=1e-6)


def test_a_spread_cloud_has_met_nowhere():
    angles = np.linspace(0, 2 * np.pi, 1000, endpoint=False)
    points = np.stack([np.cos(angles), np.sin(angles)], 1)
    labels = met(points, np.full(1000, 1e-3), np.zeros((1000, 2)), CIRCLE, 0.01)
    assert len(np.unique(labels)) == 1000


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"merge": -1.0}, "`merge`"),
        ({"field": mf.Causal(mf.SoftmaxAttention.isotropic(2, 1.0))}, "own past"),
        ({"noise": mf.Langevin(0.1), "solver": mf.Euler(0.1), "key": 0}, "noise parts"),
    ],
)
def test_flows_that_cannot_merge_are_refused(cloud, changes, words):
    arguments = {"field": mf.SoftmaxAttention.isotropic(2, 1.0), "mu0": cloud, "times": [0.0, 1.0], "merge": 1e-3}
    with pytest.raises(ValueError, match=words):
        mf.evolve(**(arguments | changes))


def test_merging_under_jit_is_refused(cloud):
    with pytest.raises(ValueError, match="cannot be traced"):
        jax.jit(
            lambda beta: mf.evolve(mf.SoftmaxAttention.isotropic(2, beta), cloud, [0.0, 1.0], merge=1e-3).final.points
        )(1.0)

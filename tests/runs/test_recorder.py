"""Flows of one's own in run folders: what is observed of them, with the frames or without."""

import jax.numpy as jnp
import numpy as np
import pytest

import measureflow as mf
from measureflow.words import InputError


def observe(mu):
    return {
        "mean": mu.points.mean(0),
        "length": jnp.linalg.norm(mu.points.mean(0)),
        "right": jnp.sum(mu.points[:, 0] > 0),
    }


def flow(**options):
    start = mf.Particles.iid(mf.Sphere(2), 5, key=0)
    return mf.Flow(
        mf.SoftmaxAttention.isotropic(2, 4.0), start, np.linspace(0, 1, 6), mf.Heun(0.1), observe=observe, **options
    )


def stopped_after(frames):
    def watch(job, state):
        if state.frames >= frames:
            raise KeyboardInterrupt

    return watch


def test_what_is_observed_is_recorded_without_the_frames_and_goes_on_to_the_same_bits(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        mf.runs.record(flow(), tmp_path / "run", frames_per_leg=2, watch=stopped_after(2))
    run = mf.runs.record(flow(), tmp_path / "run", resume=True, frames_per_leg=2)
    expected = flow().run().observed
    assert run.observed.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_array_equal(run.observed[name], values)
        assert run.observed[name].dtype == values.dtype
    assert "points" not in run.data
    assert not run.kept
    assert dict(run.table.rows)["length"].startswith(f"{expected['length'][0]:.6g} to ")
    assert {ax.get_ylabel() for ax in run.plot().axes} >= {"length", "right", "number of clusters"}
    for ask in (lambda: run.final, lambda: run.points, lambda: run.movie(tmp_path / "movie.gif")):
        with pytest.raises(InputError, match="not the frames: record the flow with `keep=True`"):
            ask()


def test_frames_are_recorded_beside_what_is_observed_where_both_are_kept(tmp_path):
    run = mf.runs.record(flow(keep=True), tmp_path / "run", frames_per_leg=3)
    np.testing.assert_allclose(run.points.mean(1), run.observed["mean"], rtol=0, atol=1e-15)
    with pytest.raises(InputError, match="its flow was"):
        mf.runs.record(flow(), tmp_path / "run", resume=True, frames_per_leg=3)


def test_events_are_not_recorded(tmp_path):
    with pytest.raises(InputError, match="`events` are not recorded"):
        mf.runs.record(flow(events=lambda mu: mu.points[0, 0]), tmp_path / "run")
    assert not (tmp_path / "run").exists()

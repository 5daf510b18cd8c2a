"""Results in the hand: paths and runs that are drawn, saved, read back and shown in a line."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import measureflow as mf
from measureflow.words.settings import InputError

BUMP = lambda t: (1 + 0.4 * jnp.cos(t)) / (2 * jnp.pi)  # noqa: E731
MEASURES = {
    "tokens": lambda: mf.Particles(mf.Sphere(3), np.eye(3), [1.0, 2.0, 3.0]),
    "sequence": lambda: mf.Sequence(mf.Euclidean(2), np.eye(2), [0.2, 0.7]),
    "gaussian": lambda: mf.Gaussian(np.ones(2), np.eye(2)),
    "mixture": lambda: mf.GaussianMixture([0.3, 0.7], np.eye(2), np.stack([np.eye(2)] * 2)),
    "circle": lambda: mf.CircleDensity.from_function(BUMP, 8),
    "cells": lambda: mf.CircleCells(np.asarray(BUMP(2 * np.pi * np.arange(32) / 32))),
}


def path_of(start):
    """Three frames of a measure that does not move: nothing here depends on how it does."""
    return mf.flows.Trajectory(
        times=jnp.array([0.0, 0.5, 1.0]),
        kept=jax.tree.map(lambda leaf: jnp.stack([leaf, leaf, leaf]), start),
        final=start,
        outcome=mf.flows.Outcome(jnp.asarray(0), jnp.asarray(1.0), jnp.asarray(0.25)),
        frames=jnp.asarray(3),
        costs={"steps": jnp.asarray(7), "rejected": jnp.asarray(0), "error": jnp.asarray(3e-9)},
        engine="dense",
    )


@pytest.fixture(scope="module")
def path():
    start = mf.Particles.iid(mf.Sphere(3), 12, key=0)
    return mf.evolve(mf.SoftmaxAttention.isotropic(3, 4.0), start, [0.0, 0.5, 1.0, 2.0], verify=True)


@pytest.mark.parametrize("name", MEASURES)
def test_a_saved_path_is_read_back_to_the_same_bits(name, tmp_path):
    path = path_of(MEASURES[name]())
    again = mf.load(path.save(tmp_path / "path.npz"))
    assert jax.tree.structure(again.measures) == jax.tree.structure(path.measures)
    for was, now in zip(jax.tree.leaves(path), jax.tree.leaves(again), strict=True):
        np.testing.assert_array_equal(was, now)
        assert was.dtype == now.dtype
    assert repr(again) == repr(path)
    assert again.engine == path.engine


def test_what_was_observed_is_saved_too(tmp_path):
    start = mf.Particles.iid(mf.Sphere(3), 4, key=0)
    observe = lambda mu: {"mean": mu.points.mean(0), "size": jnp.sum(mu.points**2)}  # noqa: E731
    path = mf.evolve(mf.SoftmaxAttention.isotropic(3), start, [0.0, 0.5, 1.0], observe=observe, keep=True)
    again = mf.load(path.save(tmp_path / "path.npz"))
    np.testing.assert_array_equal(again.observed["mean"], path.observed["mean"])
    np.testing.assert_array_equal(path.to_xarray()["observed.size"], path.observed["size"])


def test_a_path_in_a_line():
    assert repr(path_of(MEASURES["tokens"]())) == (
        "Trajectory(3 frames, t = 0 to 1, 3 tokens on S², reached t = 1 in 7 steps, error 3e-09)"
    )
    assert repr(MEASURES["gaussian"]()) == "Gaussian(A Gaussian on R²)"
    assert repr(mf.SoftmaxAttention.isotropic(3, 4.0)) == "SoftmaxAttention(interaction=4 I, value=1 I)"
    assert "\n" not in repr(mf.MultiHead([mf.SoftmaxAttention.isotropic(3, 4.0)] * 2) + mf.LinearAttention.isotropic(3))


def test_frames_by_index_slice_and_time(path):
    assert path.points.shape == (4, 12, 3)
    np.testing.assert_array_equal(path[2].points, path.points[2])
    np.testing.assert_array_equal(path.at(time=0.5).points, path.points[1])
    part = path[1:3]
    assert len(part) == part.frames == 2
    np.testing.assert_array_equal(part.points, path.points[1:3])
    with pytest.raises(ValueError, match=r"no frame at t = 1.5; the nearest is frame 2 at t = 1"):
        path.at(time=1.5)
    with pytest.raises(TypeError, match="one of the two"):
        path.at(1, time=0.5)
    with pytest.raises(TypeError, match="`points` are those of tokens"):
        _ = path_of(MEASURES["gaussian"]()).points


def test_a_path_as_xarray(path):
    data = path.to_xarray()
    assert dict(data.sizes) == {"time": 4, "token": 12, "coordinate": 3}
    np.testing.assert_array_equal(data.points.sel(time=0.5), path.points[1])
    assert data.attrs["outcome"] == "Reached t = 2."
    assert data.attrs["error"] == path.stats["error"]


def test_a_host_function_is_mapped_frame_by_frame(path):
    counts = path.map(lambda mu: len(mf.diagnostics.clusters(mu, 0.3).sizes))
    np.testing.assert_array_equal(counts, [len(mf.diagnostics.clusters(mu, 0.3).sizes) for mu in path])
    ragged = path.map(lambda mu: np.asarray(mf.diagnostics.clusters(mu, 0.3).sizes))
    assert len(ragged) == 4


def test_a_path_is_drawn_with_what_is_asked_for(path, tmp_path):
    figure = path.plot(
        energy=mf.InteractionEnergy(4.0),
        series={"height": lambda mu: mu.points[0, 2], "index": np.arange(4)},
        title="Mine",
    )
    labels = {ax.get_ylabel() for ax in figure.subfigs[1].axes}
    assert {"height", "index"} <= labels
    assert any("energy" in label for label in labels)
    assert figure.get_suptitle() == "Mine"
    assert figure._repr_png_()[:4] == b"\x89PNG"
    card = path._repr_html_()
    assert "12 tokens on S²" in card
    assert "Reached t = 2." in card
    assert "<img" in card


def test_a_run_has_what_a_path_has(path, tmp_path):
    flow = mf.Flow(mf.SoftmaxAttention.isotropic(3, 4.0), path.at(0), path.times)
    run = mf.runs.record(flow, tmp_path / "run")
    np.testing.assert_array_equal(run[1].points, run.at(time=0.5).points)
    assert run.points.shape == (4, 12, 3)
    assert repr(run).endswith(
        "4 frames, t = 0 to 2, 12 tokens on S². Reached t = 2, error " + f"{run.stats['error']:.1g})"
    )
    copy = mf.load(run.save(tmp_path / "run.npz"))
    np.testing.assert_array_equal(copy.points, run.points)
    assert copy.outcome.ok
    assert mf.load(tmp_path / "run") == run
    assert "height" in {
        ax.get_ylabel() for ax in run.plot(series={"height": lambda mu: mu.points[0, 2]}).subfigs[1].axes
    }


def test_what_cannot_be_drawn_saved_or_read_gets_a_sentence(path, tmp_path):
    with pytest.raises(InputError, match=r"must end in .npz"):
        path.save(tmp_path / "path.txt")
    with pytest.raises(InputError, match="there is no"):
        mf.load(tmp_path / "nothing.npz")
    np.savez(tmp_path / "other.npz", x=np.zeros(3))
    (tmp_path / "text.npz").write_text("no archive")
    for name in ("other.npz", "text.npz"):
        with pytest.raises(InputError, match=r"is not a path that `path.save` wrote"):
            mf.load(tmp_path / name)
    batch = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), path)
    with pytest.raises(ValueError, match="one path at a time"):
        batch.plot()
    assert repr(batch) == "Trajectory(2 flows of 12 tokens on S². 2 of 2 flows reached their last time.)"

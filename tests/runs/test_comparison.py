"""Runs side by side, as a user meets them."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import measureflow as mf
from measureflow.cli import main
from measureflow.runs import compare, comparison
from measureflow.runs.checksums import sealed
from measureflow.runs.comparison import agreement, common, figure

FLAT = {"beta": 0.3, "time": 0.2, "frames": 3, "verify": False}
ROUND = {"beta": 1.0, "time": 0.2, "frames": 3, "verify": False, "init": "clusters"}
RUNS = {
    "gaussian": FLAT | {"measure": "gaussian"},
    "gaussian-tokens": FLAT | {"space": "euclidean", "dim": 2, "init": "gaussian", "n": 400},
    "mixture": FLAT | {"measure": "mixture"},
    "mixture-tokens": FLAT | {"space": "euclidean", "dim": 2, "init": "clusters", "n": 400},
    "circle": ROUND | {"measure": "circle", "modes": 32},
    "circle-tokens": ROUND | {"dim": 2, "n": 400},
    "sphere": ROUND | {"measure": "sphere", "modes": 32},
    "sphere-tokens": ROUND | {"n": 400},
    "cells": ROUND | {"measure": "cells", "cells": 128},
    "sequence": ROUND | {"measure": "sequence", "dim": 2, "n": 400},
    "hotter-tokens": FLAT | {"space": "euclidean", "dim": 2, "init": "gaussian", "n": 400, "beta": 0.2},
    "shorter": ROUND | {"dim": 2, "n": 400, "time": 0.1},
    "coarser": ROUND | {"dim": 2, "n": 400, "solver": "euler", "dt": 0.05},
}


HEADS = {"data": "f2", "heads": 2, "time": 0.03, "frames": 3}
TRAINING = {"training": HEADS, "descent": HEADS | {"optimiser": "descent"}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("compare")


@pytest.fixture(autouse=True)
def in_folder(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def made(*names):
    """The names of runs, which are made when they are first needed."""
    for name in names:
        if not Path(name).exists():
            command, words = ("train heads", TRAINING[name]) if name in TRAINING else ("simulate", RUNS[name])
            mf.runs.run(command, **words, out=name)
    return names


def complaint(capsys, *words):
    assert main(["compare", *words]) == 2
    return capsys.readouterr().err


@pytest.mark.parametrize("kind", ["gaussian", "mixture", "circle", "sphere"])
def test_tokens_are_drawn_over_their_limit_with_the_distance(kind, tmp_path, capsys):
    picture = tmp_path / "picture.png"
    assert main(["compare", *made(f"{kind}-tokens", kind), "--out", str(picture)]) == 0
    printed = capsys.readouterr().out
    for word in ("measure", "particles", kind, "last common frame", "drawn from the limit", "picture"):
        assert word in printed
    with Image.open(picture) as drawn:
        assert min(drawn.size) > 1000


@pytest.mark.parametrize("kind", ["gaussian", "mixture", "circle", "sphere"])
def test_tokens_are_as_near_to_their_limit_as_a_sample(kind):
    (found,) = compare(*made(f"{kind}-tokens", kind)).distances
    np.testing.assert_allclose(found.times, [0.0, 0.1, 0.2])
    # At these short times the tokens are still a sample: distances agree up to chance, which is up to a factor of two
    # for each side where blobs get more or less than their share.
    assert (found.values < 4 * found.sampling).all()
    assert (found.sampling < 4 * found.values).all()


def test_the_distance_of_a_gaussian_is_that_of_moments():
    (found,) = compare(*made("gaussian", "gaussian-tokens")).distances
    tokens = mf.runs.open("gaussian-tokens").data.points.values[-1]
    limit = mf.runs.open("gaussian").final
    fitted = mf.Gaussian(tokens.mean(0), np.cov(tokens.T, bias=True))
    # Two ways to the same closed form, roots of a number of size 0.01 known to rounding 1e-15.
    np.testing.assert_allclose(found.values[-1], mf.transport.wasserstein(fitted, limit), rtol=1e-9)


def test_runs_of_one_kind_differ_by_their_frames(capsys):
    found = compare(*made("circle-tokens", "coarser"))
    (distance,) = found.distances
    one, other = (mf.runs.open(name).data.points.values for name in ("circle-tokens", "coarser"))
    np.testing.assert_array_equal(distance.values, np.abs(one - other).max((1, 2)))
    # Euler: dt times half the acceleration, over a time 0.2
    assert distance.values[0] == 0 < distance.values[-1] < 0.01
    assert [row[0] for row in found.settings] == ["solver", "dt"]
    assert distance.sampling is None
    assert main(["compare", *made("circle-tokens", "coarser")]) == 0
    assert "largest difference of the frames" in capsys.readouterr().out
    with Image.open("compare.png") as drawn:
        assert min(drawn.size) > 1000


def test_tokens_that_grow_are_compared_where_they_are_bounded():
    found = compare(*made("gaussian-tokens", "hotter-tokens"))
    (distance,) = found.distances
    assert distance is not None
    assert distance.name == "largest difference of the rescaled frames"
    one, other = (run.points[-1] * np.exp(-run.times[-1]) for run in found.runs)
    np.testing.assert_allclose(distance.values[-1], np.abs(one - other).max(), rtol=1e-12)
    assert figure(found).axes[0].get_xlabel() == "z₁"


def test_runs_without_frames_share_their_curves(tmp_path):
    tokens = mf.Particles.iid(mf.Sphere(2), 6, key=0)
    names = [tmp_path / "cold", tmp_path / "warm"]
    for name, beta in zip(names, (1.0, 4.0), strict=True):
        field, mean = mf.SoftmaxAttention.isotropic(2, beta), lambda mu: mu.points.mean()
        mf.runs.record(mf.Flow(field, tokens, [0.0, 0.5, 1.0], mf.Heun(0.1), observe=mean), name, verify=False)
    found = compare(*names)
    assert found.distances == [None]
    assert "observed" in [ax.get_ylabel() for ax in figure(found).axes]


def test_cells_are_near_the_density_by_moments():
    (found,) = compare(*made("circle", "cells")).distances
    # Averages over 128 cells against values at points: second order in their width, 2.4e-3, at the 1000 quantiles.
    assert found.values.max() < 0.01


def test_many_tokens_are_compared_by_weight_and_not_by_their_order(tmp_path):
    """The distance of more tokens than the simplex method takes is that of a sample, however they are sorted."""
    rng = np.random.default_rng(0)
    points = rng.normal(size=(3000, 3))
    points = points[np.argsort(points[:, 0])]
    still = mf.Perceptron(np.zeros((3, 1)), np.zeros((1, 3)), [0.0])
    for name, cloud in (("sorted", points), ("mixed", rng.permutation(points)[:2999])):
        start = mf.Particles(mf.Euclidean(3), cloud)
        mf.runs.record(mf.Flow(still, start, [0.0, 1.0]), tmp_path / name, verify=False)
    (found,) = compare(tmp_path / "sorted", tmp_path / "mixed").distances
    assert found.values.max() < 0.6  # of samples of 1000 in three dimensions; the first 1000 would be 1.6 apart


def test_several_variants_are_one_figure_with_a_column_each(tmp_path, capsys):
    names = ["circle-tokens", "coarser", "sequence"]
    found = compare(*made(*names))
    assert len(found.distances) == 2
    assert all(len(row) == 4 for row in (*found.settings, *found.results))
    drawn = figure(found)
    assert [ax.get_title().split(",")[0] for ax in drawn.axes[:3]] == names
    energy = next(ax for ax in drawn.axes if ax.get_ylabel() == "energy E / max E")
    assert [text.get_text() for text in energy.get_legend().get_texts()] == names
    assert main(["compare", *names, "--out", str(tmp_path / "three.pdf")]) == 0
    assert "sequence" in capsys.readouterr().out


def test_training_runs_are_compared_by_their_risks(tmp_path, capsys):
    assert main(["compare", *made("training", "descent"), "--out", str(tmp_path / "heads.png")]) == 0
    printed = capsys.readouterr().out
    for word in ("optimiser", "sgd", "descent", "risk"):
        assert word in printed


def test_runs_of_different_spaces_share_their_curves_but_no_distance():
    found = compare(*made("circle", "sphere"))
    assert found.distances == [None]
    assert "energy" in found.shared


def test_only_frames_of_one_time_are_compared():
    (found,) = compare(*made("circle", "shorter")).distances
    np.testing.assert_allclose(found.times, [0.0, 0.1])


def test_equal_times_are_found_among_many():
    """All pairs of so many would be 10 GB."""
    rng = np.random.default_rng(0)
    one, other = (np.sort(np.concatenate([rng.choice(50, 20, replace=False), rng.random(5)])) for _ in range(2))
    near = np.abs(one[:, None] - other[None, :]) <= 1e-9 * max(one[-1], other[-1])
    np.testing.assert_array_equal(common(one, other), np.argwhere(near))
    many = np.linspace(0, 1, 100_001)
    np.testing.assert_array_equal(common(many, many[::2]), np.stack([np.arange(0, 100_001, 2), np.arange(50_001)], 1))


def test_blocks_of_frames_give_the_same_as_all_at_once(monkeypatch):
    paths = made("circle-tokens", "coarser")
    (whole,) = compare(*paths).distances
    runs = [mf.runs.open(path) for path in paths]
    least = agreement(*runs)
    held = []

    def gaps(one, other, pairs):
        held.append(len(pairs))
        return _gaps(one, other, pairs)

    _gaps = comparison.__dict__["_gaps"]
    monkeypatch.setattr(comparison, "_gaps", gaps)
    monkeypatch.setattr(comparison, "BLOCK", 1)
    (found,) = compare(*paths).distances
    assert set(held) == {1}  # a frame at a time
    np.testing.assert_array_equal(found.values, whole.values)
    assert agreement(*runs) == least


def test_a_gaussian_and_a_mixture_are_compared_without_tokens(tmp_path, capsys):
    assert main(["compare", *made("gaussian", "mixture"), "--out", str(tmp_path / "limits.png")]) == 0
    assert "drawn from the limit" not in capsys.readouterr().out


def test_bad_input_gets_a_sentence(capsys, tmp_path):
    assert "'nowhere' is not a run folder" in complaint(capsys, *made("circle"), "nowhere")
    assert "takes at least two run folders; got 1" in complaint(capsys, *made("circle"))
    assert "`out` must end in .png" in complaint(capsys, *made("circle", "circle-tokens"), "--out", "picture.doc")
    assert "there is no folder 'none'" in complaint(
        capsys, *made("circle", "circle-tokens"), "--out", "none/picture.png"
    )
    assert "`runs`" in complaint(capsys)


def test_a_repeated_run_says_how_far_it_agrees_and_which_versions_differ(tmp_path, capsys):
    words = {"n": 5, "time": 1.0, "frames": 3, "solver": "heun", "dt": 0.25}
    one, other = (
        mf.runs.run("simulate", out=str(tmp_path / f"run{beta}"), beta=beta, **words) for beta in (1.0, 1.0 + 1e-9)
    )
    assert agreement(one, one).to_the_bit
    found = agreement(one, other)
    assert 0 < found.difference < 1e-7
    assert "The data agree to " in str(found)
    info = json.loads((tmp_path / "run1.0" / "run.json").read_text())
    info["versions"]["jax"] = "0.1"
    del info["checksum"]
    (tmp_path / "run1.0" / "run.json").write_text(json.dumps(sealed(info)))
    assert main(["rerun", str(tmp_path / "run1.0"), "--out", str(tmp_path / "again")]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "The data are the same to the bit. Versions that differ: jax 0.1 then," in said
    short = mf.runs.run("simulate", out=str(tmp_path / "short"), beta=1.0, **{**words, "frames": 2})
    assert "not comparable" in str(agreement(one, short))

"""Measures to measures from the command line."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import measureflow as mf
from measureflow.cli import main

RNG = np.random.default_rng(0)
FEW = ["--frames", "4", "--no-movie", "--no-verify"]


def points(count, n, dim=3):
    found = np.eye(dim)[:count, None] + 0.4 + 0.4 * RNG.normal(size=(count, n, dim))
    return found / np.linalg.norm(found, axis=-1, keepdims=True)


@pytest.fixture(autouse=True)
def in_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    np.savez("inputs.npz", a=points(2, 10)[0], b=points(2, 10)[1])
    np.save("targets.npy", -np.eye(3)[:2])
    return tmp_path


def test_files_are_mapped_drawn_and_told(capsys):
    assert main(["interpolate", "inputs.npz", "targets.npy", "--out", "run", *FEW]) == 0
    said = capsys.readouterr().out
    assert "switches" in said
    assert "after match" in said
    run = mf.load("run")
    assert run.stats["packed"] == [10, 10]
    ends = np.asarray(run.at(-1).points)
    # The error asked for is 1e-3, in W_2.
    np.testing.assert_allclose(ends, np.repeat(-np.eye(3)[:2], 10, axis=0), atol=2e-3)
    assert run.series["farthest"].values[-1] == pytest.approx(run.data["stage_errors"].values[-1].max(), abs=1e-6)
    with Image.open("run/figure.png") as picture:
        assert picture.size[0] > 1000
    assert 'files = ["inputs.npz", "targets.npy"]' in Path("run/config.toml").read_text()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["inputs.npz"], "must be two, inputs and targets, or none; got 1"),
        (["inputs.npz", "nothing.npy"], "there is no file 'nothing.npy'"),
        (["inputs.npz", "targets.csv"], "must end in .npz or .npy"),
        (["inputs.npz", "targets.npy", "--n", "5"], "`n` say what is drawn"),
        (["inputs.npz", "flat.npy"], "must have norm 1"),
        (["inputs.npz", "ragged.npz"], "of one d; got (2, 3), (2, 2)"),
        (["inputs.npz", "words.npy"], "'words.npy' has entries of the type <U1, which are no numbers"),
        (["inputs.npz", "one.npy"], "Each input needs a target; got 2 `inputs` and 1 `targets`"),
        (["--dim", "2"], "On the circle no token passes another"),
        (["--project"], "`project` is for tokens of files"),
    ],
)
def test_bad_input_gets_a_sentence(words, sentence, capsys):
    np.save("flat.npy", np.ones((2, 3)))
    np.save("one.npy", np.eye(3)[:1])
    np.save("words.npy", np.array(["a", "b"]))
    np.savez("ragged.npz", a=np.ones((2, 3)), b=np.ones((2, 2)))
    Path("targets.csv").write_text("1,0,0\n")
    assert main(["interpolate", *words]) == 2
    assert sentence in capsys.readouterr().err
    assert not Path("runs").exists()

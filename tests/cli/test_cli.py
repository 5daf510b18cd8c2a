"""The command line as a user meets it."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import measureflow as mf
from measureflow.cli import main


def complaint(capsys, *words):
    assert main(list(words)) == 2
    return capsys.readouterr().err


@pytest.fixture(autouse=True)
def in_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def test_help_does_not_load_jax():
    code = "import sys; from measureflow.cli import main; main({}); sys.exit('jax' in sys.modules)"
    for words in ("['--help']", "['study', 'run']", "['simulate', '--n', '0']"):
        assert subprocess.run([sys.executable, "-c", code.format(words)], capture_output=True).returncode == 0, words


def test_a_small_simulation_writes_all_it_promises(in_empty_folder, capsys):
    assert main(["simulate", "--n", "30", "--time", "1", "--frames", "4", "--movie", "--out", "run"]) == 0
    printed = capsys.readouterr().out
    for word in ("clusters", "energy", "error estimate", "steps", "seconds", "Reached t = 1.", "run/figure.png"):
        assert word in printed
    with Image.open("run/figure.png") as picture:
        assert min(picture.size) > 800
    with Image.open("run/movie.gif") as movie:
        assert movie.n_frames == 4
    assert mf.runs.open("run").frames == 4


def test_a_run_can_be_repeated_from_its_configuration(capsys):
    assert main(["simulate", "--n", "8", "--time", "1", "--frames", "3", "--out", "one", "--no-verify"]) == 0
    assert main(["simulate", "--config", "one/config.toml", "--out", "two"]) == 0
    one, two = (mf.runs.open(name).data.points.values for name in ("one", "two"))
    np.testing.assert_array_equal(one, two)
    assert "error estimate" not in capsys.readouterr().out


def test_without_out_each_run_gets_a_new_folder(in_empty_folder):
    for _ in range(2):
        assert main(["simulate", "--n", "4", "--time", "1", "--frames", "2", "--no-verify"]) == 0
    assert sorted(p.name for p in (in_empty_folder / "runs").iterdir()) == ["simulate-1", "simulate-2"]


def test_a_blow_up_is_a_result(capsys):
    words = [
        "--space",
        "euclidean",
        "--dim",
        "1",
        "--n",
        "3",
        "--attention",
        "unnormalised",
        "--beta",
        "1",
        "--time",
        "3",
    ]
    assert main(["simulate", *words, "--out", "run"]) == 0
    assert "Blew up at t = 0.46" in capsys.readouterr().out


def test_bad_input_leaves_no_folder_behind(in_empty_folder, capsys):
    np.savez("tokens.npz", points=np.ones((2, 3)))
    for words in (["--n", "0"], ["--init", "tokens.npz"], ["--rtol", "1e-30"], ["--attention", "sofmax"]):
        assert complaint(capsys, "simulate", *words)
    assert sorted(p.name for p in in_empty_folder.iterdir() if p.name != "cache") == ["tokens.npz"]


def test_an_unknown_command_suggests_the_nearest(capsys):
    assert "did you mean 'simulate'?" in complaint(capsys, "simulat")


def test_studies_are_listed_and_run_with_a_verdict(capsys):
    assert main(["study", "list"]) == 0
    assert "two-tokens-tanh" in capsys.readouterr().out
    assert main(["study", "run", "two-tokens-tanh", "--json", "out.json"]) == 0
    assert "as expected" in capsys.readouterr().out
    (verdict,) = json.loads(Path("out.json").read_text())
    wanted = "name statement reference predicted measured tolerance holds expected as_expected seconds"
    assert set(wanted.split()) <= set(verdict)


def test_a_claim_that_fails_gives_exit_code_1(capsys, monkeypatch):
    claim = mf.studies.Claim("two-tokens-tanh", "A false statement.", reference="nobody:00")
    monkeypatch.setattr(mf.studies, "run", lambda name, size: claim.judge(mf.studies.base.equal("one", 1.0, 2.0, 0.5)))
    assert main(["study", "run", "two-tokens-tanh"]) == 1
    assert "NOT AS EXPECTED" in capsys.readouterr().out


def test_unknown_studies_are_all_named(capsys):
    said = complaint(capsys, "study", "run", "two-token-tanh", "nonsense")
    assert "did you mean 'two-tokens-tanh'?" in said
    assert "'nonsense'" in said
    assert "`all`" in complaint(capsys, "study", "run")
    assert "no folder" in complaint(capsys, "study", "run", "two-tokens-tanh", "--json", "nowhere/out.json")

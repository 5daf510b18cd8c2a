"""The command line as a user meets it."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import measureflow as mf
from measureflow.cli import main
from measureflow.cli.options import parse_run
from measureflow.runs.command import command


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
    for words in (
        "['--help']",
        "['study', 'run']",
        "['simulate', '--n', '0']",
        "['resume']",
        "['plot']",
        "['compare']",
    ):
        assert subprocess.run([sys.executable, "-c", code.format(words)], capture_output=True).returncode == 0, words


def test_a_small_simulation_writes_all_it_promises(in_empty_folder, capsys):
    assert main(["simulate", "--n", "30", "--time", "1", "--frames", "4", "--movie", "--out", "run"]) == 0
    printed = capsys.readouterr().out
    for word in (
        "number of clusters",
        "energy",
        "error estimate",
        "steps",
        "seconds",
        "Reached t = 1.",
        "run/figure.png",
    ):
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


def test_no_words_at_all_ask_for_the_defaults():
    assert parse_run(command("simulate"), []).n == 512
    assert parse_run(command("train heads"), []).heads == 64


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


def test_a_run_that_gives_up_before_its_time_is_no_success(capsys):
    assert main(["simulate", "--n", "16", "--time", "20", "--frames", "3", "--most-steps", "2", "--out", "run"]) == 1
    assert "Stopped at t = 0.246" in capsys.readouterr().out
    assert main(["resume", "run"]) == 1  # it says again how the run ended
    assert "Stopped at t = 0.246" in capsys.readouterr().out
    assert Path("run/figure.png").is_file()
    assert main(["plot", "run"]) == 0  # it was drawn, which is all that was asked


def test_bad_input_leaves_no_folder_behind(in_empty_folder, capsys):
    np.savez("tokens.npz", points=np.ones((2, 3)))
    for words in (["--n", "0"], ["--init", "tokens.npz"], ["--rtol", "1e-30"], ["--attention", "sofmax"]):
        assert complaint(capsys, "simulate", *words)
    assert sorted(p.name for p in in_empty_folder.iterdir() if p.name != "cache") == ["tokens.npz"]


def test_an_unknown_command_suggests_the_nearest(capsys):
    assert "did you mean 'simulate'?" in complaint(capsys, "simulat")


COMMANDS = ["simulate", "train", "train heads", "train certify", "resume", "plot", "rerun", "compare", "study", "study list",
            "study run", "bench"]  # fmt: skip


@pytest.mark.parametrize("words", COMMANDS)
def test_every_command_has_help_and_names_itself(words, capsys):
    with pytest.raises(SystemExit) as left:
        raise SystemExit(main([*words.split(), "--help"]))
    assert not left.value.code
    assert f"usage: measureflow {words}" in capsys.readouterr().out


def test_help_tells_the_usual_values_of_each_measure(capsys):
    with pytest.raises(SystemExit):
        main(["simulate", "--help"])
    said = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "(default: 256 for circle; 32 for sphere)" in said
    assert "(default: 512 for cells)" in said
    assert "(default: 3; 2 for cells, circle, gaussian, mixture)" in said
    with pytest.raises(SystemExit):
        main(["train", "heads", "--help"])
    assert " for circle" not in capsys.readouterr().out  # heads are not moved as one of the measures


@pytest.mark.parametrize("words", ["resume", "plot", "rerun", "compare", "train certify"])
def test_a_missing_run_is_a_sentence(words, capsys):
    assert "is needed" in complaint(capsys, *words.split())
    said = complaint(capsys, *words.split(), "nowhere", *(["nowhere"] if words == "compare" else []))
    assert "'nowhere' is not a run folder" in said or "not a training run" in said


def test_a_run_is_pictured_again_from_its_folder_and_run_again(in_empty_folder, capsys):
    assert main(["simulate", "--n", "8", "--time", "1", "--frames", "3", "--out", "one", "--no-verify"]) == 0
    printed = capsys.readouterr().out
    Path("one/figure.png").unlink()
    assert main(["plot", "one", "--movie", "--format", "pdf"]) == 0
    again = capsys.readouterr().out
    for line in printed.splitlines():
        if line.startswith("│ ") and ("energy" in line or "clusters" in line):
            assert line in again
    assert Path("one/figure.pdf").read_bytes().startswith(b"%PDF")
    assert Path("one/movie.gif").is_file()
    assert main(["rerun", "one", "--out", "two"]) == 0
    assert "The data are the same to the bit. All versions are those of the first run." in capsys.readouterr().out
    assert main(["resume", "one"]) == 0
    assert "Reached t = 1." in capsys.readouterr().out
    assert "`format` must be one of" in complaint(capsys, "plot", "one", "--format", "gif")


def test_a_full_disk_gives_exit_code_1_and_a_sentence(capsys, monkeypatch):
    from measureflow.runs.folder import RunFolder

    def full(self, *_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(RunFolder, "_append", full)
    assert main(["simulate", "--n", "8", "--time", "1", "--frames", "3", "--out", "one", "--no-verify"]) == 1
    assert "Stopped after 0 of 3 frames: No space left on device. Make room" in capsys.readouterr().err

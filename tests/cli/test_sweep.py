"""`measureflow sweep` as a user types it: dry runs, progress, pictures, extension and bad input."""

import json
from pathlib import Path

import numpy as np
import pytest

import measureflow as mf
from measureflow.cli import main
from measureflow.theory import equiangular

FILE = """
n = 6
dim = 8
time = 4.0
solver = "euler"
dt = 0.5
frames = 9
series = ["met"]

[sweep]
title = "A small one"
keep = "series"
show = "met"
theory = "meeting"

[sweep.grid]
beta = { from = 0.0, to = 8.0, count = 9 }
seed = [0, 1]
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("small.toml").write_text(FILE)
    return tmp_path


def test_a_sweep_is_estimated_computed_extended_and_drawn(here, capsys):
    assert main(["sweep", "small.toml", "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert "18 cells over beta, seed." in said
    assert "to compile 1 program" in said
    assert not Path("sweeps").exists()
    assert main(["sweep", "small.toml"]) == 0
    said = capsys.readouterr().out
    assert "A small one: 18 of 18 cells" in said
    assert Path("sweeps/small/figure.png").stat().st_size > 5000
    Path("small.toml").write_text(FILE.replace("seed = [0, 1]", "seed = [0, 1, 2]"))
    assert main(["sweep", "small.toml", "--dry-run"]) == 0
    assert "27 cells over beta, seed, of which 18 are computed already" in capsys.readouterr().out
    assert main(["sweep", "small.toml"]) == 0
    lines = Path("sweeps/small/cells.jsonl").read_text().splitlines()
    assert len({json.loads(line)["key"] for line in lines}) == len(lines) == 27
    assert main(["sweep", "small.toml", "--dry-run"]) == 0
    assert "Nothing is left to compute." in capsys.readouterr().out
    assert main(["plot", "sweeps/small", "--show", "order", "--format", "svg"]) == 0
    assert "<svg" in Path("sweeps/small/figure.svg").read_text()
    found = mf.runs.open_sweep("sweeps/small")
    drawn = found.plot().axes[0]
    law = next(line for line in drawn.get_lines() if line.get_gid() == "law")
    times, betas = law.get_data()
    np.testing.assert_allclose(times, equiangular.time_to(0.999, 6, betas), rtol=1e-12)
    mesh = next(part for part in drawn.collections if part.get_gid() == "map").get_array()
    np.testing.assert_allclose(mesh, found.to_xarray().met.mean("seed").values, atol=1e-15)
    assert "order parameter" in [ax.get_ylabel() for ax in found.plot("order").axes]
    assert (drawn.get_xlabel(), drawn.get_ylabel()) == ("time t", "β")
    assert main(["plot", "sweeps/small", "--show", "ordr"]) == 0
    assert "`show` 'ordr' is not in the table (did you mean 'order'?)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("change", "words", "sentence"),
    [
        (("seed = [0, 1]", "sed = [0, 1]"), [], "`sed` is not an option of the command (did you mean 'seed'?)."),
        (
            ('theory = "meeting"', 'theory = "meting"'),
            [],
            "`sweep.theory` must be one of meeting, critical; got 'meting'",
        ),
        (("seed = [0, 1]", "seed = []"), [], "`sweep.grid.seed` is empty"),
        (("seed = [0, 1]", "seed = { from = 0, to = 9999 }"), [], "90000 cells, more than 20000: add `--yes`"),
        (("", ""), ["--scheduler", "tcp://localhost:1"], "`scheduler` is for `backend` dask"),
        (("", ""), ["--backend", "cloud"], "`backend` must be one of here, processes, dask, slurm; got 'cloud'"),
        (("", ""), ["more.toml"], "`file` takes one sweep file; got 2"),
        (("beta = {", "beta = ["), [], "is not a TOML file"),
    ],
)
def test_bad_input_is_a_sentence_and_writes_nothing(here, capsys, change, words, sentence):
    Path("small.toml").write_text(FILE.replace(*change) if change[0] else FILE)
    assert main(["sweep", "small.toml", *words]) == 2
    assert sentence in capsys.readouterr().err
    assert not Path("sweeps").exists()


def test_failed_cells_are_told_with_their_reason_and_exit_code_1(here, capsys):
    text = FILE.replace("seed = [0, 1]", 'init = ["uniform", "equiangular"]').replace("dim = 8", "dim = 4")
    Path("small.toml").write_text(text)
    assert main(["sweep", "small.toml"]) == 1
    said = capsys.readouterr().out
    assert "9 cells failed:" in said
    assert "9 times: Failed: `init` equiangular gives each token its own coordinate" in said.replace("\n", " ")


def test_a_sweep_with_a_cell_that_gives_up_is_no_success(here, capsys):
    text = "n = 6\ntime = 20.0\nframes = 3\nverify = false\n[sweep.grid]\nmost_steps = [2, 1000]\n"
    Path("spent.toml").write_text(text)
    assert main(["sweep", "spent.toml"]) == 1
    assert "Cells that gave up before their time: 1; the first: Stopped at t = " in capsys.readouterr().out
    assert main(["sweep", "spent.toml"]) == 1  # the table is as it was

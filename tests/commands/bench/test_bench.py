"""The benchmark of kernel sums, from the command line."""

import json
import os
from pathlib import Path

import jax
import pytest
from PIL import Image

import measureflow as mf
from measureflow.cli import main
from measureflow.commands.bench import gpu
from measureflow.commands.bench.job import compare, missing
from measureflow.plotting.bench import bench_figure
from measureflow.sums import Dense, costs, native


@pytest.fixture(autouse=True)
def in_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    costs.calibrated.cache_clear()
    yield
    costs.calibrated.cache_clear()


def complaint(capsys, *words):
    assert main(["bench", *words]) == 2
    return capsys.readouterr().err


def test_the_benchmark_compares_engines_and_names_what_is_missing(capsys):
    assert main(["bench", "--n", "64", "100", "--repeats", "1", "--json", "rows.json", "--picture", "rows.png"]) == 0
    printed = capsys.readouterr().out
    assert "blockwise" in printed
    assert "skipped: " in printed
    rows = json.loads(Path("rows.json").read_text())
    assert {row["n"] for row in rows} == {64, 100}
    assert all(row["error"] < 1e-5 and row["seconds"] > 0 for row in rows)
    assert min(row["ratio"] for row in rows) == 1
    with Image.open("rows.png") as picture:
        assert picture.size == (1200, 825)


def test_every_engine_that_can_do_the_sum_is_timed_and_no_other(monkeypatch):
    here = {kind.name for kind in mf.sums.engines() if kind.available()} - {"auto", "sharded", "fourier"}
    rows = list(compare([64], 3, 4.0, "float32", repeats=1))
    assert {row["name"] for row in rows if row["ours"]} == here
    monkeypatch.setattr(native, "available", lambda: False)
    assert {"native", "pallas"} <= set(missing())


@pytest.fixture
def outside():
    """An engine that somebody wrote elsewhere, while it is registered."""

    @mf.sums.register
    class Borrowed(mf.sums.AbstractEngine):
        exact = True
        batches = False

        @classmethod
        def serving(cls, sum):
            return cls()

        def attend(self, covectors, sources, log_weights):
            return Dense().attend(covectors, sources, log_weights)

        def rows(self, row, sources, *queries):
            return jax.vmap(row)(*queries)

    yield Borrowed
    mf.sums.forget("borrowed")


def test_an_engine_from_outside_is_timed_drawn_and_calibrated(outside, capsys, monkeypatch):
    rows = list(compare([64], 3, 4.0, "float32", repeats=1))
    mine = next(row for row in rows if row["name"] == "borrowed")
    assert mine["ours"]
    assert mine["error"] < 1e-5  # some roundings
    lines = {line.get_label(): line for line in bench_figure(rows).axes[0].lines}
    assert lines["borrowed"].get_linestyle() == "-"
    assert lines["numpy naive"].get_linestyle() == "--"
    # Small sizes: the fit is under test, not the machine.
    for kind in mf.sums.engines():
        monkeypatch.setattr(kind, "sizes", (64, 128))
    assert outside.cost("cpu float64") is None
    assert main(["bench", "--calibrate", "--dtype", "float64", "--repeats", "1"]) == 0
    assert "Kept in" in capsys.readouterr().out
    kept = json.loads(Path("cache", "measureflow", "costs.json").read_text())["cpu float64"]
    assert {"dense", "blockwise", "borrowed"} <= set(kept)
    assert all(sum(numbers) > 0 and min(numbers) >= 0 for numbers in kept.values())
    assert outside.cost("cpu float64") == mf.sums.Cost(*kept["borrowed"])


@pytest.mark.slow
def test_the_table_of_a_gpu_runs_small_and_is_written(capsys, monkeypatch):
    """Every row but PyTorch's, whose errors say that all of it computes the same."""
    monkeypatch.setattr(gpu, "TURN", 0.0)
    monkeypatch.setattr(gpu, "TURNS", 1)
    rows = list(gpu.table(shrink=2**14))
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(gpu, "table", lambda: rows)
    assert main(["bench", "--device", "gpu", "--json", "gpu.json"]) == 0
    kept = json.loads(Path("gpu.json").read_text())
    sums = {"sum", "gradient", "below", "gradient below", "sum in a loop"}
    assert {row["work"] for row in kept} == sums | {"flow of 50 steps", "flow of 20 steps below", "training step"}
    assert all(row["seconds"] > 0 and row["per_second"] > 0 for row in kept)
    # Gradients of nearly uniform tokens cancel to a tenth.
    assert max(row["error"] for row in kept if row["error"] is not None) < 1e-4
    assert "fourier" in capsys.readouterr().out


def test_a_gpu_that_is_not_there_is_told(capsys):
    assert "there is no 'gpu' here; the default device is a cpu" in complaint(capsys, "--device", "gpu")


def test_the_help_of_the_benchmark_names_its_options(capsys):
    with pytest.raises(SystemExit) as left:
        main(["bench", "--help"])
    assert not left.value.code
    printed = capsys.readouterr().out
    assert all(word in printed for word in ("--n", "--dim", "--beta", "--json", "--picture", "--calibrate"))


BAD = {
    "beta": (["--beta", "1e300"], "`beta`: input should be less than or equal to 1000; got '1e300'."),
    "n": (["--n", "0"], "`n`: input should be greater than 0; got '0'."),
    "dim": (["--dim", "0"], "`dim`: input should be greater than 0; got '0'."),
    "repeats": (["--repeats", "-1"], "`repeats`: input should be greater than 0; got '-1'."),
    "nan": (["--beta", "nan"], "`beta`: input should be a finite number; got 'nan'."),
    "json": (["--json", "nowhere/rows.json"], "`json`: there is no folder 'nowhere' to write"),
    "picture": (["--picture", "nowhere/rows.png"], "`picture`: there is no folder 'nowhere' to write"),
    "folder": (["--json", "."], "`json`: '.' is a folder; give the name of a file."),
    "kind": (["--picture", "rows.txt"], "`picture` must end in .png"),
}


@pytest.mark.parametrize(("words", "sentence"), BAD.values(), ids=BAD.keys())
def test_wrong_input_gets_a_sentence_before_anything_is_timed(words, sentence, capsys):
    assert sentence in complaint(capsys, *words)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_file_that_may_not_be_written_is_refused(capsys):
    Path("rows.json").touch(mode=0o400)
    assert "permission is denied" in complaint(capsys, "--json", "rows.json")


def test_all_that_is_wrong_is_said_at_once(capsys):
    said = complaint(capsys, "--n", "0", "--beta", "inf", "--json", "nowhere/rows.json")
    assert len(said.splitlines()) == 3

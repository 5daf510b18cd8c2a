"""`measureflow sweep` as a user types it: dry runs, progress, pictures, extension, bad input, and repeated runs."""

import json
import tomllib
from pathlib import Path

import numpy as np
import pytest

import measureflow as mf
from measureflow.cli import main
from measureflow.plotting.sweeps import Axis, mean_and_half
from measureflow.runs.comparison import agreement
from measureflow.sweeps import Design
from measureflow.theory import equiangular
from measureflow.words import InputError

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


def test_published_diagrams_are_designs_of_full_size_whose_cells_can_be_described():
    folder = Path(__file__).parents[2] / "examples" / "sweeps"
    sizes = {}
    for file in sorted(folder.glob("*.toml")):
        design = Design.read(file)
        work = mf.runs.sweeping.work_of(design, folder)
        asked = work.asked(
            Design({**design.base}, design.section.model_copy(update={"grid": _ends(design.section.grid)}))
        )
        assert not any(one.problem for one in asked), file
        sizes[file.stem] = len(design)
    assert sizes == {"meeting": 90 * 64, "dimensions": 60 * 13 * 16, "long_context": 71 * 15}
    base = tomllib.loads((folder / "meeting.toml").read_text())
    assert (base["n"], base["frames"]) == (32, 200)


def _ends(grid):
    """The first and last value of each axis."""
    listed = {name: values.values() if hasattr(values, "values") else values for name, values in grid.items()}
    return {name: [values[0], values[-1]] for name, values in listed.items()}


def test_bands_are_standard_errors_of_means_and_axes_know_their_scale():
    samples = np.array([[1.0, 3.0, 5.0], [2.0, np.nan, 2.0], [np.nan] * 3])
    mean, half = mean_and_half(samples)
    np.testing.assert_allclose(mean, [3.0, 2.0, np.nan])
    np.testing.assert_allclose(half, [1.96 * 2.0 / np.sqrt(3), 0.0, np.nan])
    assert Axis("n", [4, 8, 16, 32]).logarithmic
    assert Axis("n", [2, 3, 4, 6, 8, 12, 16]).logarithmic
    assert not Axis("beta", [0.1, 1.1, 2.1, 3.1]).logarithmic
    assert not Axis("beta", [0.0, 1.0, 10.0]).logarithmic
    np.testing.assert_allclose(Axis("n", [1, 4, 16]).edges, [0.5, 2, 8, 32])
    np.testing.assert_allclose(Axis("n", [1, 2, 3]).edges, [0.5, 1.5, 2.5, 3.5])


def test_curves_with_bands_for_one_axis_and_maps_side_by_side_for_three(tmp_path):
    def value(x, y, kind, seed):
        return {"value": float(x) * float(y) + (kind == "b") + float(seed)}

    one = mf.runs.sweep(value, {"x": [1.0, 2.0, 3.0], "y": [1.0], "kind": ["a"], "seed": [0, 1]}, tmp_path / "one")
    axes = one.to_xarray().sel(y=1.0, kind="a").final_value
    assert axes.mean("seed").values.tolist() == [1.5, 2.5, 3.5]
    grid = {"x": [1.0, 2.0, 3.0], "y": list(range(8)), "kind": ["a", "b"], "seed": [0, 1]}
    many = mf.runs.sweep(value, grid, tmp_path / "many").plot()
    maps = [ax for ax in many.axes if any(part.get_gid() == "map" for part in ax.collections)]
    assert [ax.get_title() for ax in maps] == ["kind = a", "kind = b"]
    flat = mf.runs.sweep(
        lambda x, seed: x + 0.0 * seed, {"x": [1.0, 2.0, 3.0], "seed": [0, 1]}, tmp_path / "flat"
    ).plot()
    means = [line for line in flat.axes[0].get_lines() if line.get_gid() == "mean"]
    assert means[0].get_ydata().tolist() == [1.0, 2.0, 3.0]


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
    (tmp_path / "run1.0" / "run.json").write_text(json.dumps(info))
    assert main(["rerun", str(tmp_path / "run1.0"), "--out", str(tmp_path / "again")]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "The data are the same to the bit. Versions that differ: jax 0.1 then," in said
    short = mf.runs.run("simulate", out=str(tmp_path / "short"), beta=1.0, **{**words, "frames": 2})
    assert "not comparable" in str(agreement(one, short))


def test_words_have_a_curve_each_and_too_many_axes_are_refused(tmp_path):
    def value(x, kind, y=0.0, z=0.0):
        return float(x) + (kind == "b") + float(y) + float(z)

    two = mf.runs.sweep(value, {"x": [1.0, 2.0], "kind": ["a", "b"]}, tmp_path / "two").plot().axes[0]
    means = {line.get_label(): line.get_ydata().tolist() for line in two.get_lines() if line.get_gid() == "mean"}
    assert means == {"kind = a": [1.0, 2.0], "kind = b": [2.0, 3.0]}
    many = {"x": list(range(7)), "kind": ["a"], "y": list(range(7)), "z": list(range(7))}
    with pytest.raises(InputError, match=r"this sweep has x, kind, y, z. Take a part of"):
        mf.runs.sweep(value, many, tmp_path / "many").plot()

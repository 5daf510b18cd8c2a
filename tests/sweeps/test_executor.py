"""Sweeps: cells in batches agree with runs of their own, nothing is computed twice, nothing is lost."""

import dataclasses
import json
import math
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

import measureflow as mf
from measureflow.runs.command import command
from measureflow.runs.folder import StorageError
from measureflow.sweeps import cells, ledger
from measureflow.sweeps.batches import traceable
from measureflow.sweeps.executor import Interrupted
from measureflow.words import InputError

BASE = {"n": 6, "dim": 3, "time": 1.0, "solver": "rk4", "dt": 0.25, "frames": 5, "series": ["met", "overlap"]}
CALLS = []
"""What functions below were called with: a variable that they hold would be part of their fingerprint."""
AXES = {"beta": [0.5, 4.0], "seed": [0, 1, 2]}


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """A small sweep that keeps its series."""
    return mf.runs.sweep(BASE, AXES, tmp_path_factory.mktemp("sweeps") / "small", keep="series")


def counted(monkeypatch):
    """The cells that are computed from now on."""
    seen = []
    rows = cells.CommandWork.rows

    def count(self, chunk):
        seen.extend(chunk.cells)
        return rows(self, chunk)

    monkeypatch.setattr(cells.CommandWork, "rows", count)
    return seen


def test_a_cell_of_a_batch_is_the_run_of_its_own(swept, tmp_path):
    run = mf.runs.run("simulate", out=str(tmp_path / "run"), **BASE, beta=4.0, seed=2)
    (found,) = [one for one in swept if one.cell == {"beta": 4.0, "seed": 2}]
    assert found.row.outcome == run.outcome
    np.testing.assert_array_equal(found.row.times, run.times)
    for name, series in run.series.items():
        # The batch draws, sums and steps in another order of operations: some roundings apart.
        assert found.row.final[name] == pytest.approx(float(series.values[-1]), abs=1e-13), name
        if name != "clusters":
            np.testing.assert_allclose(found.row.series[name], series.values, rtol=0, atol=1e-13)
    assert found.row.stats["steps"] == run.stats["steps"] == 4
    assert found.row.stats["error"] == pytest.approx(run.stats["error"], rel=1e-6)


def test_the_table_has_every_setting_and_result_and_xarray_opens_it(swept):
    table = swept.table
    assert len(table) == 6
    settings = command("simulate").settings({**BASE, "beta": 0.5, "seed": 0})
    assert set(type(settings).model_fields) - {*settings.aside, "movie"} <= set(table.columns)
    assert {"final_energy", "final_order", "final_clusters", "final_met", "outcome", "ok", "error", "seconds"} <= set(
        table
    )
    assert (table.error > 0).all()
    assert (table.seconds > 0).all()
    data = xr.open_zarr(swept.path / "table.zarr")
    assert dict(data.sizes) == {"beta": 2, "seed": 3, "time": 5}
    picked = data.sel(beta=4.0, seed=1)
    row = table[(table.beta == 4.0) & (table.seed == 1)].iloc[0]
    assert float(picked.final_order) == row.final_order == float(picked.order[-1])
    assert str(picked.outcome.values) == "Reached t = 1."
    again = mf.runs.open_sweep(swept.path)
    assert again.table.equals(table)
    assert repr(again).endswith("6 of 6 cells, simulate over beta, seed)")


def test_nothing_is_computed_twice_and_an_extended_design_computes_its_new_cells_alone(swept, monkeypatch):
    seen = counted(monkeypatch)
    mf.runs.sweep(BASE, AXES, swept.path, keep="series")
    assert not seen
    longer = mf.runs.sweep(BASE, {"beta": [0.5, 2, 4.0], "seed": [0, 1, 2]}, swept.path, keep="series")
    assert [one.cell["beta"] for one in seen] == [2, 2, 2]
    assert len(longer) == 9
    assert len({one.key for one in longer}) == 9
    seen.clear()
    again = mf.runs.sweep({**BASE, "n": 6.0, "solver": "rk4"}, AXES, swept.path, keep="series")
    assert not seen  # the same numbers, written otherwise
    assert len(again) == 6
    assert len(again.everything) == 9
    mf.runs.sweep({**BASE, "dt": 0.2}, {"beta": [4.0], "seed": [0]}, swept.path, keep="series")
    assert len(seen) == 1  # another base


def test_what_can_be_traced_is_found_by_trying():
    simulate = command("simulate")
    names = ("beta", "seed", "time", "dt", "n", "dim", "frames", "tolerance", "layers")
    settings = simulate.settings({**BASE, "beta": 1.0, "seed": 3, "tolerance": 0.1})
    assert traceable(simulate, settings, names) == ("beta", "seed", "time", "dt")
    merging = simulate.settings({"n": 6, "beta": 1.0, "merge": 0.1})
    assert traceable(simulate, merging, ("beta", "seed")) == ()
    heads = command("train heads")
    assert traceable(heads, heads.settings({}), ("seed", "time")) == ()


def test_a_batch_is_compiled_once_whatever_the_numbers(tmp_path):
    CALLS.clear()

    def order(beta, seed):
        CALLS.append(None)
        start = mf.Particles.iid(mf.Sphere(3), 4, key=jax.random.key(seed))
        return mf.evolve(mf.SoftmaxAttention.isotropic(3, beta), start, [0.0, 1.0], mf.Euler(0.5)).final.points[0, 0]

    found = mf.runs.sweep(order, {"beta": np.linspace(0, 4, 70), "seed": [5]}, tmp_path / "s")
    assert len(found) == 70
    assert len(CALLS) <= 3  # one to see whether it can be traced, one a size of batch


def test_a_function_that_cannot_be_traced_is_called_cell_by_cell_and_its_failures_are_told(tmp_path):
    def root(x, kind):
        if kind == "odd":
            raise ValueError(f"no {kind} roots of {x}")
        return {"root": float(x) ** 0.5, "half": np.array([x, x / 2])}

    found = mf.runs.sweep(root, {"x": [4.0, 9.0], "kind": ["even", "odd"]}, tmp_path / "s", keep="series")
    table = found.table.set_index(["x", "kind"])
    assert table.final_root[9.0, "even"] == 3.0
    assert not table.ok[9.0, "odd"]
    assert table.outcome[9.0, "odd"] == "Failed: ValueError: no odd roots of 9.0"
    assert list(found.failed.x) == [4.0, 9.0]
    assert found.to_xarray().half.sel(x=4.0, kind="even").values.tolist() == [4.0, 2.0]
    with pytest.raises(InputError, match=r"`keep` runs is for commands"):
        mf.runs.sweep(root, {"x": [4.0]}, tmp_path / "t", keep="runs")


def test_a_function_may_give_flows_which_are_run_and_watched(tmp_path):
    def flow(beta):
        start = mf.Particles(mf.Sphere(2), np.eye(2))
        return mf.Flow(mf.SoftmaxAttention.isotropic(2, beta), start, [0.0, 1.0, 2.0], mf.RK4(0.1))

    found = mf.runs.sweep(flow, {"beta": [0.0]}, tmp_path / "s")
    # Two tokens at a right angle at beta = 0: the overlap is the hyperbolic tangent of time, so |mean|^2 = (1 + tanh 2) / 2.
    assert found.table.final_order[0] == pytest.approx(np.sqrt((1 + np.tanh(2.0)) / 2), abs=1e-5)
    assert found.table.error[0] < 1e-5


def test_numbers_that_are_not_finite_are_told(tmp_path):
    found = mf.runs.sweep(lambda x: {"log": jnp.log(x), "x": x}, {"x": [1.0, -1.0]}, tmp_path / "s")
    assert found.table.outcome.tolist() == ["Computed.", "Not finite: log."]


def test_cells_that_contradict_themselves_are_recorded_and_the_others_computed(tmp_path):
    base = {"init": "equiangular", "layers": 1, "n": 4, "time": 1.0}
    found = mf.runs.sweep(base, {"dim": [2, 4]}, tmp_path / "s")
    assert found.table.ok.tolist() == [False, True]
    assert "`dim` at least `n`" in found.table.outcome[0]
    with pytest.raises(InputError, match=r"`dim` at least `n`"):
        mf.runs.sweep(base, {"dim": [2, 3]}, tmp_path / "t")


def test_a_blow_up_is_a_result_of_its_cell(tmp_path):
    base = {"measure": "gaussian", "space": "euclidean", "dim": 2, "attention": "softmax", "time": 5.0, "frames": 3}
    found = mf.runs.sweep(base, {"beta": [-1.0, 4.0]}, tmp_path / "s")
    assert found.table.ok.tolist() == [True, False]
    assert "Blew up" in found.table.outcome[1]
    assert np.isnan(found.table.error[1])
    assert found.table.reached[1] < 5.0
    assert not len(found.failed)


def test_runs_are_kept_if_asked_for_and_training_is_swept_like_simulation(tmp_path):
    found = mf.runs.sweep(
        {"heads": 2, "time": 0.2, "frames": 3, "data": "f1"},
        {"seed": [0, 1]},
        tmp_path / "s",
        command="train heads",
        keep="runs",
    )
    assert found.table.ok.all()
    run = mf.runs.open(found.path / "runs" / found.table.key[1])
    assert run.config.seed == 1
    assert float(run.series["risk"].values[-1]) == found.table.final_risk[1]


def test_an_interrupted_sweep_goes_on_and_failed_cells_are_tried_again_if_asked(tmp_path):
    CALLS.clear()

    def value(x):
        CALLS.append(x)
        if x == 2 and len(CALLS) < 9:
            raise OSError("the disk is full")
        return math.sqrt(x) ** 2  # which is not traced

    def stop(progress):
        if progress.computed == 2:
            raise KeyboardInterrupt

    axes = {"x": [0, 1, 2, 3]}
    with pytest.raises(Interrupted):
        mf.runs.sweep(value, axes, tmp_path / "s", watch=stop)
    partial = mf.runs.open_sweep(tmp_path / "s")
    assert 2 <= len(partial) < 4
    assert not partial.finished
    done = mf.runs.sweep(value, axes, tmp_path / "s")
    assert done.finished
    assert "the disk is full" in done.failed.reason[0]
    CALLS.extend([None] * 9)
    known = len(CALLS)
    again = mf.runs.sweep(value, axes, tmp_path / "s", retry=True)
    assert CALLS[known:] == [2]
    assert again.table.final_value.tolist() == pytest.approx([0.0, 1.0, 2.0, 3.0])


def test_a_line_that_a_kill_left_half_written_is_cut_off(swept, tmp_path):
    whole = (swept.path / "cells.jsonl").read_bytes()
    path = tmp_path / "s"
    mf.runs.sweep(BASE, {"beta": [0.5], "seed": [0]}, path, keep="series")
    for left in (1, 100, len(whole.splitlines()[1])):
        (path / "cells.jsonl").write_bytes(whole.splitlines(keepends=True)[0] + whole.splitlines()[1][:left])
        assert len(dict(ledger.read(path))) == 1
        again = mf.runs.sweep(BASE, {"beta": [0.5], "seed": [0, 1]}, path, keep="series")
        assert len(again) == 2
        assert all(line.endswith(b"\n") for line in (path / "cells.jsonl").read_bytes().splitlines(keepends=True))
    (path / "cells.jsonl").write_bytes(b"{}\n" + whole)
    with pytest.raises(InputError, match=r"broken in line 1"):
        mf.runs.open_sweep(path).table  # noqa: B018


def test_series_that_are_asked_for_later_are_computed_then(tmp_path, monkeypatch):
    axes = {"beta": [0.5, 4.0], "seed": [0]}
    first = mf.runs.sweep(BASE, axes, tmp_path / "s")
    seen = counted(monkeypatch)
    later = mf.runs.sweep(BASE, axes, tmp_path / "s", keep="series")
    assert len(seen) == 2
    assert "order" in later.to_xarray()
    assert later.table.final_order.tolist() == pytest.approx(first.table.final_order.tolist(), abs=1e-13)
    mf.runs.sweep(BASE, axes, tmp_path / "s")
    assert len(seen) == 2


def test_a_changed_input_file_makes_another_cell(tmp_path, monkeypatch):
    seen = counted(monkeypatch)
    for points in (np.eye(3), np.eye(3)[:2], np.eye(3)):
        np.save(tmp_path / "tokens.npy", points)
        base = {"init": str(tmp_path / "tokens.npy"), "layers": 1, "time": 1.0}
        found = mf.runs.sweep(base, {"beta": [1.0]}, tmp_path / "s")
    assert len(seen) == 2  # the third file is the first again
    assert len(found.everything) == 2


def test_a_full_disk_is_a_sentence_and_loses_nothing(tmp_path, monkeypatch):
    def full(self, entries):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(ledger.Ledger, "add", full)
        with pytest.raises(
            StorageError, match=r"Stopped after 0 of 1 cells: No space left on device. What was computed"
        ):
            mf.runs.sweep(lambda x: x, {"x": [1.0]}, tmp_path / "s")
    assert mf.runs.sweep(lambda x: x, {"x": [1.0]}, tmp_path / "s").finished


def test_rows_come_back_from_the_ledger_to_the_same_bits(swept):
    (one, *_) = swept.cells
    again = type(one.row).restored(json.loads(json.dumps(one.row.kept())))
    assert dataclasses.replace(again, times=None, series={}) == dataclasses.replace(one.row, times=None, series={})
    for name, values in one.row.series.items():
        np.testing.assert_array_equal(again.series[name], values)


@pytest.mark.parametrize(
    ("base", "axes", "sentence"),
    [
        ({}, {"bta": [1.0]}, "`bta` is not an option of the command .did you mean 'beta'"),
        ({"bta": 1.0}, {"seed": [1]}, "`bta` is not an option"),
        ({}, {"out": ["a"]}, "`out` says where or by whom"),
        ({}, {"beta": ["warm"]}, "`beta`"),
        ({}, {"seed": range(30_000)}, "30000 cells, more than 20000: add `--yes`"),
    ],
)
def test_bad_sweeps_get_a_sentence_and_leave_nothing(base, axes, sentence, tmp_path):
    with pytest.raises(InputError, match=sentence):
        mf.runs.sweep(base, axes, tmp_path / "s")
    assert not (tmp_path / "s").exists()


def test_folders_of_something_else_and_of_other_versions_are_refused(swept, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("")
    with pytest.raises(InputError, match=r"holds something else than a sweep"):
        mf.runs.sweep(BASE, AXES, tmp_path / "mine")
    with pytest.raises(InputError, match=r"is not a sweep folder"):
        mf.runs.open_sweep(tmp_path / "mine")
    with pytest.raises(InputError, match=r"is a sweep of `simulate`, not of `train heads`"):
        mf.runs.sweep({}, {"seed": [0]}, swept.path, command="train heads")
    other = tmp_path / "other"
    mf.runs.sweep(lambda x: x, {"x": [1.0]}, other)
    about = json.loads((other / "sweep.json").read_text())
    (other / "sweep.json").write_text(json.dumps(about | {"format": 99}))
    for ask in (lambda: mf.runs.open_sweep(other), lambda: mf.runs.sweep(lambda x: x, {"x": [1.0, 2.0]}, other)):
        with pytest.raises(InputError, match=r"format 99, and 1 is known here"):
            ask()


def test_a_sweep_that_is_being_written_is_locked(tmp_path):
    def second(progress):
        with pytest.raises(InputError, match=r"being written by another process"):
            mf.runs.sweep(lambda x: x, {"x": [1.0]}, tmp_path / "s")

    mf.runs.sweep(lambda x: x, {"x": [1.0]}, tmp_path / "s", watch=second)


@pytest.mark.slow
def test_a_sweep_that_is_killed_again_and_again_loses_nothing_and_ends_as_if_it_never_was(tmp_path):
    script = Path(__file__).with_name("killed_sweep.py")
    done = subprocess.run([sys.executable, script, str(tmp_path), "4"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    left = json.loads(done.stdout.splitlines()[-1])
    assert len(left) >= 3
    assert left == sorted(left)
    assert 0 < left[0] < 1024
    base = {"n": 8, "dim": 3, "time": 2.0, "solver": "heun", "dt": 0.1, "frames": 3, "tolerance": 0.1}
    axes = {"beta": {"from": 0.0, "to": 4.0, "count": 32}, "seed": {"from": 0, "to": 31}}
    found = mf.runs.sweep(base, axes, tmp_path / "swept")
    assert len(found) == 1024
    lines = (tmp_path / "swept" / "cells.jsonl").read_text().splitlines()
    assert len(lines) == len({json.loads(line)["key"] for line in lines}) == 1024  # nothing was computed twice
    fresh = mf.runs.sweep(base, {"beta": [axes["beta"]["to"]], "seed": [0, 31]}, tmp_path / "fresh")
    known = found.table.set_index(["beta", "seed"])
    for row in fresh.table.itertuples():
        assert known.final_order[row.beta, row.seed] == pytest.approx(row.final_order, abs=1e-13)

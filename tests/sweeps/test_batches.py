"""Batches: a cell in one is the run of its own, and what can be traced is found by trying."""

import numpy as np
import pytest

import measureflow as mf
from measureflow.runs.command import command
from measureflow.sweeps.batches import MOST_CELLS, size_of, traceable


def test_a_cell_of_a_batch_is_the_run_of_its_own(swept, tmp_path, base):
    run = mf.runs.run("simulate", out=str(tmp_path / "run"), **base, beta=4.0, seed=2)
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


def test_what_can_be_traced_is_found_by_trying(base):
    simulate = command("simulate")
    names = ("beta", "seed", "time", "dt", "n", "dim", "frames", "tolerance", "layers")
    settings = simulate.settings({**base, "beta": 1.0, "seed": 3, "tolerance": 0.1})
    assert traceable(simulate, settings, names) == ("beta", "seed", "time", "dt")
    merging = simulate.settings({"n": 6, "beta": 1.0, "merge": 0.1})
    assert traceable(simulate, merging, ("beta", "seed")) == ()
    heads = command("train heads")
    assert traceable(heads, heads.settings({}), ("seed", "time")) == ()


def test_a_blow_up_is_a_result_of_its_cell(tmp_path):
    base = {"measure": "gaussian", "space": "euclidean", "dim": 2, "attention": "softmax", "time": 5.0, "frames": 3}
    found = mf.runs.sweep(base, {"beta": [-1.0, 4.0]}, tmp_path / "s")
    assert found.table.ok.tolist() == [True, False]
    assert "Blew up" in found.table.outcome[1]
    assert np.isnan(found.table.error[1])
    assert found.table.reached[1] < 5.0
    assert not len(found.failed)


def test_batches_have_equal_sizes_and_fit_into_memory():
    settings = command("simulate").settings({"n": 6})
    assert [size_of(settings, cells) for cells in (1, MOST_CELLS, MOST_CELLS + 2)] == [
        1,
        MOST_CELLS,
        MOST_CELLS // 2 + 1,
    ]
    assert size_of(command("simulate").settings({"n": 100_000}), 100) < 10


def test_series_that_are_asked_for_later_are_computed_then(tmp_path, computed, base):
    axes = {"beta": [0.5, 4.0], "seed": [0]}
    order = mf.runs.sweep(base, axes, tmp_path / "s").table.final_order.tolist()
    computed.clear()
    later = mf.runs.sweep(base, axes, tmp_path / "s", keep="series")
    assert len(computed) == 2
    assert "order" in later.to_xarray()
    assert later.table.final_order.tolist() == pytest.approx(order, abs=1e-13)
    mf.runs.sweep(base, axes, tmp_path / "s")
    assert len(computed) == 2

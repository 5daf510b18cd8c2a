"""Rows of the table: what is kept of a cell, and how it comes back."""

import dataclasses
import json

import numpy as np

import measureflow as mf
from measureflow.runs.outcomes import ERROR, RunOutcome
from measureflow.sweeps.row import Row
from measureflow.words import InputError


def test_rows_come_back_to_the_same_bits():
    values = np.array([0.1, 1 / 3, -0.0, 5e-324, np.inf, np.nan])
    row = Row("Computed.", True, "reached", 0.1 + 0.2, {"steps": 3}, {"x": 1 / 3}, 0.5, values, {"x": -values})
    again = Row.restored(json.loads(json.dumps(row.kept())))
    assert dataclasses.replace(again, times=None, series={}) == dataclasses.replace(row, times=None, series={})
    assert again.times.tobytes() == values.tobytes()
    assert again.series["x"].tobytes() == (-values).tobytes()
    short = dataclasses.replace(row, times=None, series={})
    assert Row.restored(json.loads(json.dumps(short.kept()))) == short


def test_a_failed_cell_has_its_reason_and_the_row_of_a_run_its_plain_stats():
    assert Row.failed(InputError("`n` is zero.")).outcome == "Failed: `n` is zero."
    failed = Row.failed(KeyError("n"), 2.0)
    assert (failed.outcome, failed.kind, failed.ok, failed.seconds) == ("Failed: KeyError: 'n'", ERROR, False, 2.0)
    stats = {"steps": 3, "engine": "dense", "sizes": [1, 2]}
    row = Row.of(RunOutcome("reached", "Reached t = 2.", 2.0), stats, {"x": 1.0}, 0.5)
    assert (row.outcome, row.ok, row.time, row.stats) == ("Reached t = 2.", True, 2.0, {"steps": 3, "engine": "dense"})


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

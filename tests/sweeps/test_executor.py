"""Sweeps: cells in batches agree with runs of their own, nothing is computed twice, nothing is lost."""

import json
import math
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import measureflow as mf
from measureflow.runs.folder import StorageError
from measureflow.sweeps import ledger
from measureflow.sweeps.executor import Interrupted
from measureflow.words import InputError

CALLS = []
"""What functions below were called with: a variable that they hold would be part of their fingerprint."""
AXES = {"beta": [0.5, 4.0], "seed": [0, 1, 2]}


def test_nothing_is_computed_twice_and_an_extended_design_computes_its_new_cells_alone(swept, computed, base, tmp_path):
    path = shutil.copytree(swept.path, tmp_path / "s")
    mf.runs.sweep(base, AXES, path, keep="series")
    assert not computed
    longer = mf.runs.sweep(base, {"beta": [0.5, 2, 4.0], "seed": [0, 1, 2]}, path, keep="series")
    assert [one.cell["beta"] for one in computed] == [2, 2, 2]
    assert len(longer) == 9
    assert len({one.key for one in longer}) == 9
    computed.clear()
    again = mf.runs.sweep({**base, "n": 6.0, "solver": "rk4"}, AXES, path, keep="series")
    assert not computed  # the same numbers, written otherwise
    assert len(again) == 6
    assert len(again.everything) == 9
    mf.runs.sweep({**base, "dt": 0.2}, {"beta": [4.0], "seed": [0]}, path, keep="series")
    assert len(computed) == 1  # another base


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

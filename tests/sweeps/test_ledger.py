"""The ledger of a sweep: whole lines, one writer, and folders that are refused."""

import contextlib
import json

import pytest

import measureflow as mf
from measureflow.sweeps import ledger
from measureflow.sweeps.ledger import Ledger
from measureflow.sweeps.row import Row
from measureflow.words import InputError


def test_what_is_added_is_there_and_later_lines_win(tmp_path):
    first, second = (Row("Computed.", True, "reached", final={"x": x}) for x in (1.0, 2.0))
    with contextlib.closing(Ledger.begin(tmp_path / "s", "function")) as open_ledger:
        open_ledger.add([("a", {"x": 1}, {"x": 1}, first), ("b", {"x": 2}, {"x": 2}, first)])
        open_ledger.add([("a", {"x": 1}, {"x": 1}, second)])
        open_ledger.label({"x": "the number"})
        open_ledger.label({"y": "another"})
    assert [key for key, _ in ledger.read(tmp_path / "s")] == ["a", "b", "a"]
    with contextlib.closing(Ledger.begin(tmp_path / "s", "function")) as again:
        assert again.entries["a"]["final"] == {"x": 2.0}
        assert again.entries["b"]["cell"] == {"x": 2}
    assert ledger.info(tmp_path / "s")["labels"] == {"x": "the number", "y": "another"}
    assert ledger.info(tmp_path / "s")["versions"] == ledger.versions()


def test_a_broken_folder_is_a_sentence(tmp_path):
    (tmp_path / "sweep.json").write_text("{")
    with pytest.raises(InputError, match=r"is a sweep that is broken: sweep.json"):
        ledger.info(tmp_path)
    with pytest.raises(InputError, match=r"is a sweep that is broken: sweep.keys"):
        ledger.keys(tmp_path)
    with pytest.raises(InputError, match=r"is a file; choose a folder"):
        Ledger.begin(tmp_path / "sweep.json", "simulate")


def test_a_line_that_a_kill_left_half_written_is_cut_off(swept, tmp_path, base):
    whole = (swept.path / "cells.jsonl").read_bytes()
    path = tmp_path / "s"
    mf.runs.sweep(base, {"beta": [0.5], "seed": [0]}, path, keep="series")
    for left in (1, 100, len(whole.splitlines()[1])):
        (path / "cells.jsonl").write_bytes(whole.splitlines(keepends=True)[0] + whole.splitlines()[1][:left])
        assert len(dict(ledger.read(path))) == 1
        again = mf.runs.sweep(base, {"beta": [0.5], "seed": [0, 1]}, path, keep="series")
        assert len(again) == 2
        assert all(line.endswith(b"\n") for line in (path / "cells.jsonl").read_bytes().splitlines(keepends=True))
    (path / "cells.jsonl").write_bytes(b"{}\n" + whole)
    with pytest.raises(InputError, match=r"broken in line 1"):
        mf.runs.open_sweep(path).table  # noqa: B018


def test_folders_of_something_else_and_of_other_versions_are_refused(swept, tmp_path, base):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("")
    with pytest.raises(InputError, match=r"holds something else than a sweep"):
        mf.runs.sweep(base, {"beta": [0.5]}, tmp_path / "mine")
    with pytest.raises(InputError, match=r"is not a sweep folder"):
        mf.runs.open_sweep(tmp_path / "mine")
    with pytest.raises(InputError, match=r"is a sweep of `simulate`, not of `train heads`"):
        mf.runs.sweep({}, {"seed": [0]}, swept.path, command="train heads")
    other = tmp_path / "other"
    mf.runs.sweep(lambda x: x, {"x": [1.0]}, other)
    about = json.loads((other / "sweep.json").read_text())
    (other / "sweep.json").write_text(json.dumps(about | {"format": 99}))
    for ask in (lambda: mf.runs.open_sweep(other), lambda: mf.runs.sweep(lambda x: x, {"x": [1.0, 2.0]}, other)):
        with pytest.raises(InputError, match=r"format 99, and 2 is known here"):
            ask()


def test_a_sweep_that_is_being_written_is_locked(tmp_path):
    def second(progress):
        with pytest.raises(InputError, match=r"being written by another process"):
            mf.runs.sweep(lambda x: x, {"x": [1.0]}, tmp_path / "s")

    mf.runs.sweep(lambda x: x, {"x": [1.0]}, tmp_path / "s", watch=second)

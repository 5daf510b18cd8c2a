"""The ledger of a sweep: whole lines, one writer, and folders that are refused."""

import contextlib
import json
import os
import shutil

import numpy as np
import pytest

import measureflow as mf
from measureflow.runs.checksums import sealed
from measureflow.runs.folder import StorageError, write
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
    del about["checksum"]
    (other / "sweep.json").write_text(json.dumps(sealed(about | {"format": 99})))
    for ask in (lambda: mf.runs.open_sweep(other), lambda: mf.runs.sweep(lambda x: x, {"x": [1.0, 2.0]}, other)):
        with pytest.raises(InputError, match=r"format 99, and 3 is known here"):
            ask()


def test_a_sweep_that_is_being_written_is_locked(tmp_path):
    def second(progress):
        with pytest.raises(InputError, match=r"being written by another process"):
            mf.runs.sweep(lambda x: x, {"x": [1.0]}, tmp_path / "s")

    mf.runs.sweep(lambda x: x, {"x": [1.0]}, tmp_path / "s", watch=second)


def everything(path):
    """All that can be read of a sweep."""
    found = mf.runs.open_sweep(path)
    return repr((found.title, found.table.to_dict(), found.to_xarray().to_dict(), found.labels, found.finished))


def test_a_flipped_bit_anywhere_is_said_or_changes_nothing(swept, tmp_path, base):
    """In every file of a sweep, reading gives the same or says what is broken, and so does going on."""
    path = shutil.copytree(swept.path, tmp_path / "s")
    whole, seen, chance = everything(path), set(), np.random.default_rng(0)
    for file in [file for file in path.rglob("*") if file.is_file()]:
        held = file.read_bytes()
        many = 60 if file.parent == path else 2  # table.zarr is written and never read
        for place in {0, len(held) - 1, *chance.integers(0, len(held), many).tolist()}:
            file.write_bytes(held[:place] + bytes([held[place] ^ (1 << int(chance.integers(8)))]) + held[place + 1 :])
            try:
                assert everything(path) == whole, (file, place)
            except InputError as error:
                seen.add((file.name, "broken" in str(error)))
        if file.parent == path and file.suffix != ".toml":
            with pytest.raises(InputError, match=f"broken.*{file.name}|{file.name}.*broken in line"):
                mf.runs.sweep(base, {"beta": [0.5]}, path, keep="series")
        file.write_bytes(held)
    assert seen == {("sweep.json", True), ("cells.jsonl", True)}


def test_a_cell_whose_line_is_removed_is_computed_again(swept, tmp_path, base, computed):
    path = shutil.copytree(swept.path, tmp_path / "s")
    lines = (path / "cells.jsonl").read_bytes().splitlines(keepends=True)
    (path / "cells.jsonl").write_bytes(b"".join([*lines[:2], lines[2].replace(b"0", b"1", 1), *lines[3:]]))
    with pytest.raises(
        InputError, match=r"broken in line 3: .*Remove that line, and the same sweep computes its cell again"
    ):
        mf.runs.sweep(base, {"beta": [0.5, 4.0], "seed": [0, 1, 2]}, path, keep="series")
    (path / "cells.jsonl").write_bytes(b"".join([*lines[:2], *lines[3:]]))
    again = mf.runs.sweep(base, {"beta": [0.5, 4.0], "seed": [0, 1, 2]}, path, keep="series")
    assert len(computed) == 1
    # One cell alone is another program than a batch, and differs by roundings.
    assert again.table.final_order.tolist() == pytest.approx(swept.table.final_order.tolist(), rel=1e-12)


def test_a_folder_of_the_version_before_is_read_and_brought_to_this_one(swept, tmp_path, base, computed):
    path = shutil.copytree(swept.path, tmp_path / "s")
    lines = [json.loads(line) for line in (path / "cells.jsonl").read_text().splitlines()]
    older = [{name: value for name, value in line.items() if name != "checksum"} for line in lines]
    (path / "cells.jsonl").write_text("".join(json.dumps(line) + "\n" for line in older))
    about = json.loads((path / "sweep.json").read_text())
    (path / "sweep.keys").write_text("".join(f"{key}\n" for key in about["keys"]))
    for name in ("checksum", "design", "keys"):
        del about[name]
    (path / "sweep.json").write_text(json.dumps(about | {"format": 2}))
    assert everything(path) == everything(swept.path)
    mf.runs.sweep(base, {"beta": [0.5, 4.0], "seed": [0, 1, 2]}, path, keep="series")
    assert not computed
    assert all("checksum" in json.loads(line) for line in (path / "cells.jsonl").read_text().splitlines())
    assert ledger.info(path)["format"] == 3
    assert everything(path) == everything(swept.path)


def test_a_full_disk_leaves_whole_lines_and_a_folder_that_is_still_a_sweep(tmp_path, monkeypatch):
    """Whichever write it is that finds no room."""
    room = [0]

    def full(path, text):
        room[0] -= 1
        if room[0] < 0:
            raise OSError(28, "No space left on device")
        write(path, text)

    for writes in range(3):
        with monkeypatch.context() as patched:
            room[0] = writes
            patched.setattr(ledger, "write", full)
            with pytest.raises(StorageError, match=r"Stopped after 0 of 1 cells: No space left on device"):
                mf.runs.sweep(lambda x: x, {"x": [1.0]}, tmp_path / "s")
    (tmp_path / "s" / "sweep.json").unlink()
    (tmp_path / "s" / "sweep.json.tmp").write_text("{")  # of a process that was killed
    for rest in ("sweep.toml", "cells.jsonl"):
        (tmp_path / "s" / rest).unlink()
    assert mf.runs.sweep(lambda x: x, {"x": [1.0]}, tmp_path / "s").finished
    with contextlib.closing(Ledger.begin(tmp_path / "s", "function")) as again:
        before = (tmp_path / "s" / "cells.jsonl").read_bytes()
        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
            with pytest.raises(OSError, match="No space left"):
                again.add([("a", {"x": 1}, {"x": 1}, Row("Computed.", True, "reached"))])
        assert (tmp_path / "s" / "cells.jsonl").read_bytes() == before
        assert "a" not in again.entries

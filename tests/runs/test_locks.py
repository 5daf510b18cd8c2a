"""Locks of folders: one writer, and to the end of the pictures where that is asked for."""

import pytest

from measureflow.cli import main, showing
from measureflow.runs.locks import is_alive, lock_folder, locks_kept, release
from measureflow.words import InputError


def test_a_folder_has_one_writer(tmp_path):
    lock = lock_folder(tmp_path)
    assert is_alive(tmp_path)
    with pytest.raises(InputError, match="is being written by another process"):
        lock_folder(tmp_path)
    release(lock)
    assert not is_alive(tmp_path)


def test_locks_are_kept_where_that_is_asked_for(tmp_path):
    with locks_kept():
        release(lock_folder(tmp_path))
        assert is_alive(tmp_path)
    assert not is_alive(tmp_path)


def test_a_run_is_locked_until_its_pictures_are_drawn(tmp_path, monkeypatch):
    seen = []
    report = showing.report
    monkeypatch.setattr(showing, "report", lambda console, run, **words: seen.append(run.alive) or report(console, run))
    words = ["--n", "4", "--time", "0.1", "--frames", "2", "--no-verify", "--out", str(tmp_path / "run")]
    assert main(["simulate", *words]) == 0
    assert seen == [True]
    assert not is_alive(tmp_path / "run")

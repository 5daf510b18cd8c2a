"""Errors that nothing foresaw: a sentence, an exit code, a log file."""

import errno
import os
import tempfile
from pathlib import Path

import pytest

from measureflow.cli import main, study


@pytest.fixture
def fails(tmp_path, monkeypatch):
    """A function that lets a command fail with an error."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("MEASUREFLOW_DEBUG", raising=False)

    def with_(error: BaseException) -> int:
        def broken(argv):
            raise error

        monkeypatch.setattr(study, "main", broken)
        return main(["study", "some words"])

    return with_


def test_an_unforeseen_error_is_a_sentence_that_names_its_log(fails, tmp_path, capsys):
    assert fails(KeyError("[bold]colour\nof")) == 70
    said = capsys.readouterr()
    (log,) = (tmp_path / "state" / "measureflow").iterdir()
    assert said.out == ""
    assert said.err == (
        f"An error of measureflow itself, KeyError: '[bold]colour\\nof'. Please report it with {str(log)!r}; "
        "MEASUREFLOW_DEBUG=1 shows the traceback.\n"
    )
    kept = log.read_text()
    assert "measureflow study 'some words'" in kept
    assert "Traceback" in kept
    assert "in broken" in kept


def test_a_log_goes_where_it_can_be_written(fails, tmp_path, monkeypatch, capsys):
    (tmp_path / "state").write_text("a file, in which no folder can be made")
    (tmp_path / "other").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "other"))
    assert fails(ValueError("wrong")) == 70
    (log,) = (tmp_path / "other").iterdir()
    assert str(log) in capsys.readouterr().err
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "state"))
    assert fails(ValueError("wrong")) == 70
    assert "No log file could be written" in capsys.readouterr().err


def test_developers_see_the_traceback(fails, monkeypatch):
    monkeypatch.setenv("MEASUREFLOW_DEBUG", "1")
    with pytest.raises(KeyError):
        fails(KeyError("colour"))


@pytest.mark.parametrize(
    ("error", "code", "sentence"),
    [
        (MemoryError("Unable to allocate 74.5 GiB"), 1, "The memory does not suffice: Unable to allocate 74.5 GiB. "),
        (RuntimeError("RESOURCE_EXHAUSTED: Out of memory"), 1, "The memory does not suffice: RESOURCE_EXHAUSTED: "),
        (OSError(errno.ENAMETOOLONG, "File name too long", "x"), 2, "Cannot use 'x': File name too long.\n"),
        (OSError(errno.EACCES, "Permission denied", b"\xff"), 2, "Cannot use b'\\xff': Permission denied.\n"),
        (OSError(errno.ENOSPC, "No space left on device"), 1, "No space left on device.\n"),
    ],
)
def test_what_the_system_refuses_needs_no_log(fails, tmp_path, capsys, error, code, sentence):
    assert fails(error) == code
    assert capsys.readouterr().err.startswith(sentence)
    assert not (tmp_path / "state").exists()


def test_a_working_folder_that_is_gone_is_a_sentence(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("here").mkdir()
    monkeypatch.chdir("here")
    os.rmdir(tmp_path / "here")
    assert main(["study", "list"]) == 2
    assert capsys.readouterr().err == "The working folder is gone: change to one that is there.\n"

"""A run folder that comes from elsewhere executes nothing: not when it is looked at, and not when it is gone on with."""

import os
import py_compile
import stat
import subprocess
from pathlib import Path

import numpy as np
import pytest

import measureflow as mf
from measureflow.cli import main
from measureflow.runs import trust
from measureflow.runs.command import command
from measureflow.words import InputError, vocabulary

WORDS = """
from pathlib import Path
from measureflow.fields import SoftmaxAttention
from measureflow.words import Word, vocabulary

Path("{mark}").write_text("executed")
vocabulary.ATTENTIONS.add("{word}", Word("mine", SoftmaxAttention))
"""
ASKED = {"n": 4, "dim": 2, "time": 0.5, "frames": 4, "frames_per_leg": 2, "verify": False}


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """A folder and a register of one's own, and tables as they were when the test is over."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    before = dict(vocabulary.ATTENTIONS)
    yield
    vocabulary.ATTENTIONS.clear()
    vocabulary.ATTENTIONS.update(before)


def forget(*files, monkeypatch):
    """What a process knows that has not run these files."""
    for file in files:
        monkeypatch.delitem(__import__("sys").modules, f"measureflow_words_{Path(file).stem}")
    for word in ("own", "evil"):
        vocabulary.ATTENTIONS.pop(word, None)


@pytest.fixture
def foreign(break_after, monkeypatch):
    """An interrupted run of somebody else, with a file that was never run here."""
    Path("shared").mkdir()
    Path("shared/evil.py").write_text(WORDS.format(mark="mark", word="evil"))
    break_after(2, mf.runs.run, "simulate", **ASKED, use="shared/evil.py", attention="evil", out="shared/run")
    forget("shared/evil.py", monkeypatch=monkeypatch)
    trust.register().unlink()
    Path("mark").unlink()
    return Path("shared/run")


def test_looking_at_a_run_executes_nothing(foreign, capsys):
    mf.runs.run("simulate", **ASKED, out="mine")
    run = mf.runs.open(foreign)
    assert run.words["attention"] == "evil"
    assert 'use = "shared/evil.py"' in run.toml
    with pytest.raises(
        InputError, match=r"`attention`(.*\n)*.*from 'shared/evil.py', which looking at a run does not execute"
    ):
        _ = run.config
    assert run.at(-1).points.shape == (4, 2)
    assert main(["plot", str(foreign)]) == 0
    assert main(["compare", "mine", str(foreign)]) == 0
    printed = capsys.readouterr().out
    assert "evil" in printed
    assert Path("shared/run/figure.png").is_file()
    assert not Path("mark").exists()


@pytest.mark.parametrize("what", ["resume", "rerun"])
def test_going_on_or_running_again_asks_first(what, foreign, capsys):
    assert main([what, str(foreign)]) == 2
    assert "'shared/evil.py', a Python file that you have not run with this content before" in capsys.readouterr().err
    assert not Path("mark").exists()
    assert main([what, str(foreign), "--trust"]) == (what == "rerun")  # it was interrupted, so it is not the same
    assert Path("mark").read_text() == "executed"


@pytest.mark.parametrize("what", ["plot", "compare"])
def test_a_user_may_trust_what_is_looked_at(what, foreign):
    words = [str(foreign)] if what == "plot" else [str(foreign), str(foreign)]
    assert main([what, *words, "--trust"]) == 0
    assert Path("mark").is_file()


def test_a_run_of_ones_own_goes_on_until_its_file_changes(break_after, monkeypatch):
    Path("own.py").write_text(WORDS.format(mark="mark", word="own"))
    for name in ("one", "two"):
        break_after(2, mf.runs.run, "simulate", **ASKED, use="own.py", attention="own", out=name)
    whole = mf.runs.run("simulate", **ASKED, use="own.py", attention="own", out="whole")
    forget("own.py", monkeypatch=monkeypatch)
    Path("mark").unlink()
    np.testing.assert_array_equal(mf.runs.resume("one").points, whole.points)
    assert Path("mark").is_file()
    forget("own.py", monkeypatch=monkeypatch)
    Path("own.py").write_text(WORDS.format(mark="mark", word="own") + "# changed\n")
    with pytest.raises(InputError, match="have not run with this content before"):
        mf.runs.resume("two")
    assert mf.runs.resume("two", trust=True).finished


def test_compiled_code_beside_a_file_is_never_taken_for_it(monkeypatch):
    """An import would take it where its time and size fit."""
    Path("own.py").write_text(WORDS.format(mark="good", word="own"))
    trust.use("own.py")
    forget("own.py", monkeypatch=monkeypatch)
    held = os.stat("own.py")
    Path("evil.py").write_text(WORDS.format(mark="evil", word="own"))
    os.utime("evil.py", ns=(held.st_atime_ns, held.st_mtime_ns))
    compiled = Path(py_compile.compile("evil.py"))
    compiled.rename(compiled.with_name(compiled.name.replace("evil", "own")))
    trust.use("own.py")
    assert Path("good").is_file()
    assert not Path("evil").exists()


def test_what_was_run_is_known_by_its_content_and_only_to_its_user():
    Path("own.py").write_text("x = 1\n")
    for _ in range(2):
        trust.use("own.py")
    lines = trust.register().read_text().split()
    assert lines == [subprocess.run(["sha256sum", "own.py"], capture_output=True, text=True).stdout.split()[0]]
    assert stat.S_IMODE(trust.register().parent.stat().st_mode) == 0o700
    with pytest.raises(InputError, match=r"there is no 'nowhere.py'\."):
        trust.use("nowhere.py")


def test_a_place_that_cannot_be_written_to_costs_a_question_later(monkeypatch):
    Path("state").write_text("")
    Path("other.py").write_text("x = 2\n")
    trust.use("other.py")
    assert not trust.register().is_file()
    assert command("simulate").settings({"use": "other.py", "n": 3}).n == 3

"""`--force`: the old run is there, whole, until the new one is, and nothing else is ever removed."""

import errno
import json
import os
import shutil

import numpy as np
import pytest

import measureflow as mf
from measureflow.runs.executor import Interrupted
from measureflow.runs.replacement import is_run, make_place, pending
from measureflow.words import InputError


@pytest.fixture
def old(tmp_path, flow):
    """A finished run that is to be replaced."""
    run = mf.runs.record(flow(), tmp_path / "run", verify=False)
    assert run.info["finished"]  # it is read now
    return run


def again(flow, path, **words):
    return mf.runs.record(flow(beta=2.0), path, force=True, frames_per_leg=2, verify=False, **words)


def names(folder):
    return sorted(item.name for item in folder.iterdir())


def test_the_old_run_is_whole_until_the_new_one_is(old, tmp_path, flow):
    seen = []

    def watch(job, state):
        seen.append((names(tmp_path), mf.runs.open(old.path).info))

    new = again(flow, old.path, watch=watch)
    assert len(seen) >= 4
    assert all(one == ([".run.partial-1", "run"], old.info) for one in seen)
    assert new.path == old.path
    assert names(tmp_path) == ["run"]
    assert mf.runs.open(old.path).info["run"] == new.info["run"] != old.info["run"]
    assert not new.alive


@pytest.mark.parametrize("how", ["interrupted", "failed", "killed"])
def test_a_new_run_that_ends_early_leaves_the_old_one_and_takes_its_place_when_it_is_resumed(
    how, old, tmp_path, flow, break_after
):
    ending = {"interrupted": KeyboardInterrupt, "failed": RuntimeError("no")}

    def watch(job, state):
        if state.frames >= 2:
            raise ending[how]

    if how == "killed":
        break_after(2, again, flow, old.path)
    else:
        with pytest.raises((Interrupted, RuntimeError)):
            again(flow, old.path, watch=watch)
    beside = tmp_path / ".run.partial-1"
    assert mf.runs.open(old.path).info == old.info
    assert mf.runs.open(beside).frames == 2
    assert str(beside) in mf.runs.open(beside).outcome or how == "failed"
    done = mf.runs.record(flow(beta=2.0), beside, resume=True, frames_per_leg=2, verify=False)
    assert done.path == old.path.resolve()
    assert (done.frames, done.ok) == (6, True)
    assert names(tmp_path) == ["run"]
    whole = mf.runs.record(flow(beta=2.0), tmp_path / "whole", frames_per_leg=2, verify=False)
    np.testing.assert_array_equal(done.points, whole.points)


def test_a_run_that_was_killed_before_it_took_its_place_takes_it_when_it_is_resumed(old, tmp_path, flow, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr("measureflow.runs.replacement._exchange", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            again(flow, old.path)
    beside = tmp_path / ".run.partial-1"
    assert mf.runs.open(beside).finished
    assert pending(beside, mf.runs.open(beside).info) == old.path.resolve()
    done = mf.runs.record(flow(beta=2.0), beside, resume=True, frames_per_leg=2, verify=False)
    assert done.path == old.path.resolve()
    assert done.info["run"] != old.info["run"]
    assert pending(done.path, done.info) is None


def test_without_an_exchange_of_the_system_names_change_one_after_the_other(old, tmp_path, flow, monkeypatch):
    monkeypatch.setattr("measureflow.runs.replacement._exchange", lambda *_: False)
    assert again(flow, old.path).frames == 6
    assert names(tmp_path) == ["run"]


def test_what_is_put_into_the_old_folder_meanwhile_is_kept(old, tmp_path, flow):
    def watch(job, state):
        (old.path / "notes.txt").write_text("years of work")

    with pytest.raises(InputError, match=r"also holds 'notes.txt'.*\n.*The new run is whole, in '.*partial-1'"):
        again(flow, old.path, watch=watch)
    assert mf.runs.open(old.path).info == old.info
    assert mf.runs.open(tmp_path / ".run.partial-1").finished
    (old.path / "notes.txt").unlink()
    mf.runs.record(flow(beta=2.0), tmp_path / ".run.partial-1", resume=True, frames_per_leg=2, verify=False)
    assert names(tmp_path) == ["run"]


def test_the_old_run_is_locked_while_it_is_replaced(old, flow):
    def watch(job, state):
        with pytest.raises(InputError, match="being written by another process"):
            again(flow, old.path)

    assert again(flow, old.path, watch=watch).ok


FOREIGN = {
    "a marker of somebody": lambda run: [
        shutil.rmtree(run), (run / "data.zarr").mkdir(parents=True), (run / "run.json").write_text('{"format": 2}'),
    ],
    "another data.zarr": lambda run: [
        shutil.rmtree(run / "data.zarr"), (run / "data.zarr" / "mine").mkdir(parents=True),
        (run / "data.zarr" / "mine" / "zarr.json").write_text("years of work"),
    ],
    "a file among the chunks": lambda run: (run / "data.zarr" / "points" / "c" / "thesis.tex").write_text(""),
    "a link": lambda run: (run / "movie.gif").symlink_to(run.parent / "film.gif"),
    "a folder": lambda run: (run / "figure.png").mkdir(),
    "a state of somebody": lambda run: (run / "state-mine.eqx").write_text(""),
    "a changed run.json": lambda run: (run / "run.json").write_text((run / "run.json").read_text().replace("R", "r")),
}  # fmt: skip


@pytest.mark.parametrize("kind", FOREIGN)
def test_what_no_run_wrote_is_never_replaced(kind, old, flow):
    FOREIGN[kind](old.path)
    before = sorted(map(str, old.path.rglob("*")))
    with pytest.raises(InputError, match="`--force` does not replace it"):
        again(flow, old.path)
    assert sorted(map(str, old.path.rglob("*"))) == before
    assert names(old.path.parent) == ["run"]


def test_a_folder_is_a_run_if_a_run_wrote_it(old, tmp_path):
    assert is_run(old.path)
    assert not is_run(tmp_path)
    held = json.loads((old.path / "run.json").read_text())
    older = {name: held[name] for name in ("command", "fingerprint", "versions")} | {"format": 2}
    (old.path / "run.json").write_text(json.dumps(older))
    assert is_run(old.path)
    for wrong in ({"format": 3}, {"command": "bake"}, {"fingerprint": "mine"}, {"versions": {}}):
        (old.path / "run.json").write_text(json.dumps(older | wrong))
        assert not is_run(old.path)


def test_a_new_run_that_cannot_begin_leaves_nothing_beside(old, tmp_path, flow, monkeypatch):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("measureflow.runs.folder.RunFolder.keep", full)
    with pytest.raises(InputError, match="No space left"):
        again(flow, old.path)
    assert names(tmp_path) == ["run"]
    assert not old.alive


def test_a_place_is_new_and_locked(tmp_path):
    place = make_place(str(tmp_path / "a"), "simulate", False)
    with pytest.raises(InputError, match="being written by another process"):
        make_place(str(tmp_path / "a"), "simulate", False)
    os.close(place.lock)
    assert place.settle() == tmp_path / "a"

"""Run folders: what is in them, and that nothing of a user is ever lost."""

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import equinox as eqx
import numpy as np
import pytest
import xarray

import measureflow as mf
from measureflow.runs.command import command
from measureflow.words import InputError


def test_xarray_reads_the_frames_by_name(run):
    data = xarray.open_zarr(run.path / "data.zarr")
    assert dict(data.sizes) == {"time": 9, "token": 24, "coordinate": 3}
    assert data.points.dims == ("time", "token", "coordinate")
    np.testing.assert_allclose(data.time, np.linspace(0, 2, 9))
    np.testing.assert_allclose(data.weights.sum(), 1.0)
    np.testing.assert_allclose(np.linalg.norm(data.points, axis=-1), 1.0, atol=1e-14)


def test_the_state_is_the_measure_after_the_last_frame(run):
    marker = json.loads((run.path / "commit.json").read_text())
    assert (marker["frames"], marker["state"]) == (9, "state-9.eqx")
    assert [p.name for p in run.path.glob("state-*")] == ["state-9.eqx"]
    state = eqx.tree_deserialise_leaves(run.path / "state-9.eqx", command("simulate").job(run.config).flow.start)
    # A frame is read off inside the last step, the state at its end: they differ by roundings.
    np.testing.assert_allclose(state.points, run.final.points, atol=1e-11)


def test_an_existing_folder_is_never_overwritten_without_force(run):
    before = (run.path / "run.json").stat().st_mtime_ns
    with pytest.raises(InputError, match="exists; choose another folder"):
        mf.runs.run("simulate", n=24, out=str(run.path))
    assert (run.path / "run.json").stat().st_mtime_ns == before


def test_force_replaces_a_run_and_nothing_else(tmp_path):
    out = tmp_path / "run"
    small = {"n": 4, "time": 0.1, "frames": 2, "verify": False, "out": str(out)}
    mf.runs.run("simulate", **small)
    assert mf.runs.run("simulate", **small, seed=5, force=True).config.seed == 5
    (out / "notes.txt").write_text("years of work")
    with pytest.raises(InputError, match=r"also holds 'notes.txt'"):
        mf.runs.run("simulate", **small, force=True)
    assert (out / "notes.txt").read_text() == "years of work"
    assert mf.runs.open(out).config.seed == 5


@pytest.mark.parametrize("kind", ["project", "working folder", "link", "input", "file"])
def test_force_refuses_what_is_not_a_run(kind, tmp_path, monkeypatch):
    (tmp_path / "config.toml").write_text("n = 4\n")
    (tmp_path / "thesis.tex").write_text("years of work")
    target, words = tmp_path, {"n": 4, "time": 0.1, "frames": 2, "verify": False}
    if kind == "working folder":
        monkeypatch.chdir(tmp_path)
        target = Path(".")
    elif kind == "link":
        target = tmp_path / "link"
        target.symlink_to(tmp_path)
    elif kind == "input":
        mf.runs.run("simulate", **words, out=str(tmp_path / "run"))
        target = tmp_path / "run"
        np.savez(target / "tokens.npz", points=np.eye(3))
        words |= {"init": str(target / "tokens.npz")}
        words.pop("n")
    elif kind == "file":
        target = tmp_path / "thesis.tex"
    with pytest.raises(InputError, match="`out`: "):
        mf.runs.run("simulate", **words, out=str(target), force=True)
    assert (tmp_path / "thesis.tex").read_text() == "years of work"
    assert kind != "input" or (target / "tokens.npz").is_file()


def test_runs_without_a_name_get_folders_of_their_own_also_at_once(tmp_path):
    code = "from measureflow.runs.replacement import make_place; print(make_place(None, 'simulate', False).path)"
    started = [
        subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    names = {process.communicate()[0].strip() for process in started}
    assert names == {f"runs/simulate-{k}" for k in (1, 2, 3)}


def test_a_folder_that_cannot_be_written_is_said_before_anything_is_computed(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="`out`: cannot make"):
        mf.runs.run("simulate", n=4, out=str(tmp_path / "file" / "run"))


def test_frames_that_do_not_fit_on_the_disk_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=2**20))
    with pytest.raises(InputError, match="keep fewer"):
        mf.runs.run("simulate", n=64, frames=2000, out=str(tmp_path / "run"))
    assert not (tmp_path / "run").exists()


def test_a_live_run_is_locked_and_a_second_process_is_refused(tmp_path, flow):
    refused = []

    def watch(job, state):
        if state.frames == 2:
            assert mf.runs.open(tmp_path / "run").alive
            with pytest.raises(InputError, match="being written by another process") as caught:
                mf.runs.record(flow(), tmp_path / "run", resume=True, frames_per_leg=2)
            refused.append(caught.value)
            with pytest.raises(InputError, match="being written by another process"):
                mf.runs.record(flow(), tmp_path / "run", force=True, frames_per_leg=2)

    run = mf.runs.record(flow(), tmp_path / "run", frames_per_leg=2, watch=watch)
    assert len(refused) == 1
    assert run.frames == 6
    assert not run.alive


def test_a_folder_that_another_process_begins_is_left_alone(tmp_path, flow):
    """It is empty and locked for a moment, between its making and its first file."""
    (tmp_path / "run").mkdir()
    lock = os.open(tmp_path / "run", os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    with pytest.raises(InputError, match="being written by another process"):
        mf.runs.record(flow(), tmp_path / "run")
    assert (tmp_path / "run").is_dir()
    os.close(lock)

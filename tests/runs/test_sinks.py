"""A run folder as a sink: what it says of a run, and when it is not begun or goes on."""

import errno
from types import SimpleNamespace

import numpy as np
import pytest

import measureflow as mf
from measureflow.runs.command import command
from measureflow.runs.executor import perform
from measureflow.runs.folder import RunFolder
from measureflow.words import InputError


def test_the_run_knows_what_made_it(run):
    info = run.info
    assert info["ok"]
    assert info["finished"]
    assert (info["format"], info["command"], info["precision"], info["seed"]) == (3, "simulate", "float64", 0)
    assert info["outcome"] == "Reached t = 2."
    assert info["engine"] == command("simulate").job(run.config).flow.start.engine_name
    assert info["versions"]["measureflow"] == mf.__version__
    assert {"device", "platform", "git", "fingerprint"} <= set(info)
    assert 0 < run.stats["error"] < 1e-6
    assert run.stats["steps"] > 0


def test_another_flow_does_not_go_on_in_the_folder(tmp_path, flow, break_after):
    break_after(2, mf.runs.record, flow(), tmp_path / "run", frames_per_leg=2)
    for other, words in ((flow(beta=4.1), {}), (flow(n=6), {}), (flow(), {"frames_per_leg": 3})):
        with pytest.raises(InputError, match="cannot go on: its flow was"):
            mf.runs.record(other, tmp_path / "run", resume=True, **({"frames_per_leg": 2} | words))


def test_a_changed_input_is_said_when_a_run_goes_on(tmp_path, monkeypatch, break_after):
    monkeypatch.chdir(tmp_path)
    np.savez("tokens.npz", points=np.eye(2))
    settings = command("simulate").settings({"init": "tokens.npz", "time": 1.0, "frames": 6, "frames_per_leg": 2})
    break_after(2, perform, command("simulate").job(settings), "run")
    np.savez("tokens.npz", points=-np.eye(2))
    with pytest.raises(InputError, match="The settings, the inputs"):
        mf.runs.resume("run")


def test_an_old_run_is_kept_when_the_new_one_does_not_fit(tmp_path, monkeypatch, flow):
    old = mf.runs.record(flow(), tmp_path / "run")
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=0))
    with pytest.raises(InputError, match="keep fewer"):
        mf.runs.record(flow(), tmp_path / "run", force=True)
    assert mf.runs.open(old.path).ok


def test_a_disk_that_is_full_at_the_start_leaves_no_folder(tmp_path, monkeypatch, flow):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(RunFolder, "keep", full)
    with pytest.raises(InputError, match=r"`out`: cannot write .* No space left"):
        mf.runs.record(flow(), tmp_path / "run")
    assert not (tmp_path / "run").exists()

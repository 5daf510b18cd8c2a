"""One loop for every run: it reports, stops, goes on to the same bits, and says what happened to it."""

import errno
import json
import signal

import numpy as np
import pytest

import measureflow as mf
from measureflow.runs.command import command
from measureflow.runs.executor import Interrupted, perform
from measureflow.runs.folder import RunFolder, StorageError, write

TOKENS = {"n": 6, "dim": 2, "time": 1.0, "frames": 6, "frames_per_leg": 2, "beta": 4.0}
HEADS = {"data": "f2", "heads": 3, "time": 0.05, "step": 0.01, "frames": 6, "frames_per_leg": 2}
KINDS = {
    "tokens": ("simulate", TOKENS),
    "causal": ("simulate", TOKENS | {"mask": "causal", "alibi": 1.0}),
    "noise": ("simulate", TOKENS | {"noise": 0.1, "solver": "euler", "dt": 0.05}),
    "layers": ("simulate", {"n": 6, "layers": 5, "frames_per_leg": 2, "time": 1.0}),
    "merging": ("simulate", TOKENS | {"merge": 1e-2, "time": 20.0}),
    "sinkhorn": ("simulate", TOKENS | {"attention": "sinkhorn", "beta": 1.0}),
    "schedule": ("simulate", TOKENS | {"weights": "goe", "schedule": "resampled", "period": 0.3}),
    "sequence": ("simulate", TOKENS | {"measure": "sequence"}),
    "gaussian": ("simulate", {"measure": "gaussian", "beta": 0.3, "frames": 6, "frames_per_leg": 2, "time": 0.5}),
    "mixture": ("simulate", {"measure": "mixture", "beta": 0.3, "frames": 6, "frames_per_leg": 2, "time": 0.5}),
    "circle": ("simulate", {"measure": "circle", "modes": 16, "frames": 6, "frames_per_leg": 2, "time": 0.5}),
    "noisy circle": (
        "simulate", {"measure": "circle", "modes": 16, "frames": 6, "frames_per_leg": 2, "time": 0.5, "noise": 0.1},
    ),
    "followed circle": ("simulate", {"measure": "circle", "modes": 16, "frames": 6, "frames_per_leg": 2, "time": 3.0}),
    "cells": ("simulate", {"measure": "cells", "cells": 32, "frames": 6, "frames_per_leg": 2, "time": 0.5}),
    "sphere": ("simulate", {"measure": "sphere", "modes": 12, "frames": 6, "frames_per_leg": 2, "time": 0.5}),
    "axial": ("simulate", {"measure": "axial", "degree": 12, "beta": 2.0, "frames": 6, "frames_per_leg": 2, "time": 0.5}),
    "sgd": ("train heads", HEADS),
    "momentum": ("train heads", HEADS | {"optimiser": "momentum"}),
    "adam": ("train heads", HEADS | {"optimiser": "adam"}),
    "langevin": ("train heads", HEADS | {"optimiser": "langevin"}),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_a_broken_run_goes_on_to_the_same_bits(kind, tmp_path, break_after):
    name, words = KINDS[kind]
    words = words | ({"verify": False} if name == "simulate" else {})
    job = command(name).job(command(name).settings(words))
    whole = perform(job, tmp_path / "whole")
    break_after(2, perform, job, tmp_path / "broken")
    assert mf.runs.open(tmp_path / "broken").frames == 2
    run = mf.runs.resume(tmp_path / "broken")
    assert run.finished
    assert (run.outcome, run.frames) == (whole.outcome, whole.frames) == (whole.outcome, 6)
    for field in (*whole.word.dimensions, "time", *whole.series):
        np.testing.assert_array_equal(run.data[field].values, whole.data[field].values, err_msg=field)
    assert run.stats == whole.stats


def test_the_error_estimate_of_a_run_that_went_on_is_that_of_the_whole(tmp_path, flow, break_after):
    whole = mf.runs.record(flow(), tmp_path / "whole", frames_per_leg=2)
    break_after(4, mf.runs.record, flow(), tmp_path / "broken", frames_per_leg=2)
    run = mf.runs.record(flow(), tmp_path / "broken", resume=True, frames_per_leg=2)
    assert run.stats == whole.stats
    assert run.stats["error"] > 0


@pytest.mark.parametrize("kind", ["last frame", "blow-up"])
def test_a_run_killed_after_its_last_leg_is_finished_as_it_would_have_been(kind, tmp_path, flow, break_after):
    start = mf.Particles(mf.Euclidean(1), [[0.7]])
    blowing = mf.Flow(mf.UnnormalisedAttention.isotropic(1, 1.0), start, np.linspace(0, 0.5, 12))
    one = flow() if kind == "last frame" else blowing
    whole = mf.runs.record(one, tmp_path / "whole", frames_per_leg=5)
    break_after(whole.frames, mf.runs.record, one, tmp_path / "broken", frames_per_leg=5)
    run = mf.runs.record(one, tmp_path / "broken", resume=True, frames_per_leg=5)
    assert run.finished
    assert (run.outcome, run.ok, run.stats) == (whole.outcome, whole.ok, whole.stats)
    np.testing.assert_array_equal(run.data.points, whole.data.points)


def test_a_finished_run_stays_as_it_is(tmp_path, flow):
    run = mf.runs.record(flow(), tmp_path / "run")
    before = (run.path / "run.json").read_text()
    mf.runs.record(flow(), tmp_path / "run", resume=True)
    assert (run.path / "run.json").read_text() == before


def test_the_watcher_sees_the_start_and_every_leg(tmp_path, flow):
    seen = []
    mf.runs.record(flow(), tmp_path / "run", frames_per_leg=2, watch=lambda job, state: seen.append(state.frames))
    assert seen == [0, 2, 4, 6]


def test_a_run_that_fails_says_why(tmp_path, flow):
    def watch(job, state):
        if state.frames >= 2:
            raise RuntimeError("the plot thickens")

    with pytest.raises(RuntimeError, match="the plot thickens"):
        mf.runs.record(flow(), tmp_path / "run", watch=watch, frames_per_leg=2)
    run = mf.runs.open(tmp_path / "run")
    assert run.outcome == "Failed after 2 of 6 frames: RuntimeError: the plot thickens"
    assert mf.runs.record(flow(), tmp_path / "run", resume=True, frames_per_leg=2).ok


def test_an_interruption_finishes_what_there_is(tmp_path, flow):
    def watch(job, state):
        if state.frames == 4:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted) as caught:
        mf.runs.record(flow(), tmp_path / "run", watch=watch, frames_per_leg=2)
    run = mf.runs.open(caught.value.path)
    assert run.outcome.startswith("Interrupted after 4 of 6 frames; `mf.runs.record(flow")
    assert not run.finished
    # The error at the time reached: a flow that ends there has the same.
    shorter = flow()
    path = mf.evolve(shorter.field, shorter.start, shorter.times[:4], shorter.solver, verify=True)
    np.testing.assert_allclose(run.stats["error"], path.stats["error"], rtol=1e-6)
    assert mf.runs.record(flow(), tmp_path / "run", resume=True, frames_per_leg=2).ok


def test_an_interruption_while_a_leg_is_saved_waits_until_it_is(tmp_path, monkeypatch, flow):
    def append(folder, times, *rest):
        append_leg(folder, times, *rest)
        folder.frames -= len(times)  # as if the signal came just before this was counted
        signal.raise_signal(signal.SIGINT)
        folder.frames += len(times)

    append_leg = RunFolder.append
    monkeypatch.setattr(RunFolder, "append", append)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(Interrupted):
            mf.runs.record(flow(), tmp_path / "run", frames_per_leg=2)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    run = mf.runs.open(tmp_path / "run")
    assert run.outcome.startswith("Interrupted after 2 of 6 frames")
    assert run.stats["error"] >= 0


def test_a_full_disk_is_an_outcome_and_the_run_goes_on_when_there_is_room(tmp_path, monkeypatch, flow):
    def full(path, text):
        if path.name == "commit.json" and json.loads(text)["frames"] > 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        write(path, text)

    monkeypatch.setattr("measureflow.runs.folder.write", full)
    with pytest.raises(StorageError, match="Stopped after 2 of 6 frames: No space left on device"):
        mf.runs.record(flow(), tmp_path / "run", frames_per_leg=2)
    assert "No space left" in mf.runs.open(tmp_path / "run").outcome
    monkeypatch.undo()
    whole = mf.runs.record(flow(), tmp_path / "whole", frames_per_leg=2)
    run = mf.runs.record(flow(), tmp_path / "run", resume=True, frames_per_leg=2)
    np.testing.assert_array_equal(run.data.points, whole.data.points)


def test_heads_that_become_too_stiff_end_the_run_with_the_limit(tmp_path, monkeypatch):
    settings = command("train heads").settings(HEADS)
    job = command("train heads").job(settings)
    monkeypatch.setattr("measureflow.training.Descent.step_limit", lambda *_: 0.005)
    run = perform(job, tmp_path / "run")
    assert run.finished
    assert not run.ok
    assert run.outcome.startswith("Stopped at t = 0.01: the heads have become stiff, and the step 0.01 is beyond")
    assert "0.005; take a shorter step" in run.outcome
    assert run.frames == 2

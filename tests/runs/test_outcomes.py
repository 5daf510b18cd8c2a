"""Outcomes: kinds for programs and sentences for people, to a folder and back."""

import dataclasses
import json

import jax.numpy as jnp
import numpy as np
import pytest
import xarray

import measureflow as mf
from measureflow.flows.trajectory import KINDS
from measureflow.runs import outcomes
from measureflow.runs.outcomes import UNDER_WAY, RunOutcome


def of_kind(kind):
    return mf.flows.Outcome(jnp.asarray(KINDS.index(kind)), jnp.asarray(1.5), jnp.asarray(3.0))


@pytest.mark.parametrize("kind", KINDS)
def test_the_outcome_of_a_flow_comes_back_from_json(kind):
    outcome = RunOutcome.of(of_kind(kind))
    again = RunOutcome.restored(json.loads(json.dumps(outcome.stored())))
    assert again == outcome
    assert (again.kind, again.sentence, again.time, again.speed) == (kind, str(of_kind(kind)), 1.5, 3.0)
    assert again.ok == (kind == outcomes.REACHED)
    flow = again.of_flow(np.float64)
    assert (int(flow.kind), float(flow.time), float(flow.speed)) == (KINDS.index(kind), 1.5, 3.0)


@pytest.mark.parametrize("kind", ["RUNNING", "STOPPED", "STORAGE", "ERROR"])
def test_what_only_a_run_knows_comes_back_and_is_an_interruption_to_a_flow(kind):
    outcome = RunOutcome(getattr(outcomes, kind), "Why.", 0.5)
    again = RunOutcome.restored(json.loads(json.dumps(outcome.stored())))
    assert np.isnan(again.speed)  # no number in JSON
    assert dataclasses.replace(again, speed=0.0) == dataclasses.replace(outcome, speed=0.0)
    assert KINDS[int(again.of_flow(np.float64).kind)] == outcomes.INTERRUPTED
    assert again.running == (kind == "RUNNING")
    assert not again.ok


def test_only_results_are_ends_with_exit_code_0():
    kinds = {*KINDS, *(getattr(outcomes, name) for name in ("RUNNING", "STOPPED", "STORAGE", "ERROR"))}
    assert {kind for kind in kinds if RunOutcome(kind, "Why.").code == 0} == {"reached", "blow-up", "ended"}
    assert {RunOutcome(kind, "Why.").code for kind in kinds} == {0, 1}


def test_a_folder_of_the_first_format_has_a_sentence_and_whether_it_is_well():
    for ok, sentence, kind in (
        (True, "Reached t = 2.", outcomes.REACHED),
        (True, UNDER_WAY.sentence, outcomes.RUNNING),
        (False, "Blew up at t = 0.5.", outcomes.STOPPED),
    ):
        found = RunOutcome.restored({"outcome": sentence, "ok": ok})
        assert (found.kind, found.sentence) == (kind, sentence)


def test_a_blow_up_keeps_the_frames_before_it(tmp_path):
    words = {"space": "euclidean", "dim": 1, "n": 3, "attention": "unnormalised", "beta": 1, "time": 3, "frames": 61}
    run = mf.runs.run("simulate", **words, out=str(tmp_path / "run"))
    assert run.finished
    assert not run.ok
    assert run.outcome.startswith("Blew up at t = ")
    assert (run.ended.kind, run.ended.sentence) == ("blow-up", run.outcome)
    assert run.ended.time == run.stats["blow_up_time"]
    assert run.ended.speed > 1e3  # what grows without end is fast
    assert run.times[-1] <= run.stats["blow_up_time"] < run.times[-1] + 0.05
    assert np.isfinite(xarray.open_zarr(run.path / "data.zarr").points).all()

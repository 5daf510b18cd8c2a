"""One simulation over several real processes on loopback: the same numbers, written once; peers that die are told."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import measureflow as mf
from measureflow.runs.comparison import agreement
from measureflow.runs.folder import read_marker
from measureflow.runs.processes import SharedFlow, shared
from measureflow.runs.recorder import job_for
from measureflow.words import InputError

WORDS = ["--n", "16", "--time", "1", "--frames", "5", "--beta", "4"]
COMMAND = [sys.executable, "-m", "measureflow.cli", "simulate"]


@pytest.mark.slow
def test_two_processes_give_the_run_of_one_to_rounding_and_write_it_once(tmp_path):
    words = [*COMMAND, *WORDS, "--out", str(tmp_path / "two"), "--processes", "2"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.count("Reached t = 1.") == 1  # the first process alone reports
    one = mf.runs.run("simulate", out=str(tmp_path / "one"), n=16, time=1.0, frames=5, beta=4.0)
    two = mf.runs.open(tmp_path / "two")
    found = agreement(one, two)
    # Shares of the sources are added in another order: some roundings, which 12 steps do not blow up.
    assert found.difference < 1e-12
    assert two.stats["steps"] == one.stats["steps"]
    assert two.stats["error"] == pytest.approx(one.stats["error"], rel=1e-2)
    assert two.stats["engine"] == "native, sharded over 2"
    assert "processes" not in (tmp_path / "two" / "config.toml").read_text()
    np.testing.assert_array_equal(two.times, one.times)


@pytest.mark.slow
def test_a_peer_that_is_killed_ends_the_run_with_a_sentence_and_what_was_saved_goes_on(tmp_path):
    out = tmp_path / "run"
    words = [*COMMAND, "--n", "16", "--time", "40", "--frames", "4001", "--frames-per-leg", "10", "--no-verify"]
    words += ["--solver", "rk4", "--dt", "0.01", "--out", str(out), "--processes", "2"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    limit = time.monotonic() + 200
    while not read_marker(out)["frames"] and process.poll() is None and time.monotonic() < limit:
        time.sleep(0.05)
    assert process.poll() is None, process.communicate()[1][-2000:]
    os.kill(child(process.pid, "--process-id 1"), signal.SIGKILL)
    begun = time.monotonic()
    _, said = process.communicate(timeout=60)
    assert process.returncode == 1
    assert time.monotonic() - begun < 20
    assert "Process 1 of 2 was killed (signal 9)" in said or "Another process of the run has died" in said
    saved = mf.runs.open(out)
    assert 0 < saved.frames < 4001
    assert not saved.finished
    assert np.isfinite(saved.points).all()
    again = subprocess.run([*COMMAND[:-1], "resume", str(out)], capture_output=True, text=True, timeout=240)
    assert again.returncode == 0, again.stderr[-2000:]
    assert "goes on in one process, with the same numbers to rounding" in said or "cannot be reached" in said
    done = mf.runs.open(out)
    assert (done.frames, done.ok) == (4001, True)
    np.testing.assert_array_equal(done.points[: saved.frames], saved.points)
    one = mf.runs.open(out).command.job(done.config).flow
    whole = np.concatenate([np.asarray(leg.measures.points) for leg in one.legs(500)])
    # Tokens meet, which forgets roundings: there is nothing that would make them grow.
    np.testing.assert_allclose(done.points, whole, atol=1e-10)


@pytest.mark.slow
def test_a_signal_to_the_launcher_ends_the_processes_that_it_started(tmp_path):
    out = tmp_path / "run"
    words = [*COMMAND, "--n", "16", "--time", "400", "--frames", "40001", "--frames-per-leg", "10", "--no-verify"]
    words += ["--solver", "rk4", "--dt", "0.01", "--out", str(out), "--processes", "2"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    limit = time.monotonic() + 200
    while not read_marker(out)["frames"] and process.poll() is None and time.monotonic() < limit:
        time.sleep(0.05)
    children = [child(process.pid, f"--process-id {i}") for i in range(2)]
    process.terminate()
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert not any(Path(f"/proc/{number}").exists() for number in children)
    assert mf.runs.open(out).outcome.startswith("Interrupted after ")


def child(parent, words):
    """The process that a parent started with some words."""
    for path in Path("/proc").iterdir():
        try:
            if path.name.isdigit() and words in (path / "cmdline").read_text().replace("\0", " "):
                status = (path / "status").read_text()
                if f"PPid:\t{parent}\n" in status:
                    return int(path.name)
        except OSError:
            continue
    raise AssertionError(f"no process with {words!r}")


def test_tokens_of_a_continuous_flow_are_shared_and_nothing_else(flow):
    job = shared(job_for(flow()))
    assert isinstance(job.flow, SharedFlow)
    assert not job.ahead
    assert job.fingerprint == job_for(flow()).fingerprint  # so that a run goes on in any number of processes
    np.testing.assert_array_equal(job.flow.times, flow().times)
    limit = mf.Flow(mf.SoftmaxAttention.isotropic(2, 1.0), mf.CircleDensity.uniform(4), [0.0, 1.0])
    merging = mf.Flow(flow().field, flow().start, [0.0, 1.0], merge=0.1)
    for other in (limit, merging, mf.flows.Layers(flow().field, flow().start, 2, 0.1)):
        with pytest.raises(InputError, match="share the tokens of a continuous flow"):
            shared(job_for(other))

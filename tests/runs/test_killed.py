"""A real process, killed at random moments at least 25 times: what it saved is whole, and what comes out is the same."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import measureflow as mf
from measureflow.runs.folder import read_marker

HEAR = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
# A shell that runs the tests in the background makes them, and what they start, deaf to interruptions.
COMMAND = HEAR + "import sys; from measureflow.cli import main; sys.exit(main(sys.argv[1:]))"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "kills"), [("layers", 21), ("heun", 5)]
)  # layers start faster, so most kills are theirs
def test_kills_leave_whole_frames_and_the_same_result(kind, kills, tmp_path):
    words = [sys.executable, str(Path(__file__).with_name("killed.py")), str(tmp_path), kind, str(kills)]
    found = subprocess.run(words, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr[-2000:]
    report = json.loads(found.stdout.splitlines()[-1])
    assert report["kills"] == kills
    assert len(set(report["left"])) > kills / 6  # the kills met the run at different places
    run = mf.runs.open(report["path"])
    assert run.ok
    points = np.random.default_rng(0).normal(size=(8, 3))
    start = mf.Particles(mf.Sphere(3), points / np.linalg.norm(points, axis=1, keepdims=True))
    field = mf.SoftmaxAttention.isotropic(3, 4.0)
    flow = mf.Flow(field, start, np.linspace(0, 40, 2001), mf.Heun(0.01))
    flow = mf.flows.Layers(field, start, 2000, 0.02) if kind == "layers" else flow
    whole = np.concatenate([np.asarray(leg.measures.points) for leg in flow.legs(20)])
    np.testing.assert_array_equal(run.data.points.values, whole)


def started(out, *words):
    arguments = ["simulate", "--n", "32", "--time", "4000", "--frames", "4001", "--frames-per-leg", "20", *words]
    return subprocess.Popen(
        [sys.executable, "-c", COMMAND, *arguments, "--out", str(out)], stdout=subprocess.PIPE, text=True
    )


def wait_for_frames(out, process, least):
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline and process.poll() is None:
        if read_marker(out)["frames"] >= least:
            return
        time.sleep(0.02)
    raise AssertionError(f"the run did not reach {least} frames; exit code {process.poll()}")


@pytest.mark.slow
@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda kind: kind.name)
def test_a_signal_ends_a_run_like_ctrl_c_with_table_and_picture(kind, tmp_path):
    out = tmp_path / "run"
    process = started(out)
    wait_for_frames(out, process, 20)
    os.kill(process.pid, kind)
    printed, _ = process.communicate(timeout=300)
    assert process.returncode == 130
    run = mf.runs.open(out)
    assert run.outcome.startswith("Interrupted after ")
    assert run.frames >= 20
    assert run.stats["error"] >= 0
    assert (out / "figure.png").is_file()
    for word in ("number of clusters", "Interrupted after", "measureflow resume", "figure.png"):
        assert word in printed

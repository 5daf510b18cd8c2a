"""Run folders: what is in them, that they resume, and that a kill leaves them readable."""

import json
import os
import signal
import subprocess
import sys
import time

import equinox as eqx
import numpy as np
import pytest
import xarray

import measureflow as mf
from measureflow.flows.leg import leg
from measureflow.runs import InputError, Simulation
from measureflow.runs.build import build
from measureflow.runs.config import read
from measureflow.runs.simulate import simulate

WORDS = {"n": 24, "time": 2.0, "frames": 9, "frames_per_leg": 3}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A finished small run and what its watcher saw."""
    out = tmp_path_factory.mktemp("runs") / "small"
    seen = []
    config = read(Simulation, WORDS | {"out": str(out)})
    progress = simulate(config, lambda p: seen.append(len(p.times)))
    return mf.runs.open(out), progress, seen


def test_the_watcher_sees_every_leg(run):
    assert run[2] == [0, 3, 6, 9]


def test_xarray_reads_the_frames_by_name(run):
    data = xarray.open_zarr(run[0].path / "data.zarr")
    assert dict(data.sizes) == {"time": 9, "token": 24, "coordinate": 3}
    assert data.points.dims == ("time", "token", "coordinate")
    np.testing.assert_allclose(data.time, np.linspace(0, 2, 9))
    np.testing.assert_allclose(data.weights.sum(), 1.0)
    np.testing.assert_allclose(np.linalg.norm(data.points, axis=-1), 1.0, atol=1e-14)


def test_the_frames_are_those_of_evolve(run):
    problem = build(run[0].config)
    path = mf.evolve(problem.field, problem.start, problem.times)
    # Legs restart the step control, so both are within the tolerance of the flow and of each other.
    np.testing.assert_allclose(run[0].data.points, path.measures.points, atol=1e-6)
    np.testing.assert_allclose(run[0].data.energy, path.map(mf.InteractionEnergy(9.0)), rtol=1e-6)
    np.testing.assert_array_equal(run[0].data.clusters, mf.diagnostics.cluster_counts(path))


def test_the_run_knows_its_versions_seed_outcome_and_error(run):
    info = run[0].info
    assert info["ok"]
    assert info["outcome"] == "Reached t = 2."
    assert info["seed"] == 0
    assert info["versions"]["measureflow"] == mf.__version__
    assert 0 < info["stats"]["error"] < 1e-6
    assert info["stats"]["steps"] > 0


def test_the_state_is_the_measure_after_the_last_frame(run):
    marker = json.loads((run[0].path / "commit.json").read_text())
    assert marker == {"frames": 9, "state": "state-9.eqx"}
    assert [p.name for p in run[0].path.glob("state-*")] == ["state-9.eqx"]
    state = eqx.tree_deserialise_leaves(run[0].path / "state-9.eqx", build(run[0].config).start)
    np.testing.assert_array_equal(state.points, run[1].final.points)


def test_a_run_continues_from_its_state_to_the_same_bits(run, tmp_path):
    problem = build(run[0].config)
    first = leg(problem.field, problem.start, problem.times[0], problem.times[:3], problem.solver)
    eqx.tree_serialise_leaves(tmp_path / "state.eqx", first.final)
    state = eqx.tree_deserialise_leaves(tmp_path / "state.eqx", problem.start)
    again = leg(problem.field, state, first.outcome.time, problem.times[3:6], problem.solver)
    np.testing.assert_array_equal(again.measures.points, run[0].data.points[3:6])


def test_an_existing_folder_is_never_overwritten_without_force(run, tmp_path):
    out = str(run[0].path)
    before = (run[0].path / "run.json").stat().st_mtime_ns
    with pytest.raises(InputError, match="exists; choose another folder"):
        simulate(read(Simulation, WORDS | {"out": out}))
    assert (run[0].path / "run.json").stat().st_mtime_ns == before
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match="is not a run folder"):
        simulate(read(Simulation, WORDS | {"out": str(tmp_path), "force": True}))
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


def test_force_replaces_a_run(tmp_path):
    out = str(tmp_path / "run")
    simulate(read(Simulation, WORDS | {"out": out, "verify": False}))
    simulate(read(Simulation, WORDS | {"out": out, "verify": False, "seed": 5, "force": True}))
    assert mf.runs.open(out).config.seed == 5


def test_a_blow_up_keeps_the_frames_before_it(tmp_path):
    words = {"space": "euclidean", "dim": 1, "n": 3, "attention": "unnormalised", "beta": 1, "time": 3, "frames": 61}
    progress = simulate(read(Simulation, words | {"out": str(tmp_path / "run")}))
    run = mf.runs.open(tmp_path / "run")
    assert not run.info["ok"]
    assert run.info["outcome"].startswith("Blew up at t = ")
    assert float(run.data.time[-1]) <= run.info["stats"]["blow_up_time"] < float(run.data.time[-1]) + 0.05
    assert np.isfinite(xarray.open_zarr(run.path / "data.zarr").points).all()
    assert len(progress.times) == run.frames


@pytest.mark.parametrize("frames_per_leg", [1, 3, 20])
def test_layers_are_saved_in_whole_chunks_as_one_stack(frames_per_leg, tmp_path):
    words = {"n": 6, "time": 2.0, "layers": 8, "frames_per_leg": frames_per_leg, "out": str(tmp_path / "run")}
    reached = []
    simulate(read(Simulation, words), lambda progress: reached.append(len(progress.times)))
    problem = build(read(Simulation, words))
    stack = mf.layers(problem.field, problem.start, 8, 0.25)
    np.testing.assert_allclose(mf.runs.open(tmp_path / "run").data.points, stack.measures.points, atol=1e-14)
    # A leg that ended inside a chunk would be rewritten by the next, and a kill could tear frames that were safe.
    assert all(count % frames_per_leg == 0 for count in reached[:-1])
    assert reached[-1] == 9


def test_a_folder_that_is_no_run_is_refused(tmp_path):
    with pytest.raises(InputError, match="is not a run folder"):
        mf.runs.open(tmp_path / "nothing")


COMMAND = "import sys; from measureflow.cli import main; sys.exit(main(sys.argv[1:]))"


def start_long_run(out):
    words = ["simulate", "--n", "64", "--time", "4000", "--frames", "4001", "--frames-per-leg", "20", "--out", str(out)]
    # A shell that runs the tests in the background makes them, and what they start, deaf to interruptions.
    hear = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    return subprocess.Popen([sys.executable, "-c", hear + COMMAND, *words], stdout=subprocess.DEVNULL)


def wait_for_frames(out, process, least):
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        marker = out / "commit.json"
        if marker.is_file() and json.loads(marker.read_text())["frames"] >= least:
            return
        time.sleep(0.02)
    raise AssertionError(f"the run did not reach {least} frames; exit code {process.poll()}")


@pytest.mark.slow
def test_a_killed_run_leaves_readable_frames(tmp_path):
    out = tmp_path / "run"
    process = start_long_run(out)
    wait_for_frames(out, process, 60)
    process.kill()
    process.wait()
    run = mf.runs.open(out)
    points = run.data.points.values
    assert len(points) == run.frames >= 60
    assert run.frames % 20 == 0
    np.testing.assert_allclose(np.linalg.norm(points, axis=-1), 1.0, atol=1e-14)
    eqx.tree_deserialise_leaves(out / f"state-{run.frames}.eqx", build(run.config).start)


@pytest.mark.slow
def test_an_interrupted_run_says_so_and_exits_with_130(tmp_path):
    out = tmp_path / "run"
    process = start_long_run(out)
    wait_for_frames(out, process, 20)
    os.kill(process.pid, signal.SIGINT)
    assert process.wait(timeout=60) == 130
    run = mf.runs.open(out)
    assert run.info["outcome"].startswith("Interrupted after ")
    assert run.frames >= 20

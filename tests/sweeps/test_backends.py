"""Who computes the cells of a sweep: real processes and a real dask cluster, with workers that are killed while they work."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

import measureflow as mf
from measureflow.sweeps import backends
from measureflow.sweeps.backends import BACKENDS, TRIES, Here
from measureflow.words import InputError

pytestmark = pytest.mark.slow


def backend(name):
    return {"processes": lambda: mf.sweeps.Processes(2), "dask": lambda: mf.sweeps.Dask(workers=2)}[name]()


def working(folder):
    """A cell that says in a file which process computes it, and takes its time; not traced, and sent by value."""

    def work(x):
        x = int(x)  # a number that is traced has none
        with open(f"{folder}/{x}-{time.time_ns()}", "w") as file:
            file.write(str(os.getpid()))
        time.sleep(0.4)
        return {"x": float(x), "cores": int(os.environ.get("NPROC", "0")), "pid": os.getpid()}

    return work


def kill_the_first(folder):
    """Kill the process that writes the first file, while it works."""
    while not (files := [file for file in folder.iterdir() if file.read_text()]):
        time.sleep(0.01)
    os.kill(int(files[0].read_text()), signal.SIGKILL)


@pytest.mark.parametrize("name", ["processes", "dask"])
def test_a_worker_that_is_killed_loses_nothing(name, tmp_path):
    seen = tmp_path / "seen"
    seen.mkdir()
    killer = threading.Thread(target=kill_the_first, args=(seen,))
    killer.start()
    found = mf.runs.sweep(working(seen), {"x": [0, 1, 2, 3, 4, 5]}, tmp_path / "s", backend=backend(name))
    killer.join()
    assert found.table.final_x.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    assert found.table.ok.all()
    assert len(list(seen.iterdir())) > 6  # what the killed worker had begun was begun again
    lines = (tmp_path / "s" / "cells.jsonl").read_text().splitlines()
    assert len(lines) == 6  # and counted once
    share = max(1, len(os.sched_getaffinity(0)) // 2)
    assert (found.table.final_cores == share).all()
    assert os.getpid() not in set(found.table.final_pid)


def test_a_cell_that_kills_its_worker_every_time_is_a_failed_cell(tmp_path):
    def deadly(x):
        if int(x) == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return float(x)

    found = mf.runs.sweep(deadly, {"x": [0, 1]}, tmp_path / "s", backend=mf.sweeps.Processes(1))
    table = found.table.set_index("x")
    assert not table.ok[1]
    assert "A worker process was killed" in table.outcome[1]
    assert table.final_value[0] == 0.0
    assert TRIES == 3


def test_cells_of_commands_are_the_same_on_workers(tmp_path):
    base = {"n": 6, "dim": 3, "time": 1.0, "solver": "rk4", "dt": 0.25, "frames": 5}
    axes = {"beta": [0.5, 4.0], "seed": [0, 1, 2]}
    here = mf.runs.sweep(base, axes, tmp_path / "here", backend=Here())
    there = mf.runs.sweep(base, axes, tmp_path / "there", backend=mf.sweeps.Processes(2))
    for name in ("final_order", "final_energy", "error"):
        assert there.table[name].tolist() == pytest.approx(here.table[name].tolist(), rel=1e-9)
    assert there.table.key.tolist() == here.table.key.tolist()


def test_jobs_of_submitit_compute_cells(tmp_path):
    jobs = mf.sweeps.Slurm(str(tmp_path / "jobs"), workers=2, cluster="local")
    found = mf.runs.sweep(lambda x: {"x": float(x)}, {"x": [1, 2]}, tmp_path / "s", backend=jobs)
    assert found.table.final_x.tolist() == [1.0, 2.0]
    with pytest.raises(InputError, match=r"there is no SLURM here"):
        mf.sweeps.Slurm(str(tmp_path / "jobs"))


def test_a_scheduler_that_does_not_answer_is_a_sentence_within_its_time(monkeypatch):
    monkeypatch.setattr(backends, "PATIENCE", 2.0)
    begun = time.monotonic()
    with pytest.raises(InputError, match=r"no dask scheduler answers at 'tcp://127.0.0.1:9'"):
        mf.sweeps.Dask("tcp://127.0.0.1:9")
    assert time.monotonic() - begun < 10


def test_backends_are_not_imported_before_they_are_used():
    code = (
        "import measureflow.sweeps.executor, sys; print({'dask', 'distributed', 'loky', 'submitit'} & set(sys.modules))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "set()"
    assert set(BACKENDS) == {"here", "processes", "dask", "slurm"}

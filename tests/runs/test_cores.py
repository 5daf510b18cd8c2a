"""Cores: those that this process may use, and how a worker is told its share."""

import os
import subprocess
import sys

import pytest

from measureflow.runs.cores import cores, environment


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="the system does not bind processes to cores")
def test_a_process_counts_the_cores_that_it_may_use():
    one = min(os.sched_getaffinity(0))
    code = f"import os; os.sched_setaffinity(0, {{{one}}}); from measureflow.runs.cores import cores; print(cores())"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "1\n"
    assert cores() == len(os.sched_getaffinity(0))


def test_a_worker_is_told_its_share_by_every_library():
    found = environment(3)
    assert set(found.values()) == {"3"}
    assert {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NPROC"} <= set(found)

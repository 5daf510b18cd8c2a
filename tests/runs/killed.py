"""A run that is killed again and again: each child goes on with it and is killed at a random moment.

Prints a line of JSON: how many children were killed, how many frames each kill left, and where the finished run is. Children
are forked after the imports and before anything is computed, so that most of their life is the run itself.
"""

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import jax

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_compilation_cache_dir", sys.argv[1] + "/cache")
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)

import numpy as np

import measureflow as mf
import measureflow.runs.recorder
from measureflow.runs.folder import read_marker
from measureflow.runs.replacement import is_run

KIND, KILLS = sys.argv[2], int(sys.argv[3])


def flow():
    points = np.random.default_rng(0).normal(size=(8, 3))
    start = mf.Particles(mf.Sphere(3), points / np.linalg.norm(points, axis=1, keepdims=True))
    field = mf.SoftmaxAttention.isotropic(3, 4.0)
    if KIND == "layers":
        return mf.flows.Layers(field, start, 2000, 0.02)
    return mf.Flow(field, start, np.linspace(0, 40, 2001), mf.Heun(0.01))


def child(path):
    mf.runs.record(flow(), path, resume=True, frames_per_leg=20, verify=False)
    os._exit(0)


def check(path):
    """What a reader sees after a kill: safe frames, all finite and on the sphere."""
    if not is_run(path):
        return 0
    run = mf.runs.open(path)
    points = run.data.points.values
    assert len(points) == run.frames == read_marker(path)["frames"]
    assert np.isfinite(points).all()
    assert np.abs(np.linalg.norm(points, axis=-1) - 1).max(initial=0) < 1e-12
    assert np.isfinite(run.series["order"].values).all()
    assert run.frames % 20 == 0 or run.frames == 2001
    return run.frames


def frames(path):
    return read_marker(path)["frames"]


def kill_time(path, process, chance):
    """A random moment: a third of them while the child starts, the others while it saves frames."""
    if chance.random() < 1 / 3:
        time.sleep(chance.uniform(0.0, 2.0))
        return
    before = frames(path)
    while frames(path) == before and os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        time.sleep(0.005)
    time.sleep(chance.uniform(0.0, 0.3))


def main(folder):
    chance, kills, left, k = random.Random(0), 0, [], 0
    path = folder / "run-0"
    while kills < KILLS:
        process = os.fork()
        if process == 0:
            child(path)
        kill_time(path, process, chance)
        os.kill(process, signal.SIGKILL)
        status = os.waitpid(process, 0)[1]
        if os.WIFSIGNALED(status):
            kills += 1
            left.append(check(path))
        elif os.WEXITSTATUS(status) != 0:
            sys.exit(f"a child failed with {status}")
        else:
            k += 1
            path = folder / f"run-{k}"
    process = os.fork()
    if process == 0:
        child(path)
    assert os.waitpid(process, 0)[1] == 0
    print(json.dumps({"kills": kills, "left": left, "path": str(path)}))


main(Path(sys.argv[1]))

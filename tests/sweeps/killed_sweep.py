"""A sweep that is killed again and again: each child goes on with it and is killed at a random moment.

Prints a line of JSON: how many kills there were, and how many cells each left.
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

import measureflow.sweeps.executor
from measureflow.sweeps import ledger

BASE = {"n": 8, "dim": 3, "time": 2.0, "solver": "heun", "dt": 0.1, "frames": 3, "tolerance": 0.1}
AXES = {"beta": {"from": 0.0, "to": 4.0, "count": 32}, "seed": {"from": 0, "to": 31}}
FOLDER, KILLS = Path(sys.argv[1]), int(sys.argv[2])


def sweep(path):
    return measureflow.sweeps.executor.sweep(BASE, AXES, path)


def known(path):
    return len(dict(ledger.read(path)))


def main():
    chance, left, path = random.Random(1), [], FOLDER / "swept"
    while len(left) < KILLS:
        process = os.fork()
        if process == 0:
            sweep(path)
            os._exit(0)
        before = known(path)
        while known(path) == before and os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            time.sleep(0.002)
        time.sleep(chance.uniform(0.0, 0.05))
        os.kill(process, signal.SIGKILL)
        if os.WIFSIGNALED(os.waitpid(process, 0)[1]):
            left.append(known(path))
        else:
            break
    print(json.dumps(left))


main()

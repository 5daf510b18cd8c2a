"""What a run folder costs: the same flow computed by `evolve` and by `record`, interleaved, and how fast `resume` starts.

    python benchmarks/recording.py [--n 512] [--steps 10000]

Prints the medians, their ratio, and the seconds from the start of `measureflow resume RUN` to its first new frame.
"""

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import jax
import numpy as np

jax.config.update("jax_enable_x64", True)

import measureflow as mf
from measureflow.runs.folder import read_marker


def seconds(work):
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def overhead(n, steps, folder, repeats=3):
    start = mf.Particles.iid(mf.Sphere(8), n, key=0)
    flow = mf.Flow(mf.SoftmaxAttention.isotropic(8, 9.0), start, np.linspace(0, 10, 121), mf.RK4(10 / steps))

    def plain():
        jax.block_until_ready([leg.measures.points for leg in flow.legs(11)])

    def recorded():
        shutil.rmtree(folder / "run", ignore_errors=True)
        mf.runs.record(flow, folder / "run", verify=False, frames_per_leg=11)

    for work in (plain, recorded):
        work()
    pairs = [(seconds(plain), seconds(recorded)) for _ in range(repeats)]
    return [statistics.median(column) for column in zip(*pairs, strict=True)]


def first_frame(folder):
    out = folder / "resumed"
    words = ["--n", "64", "--time", "4000", "--frames", "4001", "--frames-per-leg", "20", "--out", str(out)]
    process = subprocess.Popen([sys.executable, "-m", "measureflow", "simulate", *words], stdout=subprocess.DEVNULL)
    while read_marker(out)["frames"] < 20:
        time.sleep(0.01)
    process.kill()
    process.wait()
    before, begun = read_marker(out)["frames"], time.perf_counter()
    process = subprocess.Popen([sys.executable, "-m", "measureflow", "resume", str(out)], stdout=subprocess.DEVNULL)
    while read_marker(out)["frames"] == before:
        time.sleep(0.01)
    took = time.perf_counter() - begun
    process.kill()
    process.wait()
    return took


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=512)
    parser.add_argument("--steps", type=int, default=10_000)
    words = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        plain, recorded = overhead(words.n, words.steps, Path(name))
        print(
            f"n = {words.n}, {words.steps} steps of RK4, 121 frames: legs {plain:.3f} s, record {recorded:.3f} s",
            end=", ",
        )
        print(f"{100 * (recorded / plain - 1):.1f}% more")
        print(f"resume: the first new frames after {first_frame(Path(name)):.1f} s")


if __name__ == "__main__":
    main()

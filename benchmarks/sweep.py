"""A phase diagram as a sweep, against a loop over compiled runs and a loop over `measureflow simulate`.

    python benchmarks/sweep.py [float32]

Ninety betas by some seeds, 32 tokens on the circle, RK4 steps of 0.1 and 200 frames of the share of pairs that have met, in
float64. The sweep is the one of the command line: drawing, stepping, watching and the ledger; the first batch, which compiles, is
not counted. Loops are timed on a sample of the cells and scaled up. With `float32` it is a sweep of the function of the loop.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import jax

jax.config.update("jax_enable_x64", "float32" not in sys.argv)

import jax.numpy as jnp

import measureflow as mf
from measureflow.diagnostics import share_of_met_pairs
from measureflow.sweeps import ledger
from measureflow.sweeps.backends import Here, Processes
from measureflow.sweeps.design import Design
from measureflow.sweeps.executor import perform_sweep, work_of

BETAS, SEEDS, SAMPLE = 90, int(os.environ.get("SEEDS", "16")), 60
BASE = {"n": 32, "dim": 2, "time": 20.0, "solver": "rk4", "dt": 0.1, "frames": 200, "series": ["met"], "verify": False}
AXES = {"beta": {"from": 0.1, "to": 9.0, "count": BETAS}, "seed": {"from": 0, "to": SEEDS - 1}}


def run(beta, seed):
    """What a researcher compiles and calls in a loop."""
    mu = mf.Particles.iid(mf.Sphere(2), 32, key=jax.random.key(seed))
    field = mf.SoftmaxAttention.isotropic(2, beta)
    return mf.evolve(field, mu, jnp.linspace(0, 20, 200), mf.RK4(0.1), observe=share_of_met_pairs).observed


def looped():
    """Seconds for all cells, one compiled run after the other; and those of all cores together."""
    one = jax.jit(run)
    one(1.0, 0).block_until_ready()
    begun, spent = time.perf_counter(), time.process_time()
    for i in range(SAMPLE):
        one(0.1 + 0.1 * i, i).block_until_ready()
    scale = BETAS * SEEDS / SAMPLE
    return (time.perf_counter() - begun) * scale, (time.process_time() - spent) * scale


def swept(folder, backend, keep="series"):
    """Seconds for all cells by a sweep, without the time until the first batch is done."""
    design = Design.of(AXES, BASE, keep=keep)
    marks = []

    def watch(progress):
        marks.append((time.perf_counter(), progress.computed))

    perform_sweep(design, work_of(design, folder), folder, backend=backend, watch=watch)
    (begun, first), (ended, last) = next(mark for mark in marks if mark[1]), marks[-1]
    return (ended - begun) / (last - first) * last


def batch():
    """Seconds for all cells in programs alone, one after the other, and for the rows that are made of them."""
    design = Design.of(AXES, BASE, keep="series")
    work = work_of(design, Path())
    chunks = list(work.chunks(work.asked(design), 2))
    work.rows(chunks[0])
    begun, spent, inside = time.perf_counter(), time.process_time(), 0.0
    for chunk in chunks[:10]:
        inside += sum(row.seconds for row in work.rows(chunk))
    count = sum(len(chunk.cells) for chunk in chunks[:10])
    scale = BETAS * SEEDS / count
    return inside * scale, (time.perf_counter() - begun) * scale, (time.process_time() - spent) * scale


def simulated():
    """Seconds for all cells by as many calls of the program, from a warm cache."""
    words = [
        sys.executable,
        "-m",
        "measureflow.cli",
        "simulate",
        "--n",
        "32",
        "--dim",
        "2",
        "--time",
        "20",
        "--solver",
        "rk4",
    ]
    words += ["--dt", "0.1", "--frames", "200", "--series", "met", "--no-verify", "--force", "--out"]
    with tempfile.TemporaryDirectory() as folder:
        taken = []
        for seed in range(3):
            begun = time.perf_counter()
            subprocess.run([*words, f"{folder}/run", "--seed", str(seed)], check=True, capture_output=True)
            taken.append(time.perf_counter() - begun)
    return min(taken) * BETAS * SEEDS


def stored(folder):
    """The part of the time of a sweep that goes into its ledger: all lines written again, over what computing them took."""
    entries = [entry for _, entry in ledger.read(folder)]
    rows = [(one.key, one.cell, one.settings, one.row) for one in mf.runs.open_sweep(folder)]
    again = ledger.Ledger.begin(folder.with_name("again"), "simulate")
    begun = time.perf_counter()
    for start in range(0, len(rows), 64):
        again.add(rows[start : start + 64])
    written = time.perf_counter() - begun
    again.close()
    return written, len(entries)


RESUME = """
import sys, time
begun = time.perf_counter()
from measureflow.cli import prepare_jax
prepare_jax()
from pathlib import Path
from measureflow.sweeps.design import Design
from measureflow.sweeps.executor import perform_sweep, work_of

class Started(Exception):
    pass

def watch(progress):
    print(f"{time.perf_counter() - begun:.2f} s to the first of {progress.total - progress.known} cells, {progress.known} known")
    raise Started

file, folder = Path(sys.argv[1]), Path(sys.argv[2])
design = Design.read(file)
try:
    perform_sweep(design, work_of(design, folder), folder, watch=watch)
except Started:
    pass
"""


def resumed(home):
    """How long a sweep of ten thousand cells, all but a hundred of which are known, takes to begin, imports included."""
    axes = {"beta": {"from": 0.1, "to": 9.0, "count": 100}, "seed": {"from": 0, "to": 99}}
    design, folder = Design.of(axes, BASE), home / "many"
    known = work_of(design, folder).asked(design)[:-100]
    book = ledger.Ledger.begin(folder, "simulate")
    row = mf.runs.row.Row("Reached t = 20.", True, 20.0, {"steps": 398}, {"order": 1.0, "met": 1.0}, 0.01)
    book.add((one.key, one.cell, one.settings, row) for one in known)
    book.close()
    (home / "many.toml").write_text(design.to_toml())
    words = [sys.executable, "-c", RESUME, str(home / "many.toml"), str(folder)]
    print(subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip())


def of_function(home):
    """Seconds for all cells by a sweep of the function that is looped over."""
    marks, spent = [], []

    def watch(progress):
        marks.append((time.perf_counter(), progress.computed))
        spent.append(time.process_time())

    axes = {"beta": AXES["beta"], "seed": AXES["seed"]}
    mf.runs.sweep(run, axes, home / "function", keep="series", watch=watch)
    k = next(k for k, mark in enumerate(marks) if mark[1])
    share = marks[-1][1] / (marks[-1][1] - marks[k][1])
    return (marks[-1][0] - marks[k][0]) * share, (spent[-1] - spent[k]) * share


def main():
    loop, loop_spent = looped()
    print(f"{BETAS * SEEDS} cells; loop of compiled runs {loop:.1f} s, {loop_spent:.1f} s of processors")
    if "float32" in sys.argv:
        with tempfile.TemporaryDirectory() as home:
            taken, spent = of_function(Path(home))
        ratios = f"{loop / taken:.1f} and {loop_spent / spent:.1f} x"
        print(f"sweep of the function: {taken:.1f} s, {spent:.1f} s of processors; {ratios}")
        return
    program, rows, spent = batch()
    print(
        f"batches one after the other: programs {program:.1f} s ({loop / program:.1f} x), with rows {rows:.1f} s "
        f"({loop / rows:.1f} x), {spent:.1f} s of processors ({loop_spent / spent:.1f} x)"
    )
    with tempfile.TemporaryDirectory() as home:
        for name, make in (("here", Here), ("1 process", lambda: Processes(1)), ("2 processes", lambda: Processes(2))):
            taken = swept(Path(home, name.replace(" ", "-")), make())
            print(f"sweep {name}: {taken:.1f} s, {loop / taken:.1f} x the loop, {BETAS * SEEDS / taken:.0f} cells/s")
        written, count = stored(Path(home, "here"))
        print(f"ledger: {written:.2f} s for {count} cells")
        resumed(Path(home))
    calls = simulated()
    print(f"loop of `measureflow simulate`: {calls:.0f} s, {calls / loop:.0f} x the loop of compiled runs")


if __name__ == "__main__":
    main()

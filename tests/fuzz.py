"""Command lines of strangers: any words and any files, which every command takes or refuses with a sentence. `make fuzz`.

One seed is one input, so `python tests/fuzz.py --seed 17` repeats what was found; with `MEASUREFLOW_DEBUG=1` it shows where. Most
inputs (`lines.py`) go in this process up to where a command would compute (`judged`). Some small runs are done for good, by
a process of their own (`observed`), with streams that are closed, full or left by their reader. A traceback, a hang, a refusal
without a word and an exit code 0 of what failed are findings, and with any the exit code is 1.
"""

import argparse
import contextlib
import importlib.util
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import numpy as np

from measureflow.cli import main

SECONDS, WALL = 10, 60
"""Seconds of computing that an input may take in this process, and of waiting, on a machine that has other work."""
REAL_SECONDS = 300
"""Seconds that a small run may take in a process of its own, which has to load and to compile everything."""
MEMORY = 1e9
"""Bytes that are free, as the commands are told: what needs more is refused, and what needs less is built."""


def beside(name: str) -> Any:
    """The module of a file beside this one; tests are no package."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


lines = beside("lines")
one = lines.one


class Computing(BaseException):
    """A command would begin to compute: it has taken its input."""


class Late(BaseException):
    """An input took longer than it may."""


def _begun(*_: Any, **__: Any) -> None:
    raise Computing


def _described(job: Any, *_: Any, **__: Any) -> None:
    """What is done of a job before it is computed."""
    from measureflow.runs.sinks import described

    described(job), job.layout(), job.settings.to_toml()
    raise Computing


def _planned(design: Any, work: Any, *_: Any, **__: Any) -> None:
    """What is done of a sweep before it is computed."""
    design.to_toml()
    if len(design) <= 100:
        work.asked(design)
    raise Computing


BEGUN = (
    "runs.processes.launch", "sweeps.pilot.estimate", "commands.smooth.job.smoothing", "commands.bench.job.compare",
    "commands.bench.job.calibrate", "studies.run", "commands.train.certificate.examine", "commands.train.budget.error_budget",
    "runs.report.save", "runs.comparison.compare", "runs.processes.join", "training.dynamics.AbstractOptimiser.check_step",
)  # fmt: skip
"""Where the commands begin to compute."""


@contextlib.contextmanager
def dry(build: bool = True) -> Iterator[None]:
    """Let commands end where they would begin to compute; unless jobs are to be built, as soon as settings are known."""
    with contextlib.ExitStack() as stack:
        for name in BEGUN if build else (*BEGUN, "runs.invocation.run_settings"):
            stack.enter_context(mock.patch(f"measureflow.{name}", _begun))
        stack.enter_context(mock.patch("measureflow.runs.invocation.perform", _described))
        stack.enter_context(mock.patch("measureflow.sweeps.executor.perform_sweep", _planned))
        stack.enter_context(mock.patch("measureflow.words.memory.available", return_value=MEMORY))
        yield


@contextlib.contextmanager
def limited() -> Iterator[None]:
    """Raise `Late` after a while of computing, or of waiting."""

    def late(*_: Any) -> None:
        raise Late

    timers = ((signal.SIGPROF, signal.ITIMER_PROF, SECONDS), (signal.SIGALRM, signal.ITIMER_REAL, WALL))
    before = [signal.signal(kind, late) for kind, _, _ in timers]
    for _, timer, seconds in timers:
        signal.setitimer(timer, seconds)
    try:
        yield
    finally:
        for (kind, timer, _), handler in zip(timers, before, strict=True):
            signal.setitimer(timer, 0)
            signal.signal(kind, handler)


def judged(words: list[str], folder: Path) -> str:
    """What is wrong with how a command line ends in this process, where `dry` ends it; nothing if that is as it should be."""
    out, err, held, code = io.StringIO(), io.StringIO(), lines.owned(folder), None
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            with limited():
                code = main(words)
        except Computing:
            pass
        except SystemExit as left:
            code = left.code or 0
        except Late:
            return "takes too long"
    said = err.getvalue()
    if code not in (None, 0, 1, 2):
        return f"exit code {code}: {said}"
    if "Traceback" in said:
        return said
    if code == 2 and not (said + out.getvalue()).strip():
        return "is refused without a word"
    return "" if lines.owned(folder) == held else "touches a file of the user"


SMALL: dict[str, dict[str, list]] = {
    "simulate": {
        "measure": ["particles", "sequence", "gaussian", "mixture", "circle", "cells"],
        "attention": ["softmax", "unnormalised", "l2", "sinkhorn", "linear", "hardmax"],
        "space": ["sphere", "euclidean", "ball"], "beta": [-3.0, 0.0, 1.0, 30.0, 1e300], "time": [1e-300, 0.1, 1.0, 1e300],
        "init": ["uniform", "clusters", "ripples", "tokens.npz", "notes.txt"], "seed": [0, 2**63 - 1], "noise": [0.1, 1e308],
        "solver": ["adaptive", "stiff", "euler"], "dt": [0.1, 1e-300], "most-steps": [2, 100], "layers": [1, 2],
    },
    "train heads": {
        "optimiser": ["flow", "descent", "sgd", "momentum", "adam", "langevin"], "step": [1e-3, 0.01, 1.0],
        "friction": [1.0, 1e300], "heads": [1, 2, 5], "limit": [0, 1, 3], "decay": [0.0, 1e300], "time": [0.01, 0.02],
    },
    "train neurons": {
        "data": ["words.csv", "notes.txt"], "neurons": [1, 3], "time": [0.02], "loss": ["square", "logistic", "auto"],
        "activation": ["relu", "tanh", "sin"], "target": ["a", "nothing"], "held-out": [0.0, 0.9],
    },
}  # fmt: skip
"""Options of runs that are small enough to be run for good."""
TINY = {
    "simulate": ["--frames", "3", "--frames-per-leg", "2"],
    "train heads": ["--frames", "2", "--frames-per-leg", "2"],
    "train neurons": ["--frames", "2", "--frames-per-leg", "2"],
}
STREAMS = ["", "", "", "> /dev/full", ">&-", "2>&-", "| true"]
TERMINALS: list[dict[str, str]] = [
    {},
    {},
    {"PYTHONIOENCODING": "ascii"},
    {"LC_ALL": "C"},
    {"PYTHONIOENCODING": "latin-1"},
]
OUTS = ["run", "run", "[bold]x[/red]", "γ", "a b", 'q"', "\x1b[31m"]


def small(rng: np.random.Generator, name: str) -> list[str]:
    """The line of a small run; sizes are those of the file where there is one."""
    chosen = {key: one(rng, of) for key, of in SMALL[name].items() if rng.random() < 0.35}
    line = [*name.split(), *(part for key, of in chosen.items() for part in (f"--{key}", str(of)))]
    if name == "simulate" and "measure" not in chosen and "." not in chosen.get("init", ""):
        line += ["--n", "3"]
    return line + (["--frames-per-leg", "2"] if "layers" in chosen else TINY[name])


def observed(rng: np.random.Generator, folder: Path) -> tuple[list[str], str]:
    """A small run for good, in a process of its own, and what is wrong with how it ends."""
    name = one(rng, SMALL)
    out = one(rng, OUTS)
    words, stream, terminal = [*small(rng, name), "--out", out], one(rng, STREAMS), one(rng, TERMINALS)
    held = lines.owned(folder)
    script = f'"$@" {stream}; exit ${{PIPESTATUS[0]}}'
    line = ["bash", "-c", script, "bash", sys.executable, "-m", "measureflow", *words]
    try:
        done = subprocess.run(
            line, capture_output=True, cwd=folder, env=os.environ | terminal, timeout=REAL_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return words, f"takes too long {stream}"
    wrong = _ended(done, folder / out, stream) or ("" if lines.owned(folder) == held else "touches a file of the user")
    return words, wrong and f"{wrong} ({stream} {terminal})"


def _ended(done: subprocess.CompletedProcess, run: Path, stream: str) -> str:
    """What is wrong with the exit code, the words and the folder of a run."""
    said, code = done.stderr.decode(errors="replace"), done.returncode
    if code not in (0, 1, 2) or "Traceback" in said:
        return f"exit code {code}: {said}"
    if code == 2:
        return (
            "leaves a folder though it is refused"
            if run.exists()
            else ""
            if said or stream
            else "is refused without a word"
        )
    info = json.loads((run / "run.json").read_text()) if run.is_dir() else {"finished": False}
    if code == 1:
        return "" if said or not info.get("ok") else "reached its time with exit code 1"
    if not info["finished"] or info["ending"]["kind"] not in ("reached", "blow-up"):
        return f"ends with exit code 0: {info.get('outcome')}"
    return "" if (run / "figure.png").is_file() else "has no picture"


def made(folder: Path) -> None:
    """Make the folders that commands look at."""
    for name, words in lines.MADE.items():
        with contextlib.redirect_stdout(io.StringIO()):
            assert main([*words, "--out", str(folder / name)]) == 0, name


def fuzz(seeds: Iterator[int] | range, real: range, folder: Path) -> int:
    """Judge the inputs of some seeds, and observe the runs of others; print what is found and how many there were."""
    os.chdir(folder)
    lines.desk(folder)
    if len(seeds):
        made(folder)
    found = 0
    with dry():
        for count, seed in enumerate(seeds):
            if count % 100 == 99:
                jax.clear_caches()  # programs of a thousand inputs would not fit into memory
            if count % 1000 == 999:
                print(f"{count + 1} inputs, {found} findings so far", flush=True)
            words = lines.drawn(seed, folder)
            if wrong := judged(words, folder):
                found += 1
                print(f"--seed {seed}: {words!a}\n    {wrong!a}", flush=True)
    for seed in real:
        with tempfile.TemporaryDirectory() as place:
            lines.desk(Path(place))
            words, wrong = observed(np.random.default_rng(seed), Path(place))
        if wrong:
            found += 1
            print(f"--real-seed {seed}: {words!a}\n    {wrong!a}", flush=True)
    print(f"{found} findings in {len(seeds)} inputs and {len(real)} runs.")
    return 1 if found else 0


if __name__ == "__main__":
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("inputs", type=int, nargs="?", default=10_000)
    asked.add_argument("runs", type=int, nargs="?", default=200)
    asked.add_argument("--first", type=int, default=0, help="the first seed")
    asked.add_argument("--seed", type=int, help="judge the input of this seed alone")
    asked.add_argument("--real-seed", type=int, help="observe the run of this seed alone")
    given = asked.parse_args()
    seeds, real = range(given.first, given.first + given.inputs), range(given.first, given.first + given.runs)
    if (given.seed, given.real_seed) != (None, None):
        seeds, real = ([] if k is None else range(k, k + 1) for k in (given.seed, given.real_seed))
    with tempfile.TemporaryDirectory() as place:
        os.environ |= {"XDG_STATE_HOME": place, "XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME", place)}
        code = fuzz(seeds, real, Path(place))
    sys.exit(code)

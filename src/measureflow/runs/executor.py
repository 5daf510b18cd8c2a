"""The one loop behind every run: legs are computed, saved and reported until the job is done.

Whatever ends a run early (an interruption, a signal, a full disk) leaves what was saved, says so in `run.json`, and `resume`
goes on from there to the same bits.
"""

import contextlib
import importlib.metadata
import platform
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np

from measureflow.runs.command import again
from measureflow.runs.folder import FORMAT, RunFolder, StorageError, committed, made, room, taken_back
from measureflow.runs.job import RUNNING, Job, State
from measureflow.runs.reader import Run
from measureflow.sums import native
from measureflow.sums.native.pulse import Pulse
from measureflow.sweeps.row import Row
from measureflow.words.files import digest
from measureflow.words.series import watch as watch_series
from measureflow.words.settings import InputError

PACKAGES = ("measureflow", "jax", "jaxlib", "diffrax", "equinox", "numpy", "zarr")

ENDING = ("SIGTERM", "SIGHUP")
"""Signals that end a run like Ctrl-C, where they exist."""

TICK = 0.5
"""Seconds between two looks at a leg that runs."""

Watch = Callable[[Job, State], None]


class Interrupted(KeyboardInterrupt):
    """A run was interrupted; what it saved is in its folder."""

    def __init__(self, path: Path):
        super().__init__()
        self.path = path


def perform(
    job: Job,
    out: str | Path | None = None,
    *,
    force: bool = False,
    resume: bool = False,
    watch: Watch = lambda *_: None,
) -> Run:
    """Run a job into a folder, save each leg as it comes, and report to `watch` at the start and after each.

    Bad input raises `InputError` before any folder is made. An interruption keeps every leg that was saved, and finishes the
    run as far as it came before it is raised again; a second one skips that.
    """
    folder, state, info = _reopened(job, Path(str(out))) if resume else _begun(job, out, force)
    with contextlib.closing(folder), signals():
        if info.get("finished"):
            watch(job, state)
            return Run(folder.path)
        try:
            watch(job, state)
            if state.outcome == RUNNING:
                with _compiling_ahead(job):
                    _legs(job, folder, state, watch)
            _finish(job, folder, state, info, finished=True)
            folder.finish(job.labels, job.layout())
        except KeyboardInterrupt:
            _ended(job, folder, state, info, "Interrupted", f"; {again(job.command, folder.path)} goes on.")
            with contextlib.suppress(KeyboardInterrupt):
                _finish(job, folder, state, info, finished=False)
            raise Interrupted(folder.path) from None
        except (StorageError, OSError) as error:
            _ended(job, folder, state, info, "Stopped", f": {error}. {again(job.command, folder.path)} goes on.")
            raise StorageError(state.outcome) from error
        except Exception as error:
            _ended(job, folder, state, info, "Failed", f": {type(error).__name__}: {error}")
            raise
    return Run(folder.path)


def reckoned(job: Job, along: bool = False) -> Row:
    """The row of a job that is computed in memory and leaves no folder, with its traced series `along` the way if asked."""
    begun, state, last = time.perf_counter(), State(job.flow.start), None
    traced = tuple(one for one in job.series if not one.host)
    times: list[np.ndarray] = []
    seen: dict[str, list[np.ndarray]] = {one.name: [] for one in traced}
    for path in job.flow.legs(job.frames_per_leg):
        state.follow(path, {})
        if len(path):
            last = path[-1:]
            if along:
                times.append(np.asarray(path.times))
                for name, values in watch_series(traced, times[-1], path.measures).items():
                    seen[name].append(values)
        if state.ok and (reason := job.stop(state)) is not None:
            state.outcome, state.ok = reason, False
        if not state.ok:
            break
    if last is not None:
        state.series = {name: float(column[-1]) for name, column in job.frames_of(last)[0].items()}
        if job.verify and state.ok:
            error = job.flow.error(state.mu, state.time, room=job.frames_per_leg)
            state.stats |= {} if error is None else {"error": float(error)}
        job.finish(state)
    whole = {name: np.concatenate(parts) for name, parts in seen.items()} if times else {}
    return _row(state, time.perf_counter() - begun, np.concatenate(times) if times else None, whole)


def kept(job: Job, path: Path) -> Row:
    """The row of a job whose run is kept in a folder; one that is there goes on."""
    there = (path / "run.json").is_file()
    run = perform(job, path, resume=there)
    state = State(None, run.frames, float(run.times[-1]), {}, run.stats, run.outcome, run.ok)
    state.series = {name: float(series.values[-1]) for name, series in run.series.items()}
    return _row(state, run.info["seconds"])


def _row(state: State, seconds: float, times: np.ndarray | None = None, series: dict[str, Any] | None = None) -> Row:
    plain = {name: value for name, value in state.stats.items() if isinstance(value, int | float | str | bool)}
    return Row(state.outcome, state.ok, state.time, plain, state.series, seconds, times, series or {})


def _ended(job: Job, folder: RunFolder, state: State, info: dict[str, Any], how: str, why: str) -> None:
    """Say in `run.json`, if that can still be written, how a run ended before its time."""
    state.ok, state.outcome = False, f"{how} after {folder.frames} of {job.frames} frames{why}"
    with contextlib.suppress(OSError):
        folder.describe(info | _results(state, finished=False))


def _legs(job: Job, folder: RunFolder, state: State, watch: Watch) -> None:
    """Compute, save and report until the last frame, an early end, or a reason of the job to stop."""
    begun = time.perf_counter() - state.seconds
    since = folder.frames
    state.pulse = native.pulse()
    legs = job.flow.legs(job.frames_per_leg, since, state.mu if since else None, state.pulse)
    for path in in_thread(legs, lambda: watch(job, state), state.pulse):
        values, frames = job.frames_of(path) if len(path) else ({}, {})
        with _undisturbed():
            state.follow(path, values)
            state.seconds = time.perf_counter() - begun
            if state.ok and (reason := job.stop(state)) is not None:
                state.outcome, state.ok = reason, False
            if len(path):
                folder.append(np.asarray(path.times), frames | values, path.final, _so_far(job, state))
        watch(job, state)
        if not state.ok:
            return


@contextlib.contextmanager
def _compiling_ahead(job: Job) -> Iterator[None]:
    """Compile what the error estimate needs while legs are computed, by an estimate over no time at all, which takes no step."""
    if not (job.verify and job.ahead):
        yield
        return
    start = job.flow.start, np.asarray(job.flow.times)[0], native.pulse(), job.frames_per_leg
    done = _begun_next(job.flow.error(*start) for _ in range(1))
    yield
    done.get()


def _so_far(job: Job, state: State) -> dict[str, Any]:
    """What a killed run would not know: its cost, and whether the leg was its last."""
    ended = not state.ok or state.frames == job.frames
    outcome = {"outcome": state.outcome, "ok": state.ok} if ended else {"outcome": RUNNING, "ok": True}
    return outcome | {"stats": state.stats, "seconds": round(state.seconds, 3)}


def _finish(job: Job, folder: RunFolder, state: State, info: dict[str, Any], finished: bool) -> None:
    """The error estimate, and what the job stores beside; of what there is, where the run did not end by itself."""
    begun = time.perf_counter()
    if job.verify and folder.frames and (state.ok or not finished):
        error = job.flow.error(state.mu, state.time, native.pulse(), job.frames_per_leg)
        state.stats |= {} if error is None else {"error": float(error), "pathwise": job.pathwise}
    if folder.frames:
        folder.keep(job.finish(state))
    state.seconds += time.perf_counter() - begun
    folder.describe(info | _results(state, finished))


def _begun(job: Job, out: str | Path | None, force: bool) -> tuple[RunFolder, State, dict[str, Any]]:
    """A new folder with what is known before the first leg; one that cannot be filled is taken back."""
    layout, info, start = job.layout(), _described(job), State(job.flow.start)
    numbers = job.frames * sum(int(np.prod(list(sizes.values()))) for sizes in layout.values())
    room(out, numbers * np.dtype(job.precision).itemsize)  # before an old run is replaced
    inputs = () if job.settings is None else job.settings.inputs()
    path, lock = made(None if out is None else str(out), job.command, force, inputs)
    try:
        folder = RunFolder.create(
            path, lock, job.frames, job.frames_per_leg, job.precision, layout, job.labels,
            {name: value.dtype.name for name, value in job.observed.items()},
        )  # fmt: skip
        fixed = job.word.fixed(job.flow.start)
        folder.keep({name: ((dimension,), values) for name, (dimension, values) in fixed.items()})
        if job.settings is not None:
            folder.write_text("config.toml", job.settings.to_toml())
        folder.describe(info | _results(start, finished=False))
    except BaseException as error:
        taken_back(path, lock)
        if isinstance(error, OSError):
            raise InputError(f"`out`: cannot write {str(path)!r}: {error.strerror or error}.") from None
        raise
    return folder, start, info


def _reopened(job: Job, path: Path) -> tuple[RunFolder, State, dict[str, Any]]:
    """A folder with what is known after its last safe frame."""
    run = Run(path)
    for name, was, now in (
        ("flow", run.info["fingerprint"], job.fingerprint),
        ("precision", run.info["precision"], job.precision),
        ("engine", run.info["engine"], job.flow.start.engine_name),
    ):
        if was != now:
            raise InputError(
                f"{str(path)!r} cannot go on: its {name} was {was!r} and is {now!r} now. "
                "The settings, the inputs, the engine and the precision must be those of the run."
            )
    folder = RunFolder.reopen(path, job.frames_per_leg)
    state = State(job.flow.start)
    if folder.frames:
        form = job.flow.form(committed(path)["stats"].get("changes", 0))
        state.mu, state.frames, state.time = folder.state(form), folder.frames, float(run.times[-1])
        state.series = {name: float(series.values[-1]) for name, series in run.series.items()}
    known = run.info if run.info["finished"] else committed(path)
    state.stats, state.seconds = dict(known["stats"]), known["seconds"]
    state.outcome, state.ok = known["outcome"], known["ok"]
    return folder, state, run.info


def _described(job: Job) -> dict[str, Any]:
    """What made a run, for `run.json`."""
    return {
        "format": FORMAT,
        "command": job.command,
        "title": job.title,
        "measure": {"word": job.word_name} | job.word.facts(job.flow.start),
        "look": job.look.kept(),
        "series": [one.name for one in job.series],
        "observed": list(job.observed),
        "kept": job.keep,
        "frames": job.frames,
        "frames_per_leg": job.frames_per_leg,
        "seed": job.seed,
        "fingerprint": job.fingerprint,
        "precision": job.precision,
        "engine": job.flow.start.engine_name,
        "device": jax.devices()[0].device_kind,
        "platform": platform.platform(),
        "versions": {name: importlib.metadata.version(name) for name in PACKAGES} | {"python": sys.version.split()[0]},
        "git": git_state(),
        "inputs": {file: digest(file) for file in (() if job.settings is None else job.settings.inputs())},
    }


def _results(state: State, finished: bool) -> dict[str, Any]:
    return {
        "finished": finished,
        "ok": state.ok and finished,
        "outcome": state.outcome,
        "stats": state.stats,
        "seconds": round(state.seconds, 3),
    }


def git_state() -> str | None:
    """The commit of the folder that a run is started from, and whether it has changed since; None outside a repository."""
    try:
        found = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=12"],
            capture_output=True,
            text=True,
            timeout=5,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return found.stdout.strip()


def in_thread(
    items: Iterator[Any], tick: Callable[[], None] = lambda: None, pulse: Pulse | None = None
) -> Iterator[Any]:
    """Compute items in a thread, one ahead, so that saving costs no time and an interruption is heard while a leg runs.

    `tick` is called now and then while there is nothing; an interruption also stops what is being computed, by its pulse.
    """
    try:
        yield from _in_thread(items, tick)
    except BaseException:
        if pulse is not None:
            pulse.stop()
        raise


def _in_thread(items: Iterator[Any], tick: Callable[[], None]) -> Iterator[Any]:
    box = _begun_next(items)
    while True:
        try:
            item, error = box.get(timeout=TICK)
        except queue.Empty:
            tick()
            continue
        if isinstance(error, StopIteration):
            return
        if error is not None:
            raise error
        box = _begun_next(items)
        yield item


def _begun_next(items: Iterator[Any]) -> queue.SimpleQueue:
    """A box into which a thread will put the next item."""
    box: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_next, args=(items, box, jax.config.read("jax_enable_x64")), daemon=True).start()
    return box


def _next(items: Iterator[Any], box: queue.SimpleQueue, x64: bool) -> None:
    try:
        with jax.enable_x64(x64):  # a thread does not inherit what a `with` has set
            box.put((next(items), None))
    except BaseException as error:
        box.put((None, error))


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Put off interruptions until what is known of a run and what is saved of it agree again."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heard: list[int] = []
    kinds = [getattr(signal, name) for name in ("SIGINT", *ENDING) if hasattr(signal, name)]
    before = {kind: handler for kind in kinds if callable(handler := signal.getsignal(kind))}
    for kind in before:
        signal.signal(kind, lambda kind, _: heard.append(kind))
    try:
        yield
    finally:
        for kind, handler in before.items():
            signal.signal(kind, handler)
        if heard:
            before[heard[0]](heard[0], None)


@contextlib.contextmanager
def signals() -> Iterator[None]:
    """SIGTERM and SIGHUP end a run like Ctrl-C."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    names = [name for name in ENDING if hasattr(signal, name)]
    before = {name: signal.signal(getattr(signal, name), interrupt) for name in names}
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(getattr(signal, name), handler)

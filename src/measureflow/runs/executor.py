"""The one executor of runs: it drives the legs of a job, hands each to a sink, and finishes what ended or was interrupted.

Whatever ends a run early (an interruption, a signal, a full disk) leaves what was saved, says so in `run.json`, and `resume`
goes on from there to the same bits.
"""

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np

from measureflow.flows import Trajectory
from measureflow.runs.command import again
from measureflow.runs.folder import StorageError
from measureflow.runs.job import Job, Progress
from measureflow.runs.outcomes import ERROR, INTERRUPTED, STOPPED, STORAGE
from measureflow.runs.reader import Run
from measureflow.runs.reader import open as open_run
from measureflow.runs.replacement import settled
from measureflow.runs.sinks import AbstractSink, FolderSink, check_same
from measureflow.runs.threads import in_thread, next_in_thread, signals, undisturbed
from measureflow.sums import native

Watch = Callable[[Job, Progress], None]


def _unwatched(job: Job, state: Progress) -> None:
    """Report to nobody."""


class Interrupted(KeyboardInterrupt):
    """A run was interrupted; what it saved is in its folder."""

    def __init__(self, path: Path):
        super().__init__()
        self.path = path


def execute(
    job: Job, legs: Iterable[Trajectory], sink: AbstractSink, state: Progress, watch: Watch = _unwatched
) -> None:
    """Take legs in one after the other until the last frame, an early end, or a reason of the job to stop."""
    begun = time.perf_counter() - state.seconds
    for path in legs:
        taken = sink.take(job, path)
        with undisturbed():
            state.follow(path, taken[0])
            state.seconds = time.perf_counter() - begun
            if state.ok and (reason := job.stop(state)) is not None:
                state.end(STOPPED, reason)
            sink.keep(job, path, taken, state)
        watch(job, state)
        if not state.ok:
            return


def conclude(job: Job, sink: AbstractSink, state: Progress, finished: bool = True) -> None:
    """Estimate the error and let the job add what it makes at the end; of what there is, where a run was interrupted."""
    begun = time.perf_counter()
    if job.verify and state.frames and (state.ok or not finished):
        error = job.flow.error(state.mu, state.time, native.pulse(), job.frames_per_leg)
        state.stats |= {} if error is None else _error_stats(job, state, float(error))
    arrays = job.finish(state) if state.frames else {}
    state.seconds += time.perf_counter() - begun
    sink.finish(arrays, state, finished)


def _error_stats(job: Job, state: Progress, error: float) -> dict[str, float | bool]:
    """The error estimate, beside the size of the numbers where that is watched, and the step of a noise."""
    found: dict[str, float | bool] = {"error": error, "pathwise": job.pathwise}
    if (size := state.series.get("size", 0.0)) > 0:
        found["relative_error"] = error / size
    if job.pathwise:
        span = state.time - float(np.asarray(job.flow.times)[0])
        found["step"] = span / max(state.stats["steps"], 1)
    return found


def perform(
    job: Job,
    out: str | Path | None = None,
    *,
    force: bool = False,
    resume: bool = False,
    watch: Watch = _unwatched,
) -> Run:
    """Run a job into a folder, save each leg as it comes, and report to `watch` at the start and after each.

    Bad input raises `InputError` before any folder is made. An interruption keeps every leg that was saved, and finishes the
    run as far as it came before it is raised again; a second one skips that.
    """
    run = _same(job, Path(str(out))) if resume else None
    if run is not None and run.finished:
        watch(job, Progress(job.flow.start, run.frames, run.ended.time, outcome=run.ended))
        return Run(settled(run.path, run.info))
    sink, state = FolderSink.begin(job, out, force) if run is None else FolderSink.reopen(job, run)
    folder = sink.folder
    with contextlib.closing(sink), signals():
        try:
            watch(job, state)
            if state.outcome.running:
                with _compiling_ahead(job):
                    execute(job, _legs(job, folder.frames, state, watch), sink, state, watch)
            conclude(job, sink, state)
        except KeyboardInterrupt:
            _end(job, sink, state, INTERRUPTED, "Interrupted", f"; {again(job.command, folder.path)} goes on.")
            with contextlib.suppress(KeyboardInterrupt):
                conclude(job, sink, state, finished=False)
            raise Interrupted(folder.path) from None
        except (StorageError, OSError) as error:
            _end(job, sink, state, STORAGE, "Stopped", f": {error}. {again(job.command, folder.path)} goes on.")
            raise StorageError(state.outcome.sentence) from error
        except Exception as error:
            _end(job, sink, state, ERROR, "Failed", f": {type(error).__name__}: {error}")
            raise
        return Run(sink.place.settle())


def _same(job: Job, path: Path) -> Run:
    """The run in a folder, which is to go on with a job that must be its own."""
    run = open_run(path)
    check_same(run, job)
    return run


def _legs(job: Job, since: int, state: Progress, watch: Watch) -> Iterator[Trajectory]:
    """The legs from a frame on, computed in a thread, so that saving costs no time and an interruption is heard."""
    state.pulse = native.pulse()
    legs = job.flow.legs(job.frames_per_leg, since, state.mu if since else None, state.pulse)
    return in_thread(legs, lambda: watch(job, state), state.pulse)


def _end(job: Job, sink: FolderSink, state: Progress, kind: str, how: str, why: str) -> None:
    """Say in `run.json`, if that can still be written, how a run ended before its time."""
    state.end(kind, f"{how} after {sink.folder.frames} of {job.frames} frames{why}")
    with contextlib.suppress(OSError):
        sink.describe(state, finished=False)


@contextlib.contextmanager
def _compiling_ahead(job: Job) -> Iterator[None]:
    """Compile what the error estimate needs while legs are computed, by an estimate over no time at all, which takes no step."""
    if not (job.verify and job.ahead):
        yield
        return
    start = job.flow.start, np.asarray(job.flow.times)[0], native.pulse(), job.frames_per_leg
    done = next_in_thread(job.flow.error(*start) for _ in range(1))
    yield
    done.get()

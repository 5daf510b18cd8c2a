"""A row of the table of a sweep: what came out of one cell, and how it is taken from a run."""

import base64
import time
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from measureflow.flows import Trajectory
from measureflow.runs.executor import conclude, execute, perform
from measureflow.runs.job import ExtraArrays, Job, Progress
from measureflow.runs.outcomes import ERROR, RunOutcome
from measureflow.runs.sinks import AbstractSink, Taken
from measureflow.words.series import watch as watch_series


@dataclass(frozen=True)
class Row:
    """How a cell ended, its last numbers, its error estimate and cost; with `times`, its series along them.

    A cell that could not be computed has the `kind` "error", and its outcome is the reason.
    """

    outcome: str
    ok: bool
    kind: str
    time: float = float("nan")
    stats: dict[str, Any] = field(default_factory=dict)
    final: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    times: np.ndarray | None = None
    series: dict[str, np.ndarray] = field(default_factory=dict)

    @staticmethod
    def failed(error: BaseException, seconds: float = 0.0) -> "Row":
        """The row of a cell that raised an error."""
        name = "" if type(error).__name__ == "InputError" else f"{type(error).__name__}: "
        return Row(f"Failed: {name}{error}", ok=False, kind=ERROR, seconds=seconds)

    @staticmethod
    def of(
        outcome: RunOutcome,
        stats: dict[str, Any],
        final: dict[str, float],
        seconds: float,
        times: np.ndarray | None = None,
        series: dict[str, np.ndarray] | None = None,
    ) -> "Row":
        """The row of a run, with those of its stats that are numbers or words."""
        plain = {name: value for name, value in stats.items() if isinstance(value, int | float | str | bool)}
        ended = outcome.sentence, outcome.ok, outcome.kind, outcome.time
        return Row(*ended, plain, final, seconds, times, series or {})

    def kept(self) -> dict[str, Any]:
        """The row as plain values; arrays as their bytes, so that they come back to the same bits."""
        plain = {one.name: getattr(self, one.name) for one in fields(self) if one.name not in ("times", "series")}
        if self.times is None:
            return plain
        packed = {name: _packed(values) for name, values in self.series.items()}
        return plain | {"times": _packed(self.times), "series": packed}

    @staticmethod
    def restored(kept: dict[str, Any]) -> "Row":
        """The row of plain values."""
        times = _unpacked(kept["times"]) if "times" in kept else None
        series = {name: _unpacked(text) for name, text in kept.get("series", {}).items()}
        return Row(**(kept | {"times": times, "series": series}))


class RowSink(AbstractSink):
    """A run of which a row is kept: its last numbers, and its traced series `along` the way if they are asked for."""

    def __init__(self, along: bool):
        self.along = along
        self.last: Trajectory | None = None
        self.times: list[np.ndarray] = []
        self.series: list[dict[str, np.ndarray]] = []

    def take(self, job: Job, path: Trajectory) -> Taken:
        """Nothing: what is asked for only at the end is computed only there."""
        return {}, {}

    def keep(self, job: Job, path: Trajectory, taken: Taken, state: Progress) -> None:
        """Keep the last measure, and the traced series."""
        if not len(path):
            return
        times = np.asarray(path.times)
        self.last = path[-1:]
        if self.along:
            traced = tuple(one for one in job.series if not one.host)
            self.times.append(times)
            self.series.append(watch_series(traced, times, path.measures))

    def finish(self, arrays: ExtraArrays, state: Progress, finished: bool) -> None:
        """Arrays beside the frames have no place in a row."""

    def row(self, state: Progress, seconds: float) -> Row:
        """The row of the run."""
        times = np.concatenate(self.times) if self.times else None
        names = self.series[0] if self.series else ()
        series = {name: np.concatenate([part[name] for part in self.series]) for name in names}
        return Row.of(state.outcome, state.stats, state.series, seconds, times, series)


def computed(job: Job, along: bool = False) -> Row:
    """The row of a job that is computed in memory and leaves no folder."""
    begun, state, sink = time.perf_counter(), Progress(job.flow.start), RowSink(along)
    execute(job, job.flow.legs(job.frames_per_leg), sink, state)
    if sink.last is not None:
        state.series = {name: float(column[-1]) for name, column in job.frames_of(sink.last)[0].items()}
        conclude(job, sink, state)
    return sink.row(state, time.perf_counter() - begun)


def recorded(job: Job, path: Path) -> Row:
    """The row of a job whose run is kept in a folder; a run that is there goes on."""
    run = perform(job, path, resume=(path / "run.json").is_file())
    final = {name: float(series.values[-1]) for name, series in run.series.items()}
    return Row.of(run.ended, run.stats, final, run.info["seconds"])


def _packed(values: np.ndarray) -> str:
    return base64.b64encode(np.ascontiguousarray(values, "<f8").tobytes()).decode()


def _unpacked(text: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), "<f8")

"""Where the legs of a run go as they are computed: a run folder here, a row of a sweep in `sweeps/row.py`."""

import abc
import importlib.metadata
import platform
import secrets
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np

from measureflow.flows import Trajectory
from measureflow.runs.folder import CHECKED, FORMAT, RunFolder, read_marker
from measureflow.runs.job import ExtraArrays, Job, Progress
from measureflow.runs.outcomes import UNDER_WAY, RunOutcome
from measureflow.runs.reader import Run
from measureflow.runs.replacement import Place, check_room, make_place, place_of, remove_folder
from measureflow.words.files import digest
from measureflow.words.settings import InputError

PACKAGES = ("measureflow", "jax", "jaxlib", "diffrax", "equinox", "numpy", "zarr")
"""Packages whose versions a run keeps."""


Taken = tuple[dict[str, np.ndarray], dict[str, np.ndarray]]
"""Values of series by name, and arrays of frames by name."""


class AbstractSink(abc.ABC):
    """What keeps a run as it is computed."""

    @abc.abstractmethod
    def take(self, job: Job, path: Trajectory) -> Taken:
        """What is to be kept of a leg: the values of its series and the arrays of its frames, as far as they are needed."""

    @abc.abstractmethod
    def keep(self, job: Job, path: Trajectory, taken: Taken, state: Progress) -> None:
        """Keep a leg, after `state` has followed it."""

    @abc.abstractmethod
    def finish(self, arrays: ExtraArrays, state: Progress, finished: bool) -> None:
        """Keep what the job made at the end, which may be before its last time."""


class FolderSink(AbstractSink):
    """A run folder: every leg is on the disk before the next one is reported."""

    def __init__(self, folder: RunFolder, info: dict[str, Any], place: Place):
        self.folder, self.info, self.place = folder, info, place

    @staticmethod
    def begin(job: Job, out: str | Path | None, force: bool) -> "tuple[FolderSink, Progress]":
        """A new folder with what is known before the first leg; one that cannot be filled is removed again."""
        layout, info, start = job.layout(), described(job), Progress(job.flow.start)
        numbers = job.frames * sum(int(np.prod(list(sizes.values()))) for sizes in layout.values())
        check_room(out, numbers * np.dtype(job.precision).itemsize)
        inputs = () if job.settings is None else job.settings.inputs()
        place = make_place(None if out is None else str(out), job.command, force, inputs)
        info |= {} if place.old is None else {"replaces": place.old.resolve().name}
        try:
            kinds = {name: value.dtype.name for name, value in job.observed.items()}
            size = job.frames, job.frames_per_leg, job.precision
            folder = RunFolder.create(place.path, place.lock, info["run"], *size, layout, job.labels, kinds)
            fixed = job.word.fixed(job.flow.start)
            folder.keep({name: ((dimension,), values) for name, (dimension, values) in fixed.items()})
            if job.settings is not None:
                folder.write_text("config.toml", job.settings.to_toml())
            folder.commit(_so_far(start, False))
            sink = FolderSink(folder, info, place)
            sink.describe(start, finished=False)
        except BaseException as error:
            remove_folder(place)
            if isinstance(error, OSError):
                raise InputError(f"`out`: cannot write {str(place.path)!r}: {error.strerror or error}.") from None
            raise
        return sink, start

    @staticmethod
    def reopen(job: Job, run: Run) -> "tuple[FolderSink, Progress]":
        """The folder of an interrupted run, with what is known after its last safe frame."""
        if run.info["format"] < CHECKED:
            raise InputError(
                f"{str(run.path)!r} was begun by a version that kept no checksum of its state, so nobody knows whether it would "
                "go on right. What was saved can be read; `measureflow rerun` computes it anew."
            )
        folder = RunFolder.reopen(run.path, job.frames)
        try:
            place = Place(run.path, -1, *place_of(run.path, run.info))
            return FolderSink(folder, run.info, place), _known(job, Run(run.path), folder)
        except BaseException:
            folder.close()
            raise

    def close(self) -> None:
        """Release the folder, and the one that it was to replace."""
        self.folder.close()
        self.place.close()

    def take(self, job: Job, path: Trajectory) -> Taken:
        """All series and all arrays, on every frame."""
        return job.frames_of(path) if len(path) else ({}, {})

    def keep(self, job: Job, path: Trajectory, taken: Taken, state: Progress) -> None:
        """Write the frames, the series and the state."""
        if len(path):
            series, arrays = taken
            so_far = _so_far(state, state.frames == job.frames)
            self.folder.append(np.asarray(path.times), arrays | series, path.final, so_far)

    def finish(self, arrays: ExtraArrays, state: Progress, finished: bool) -> None:
        """Write the arrays that have no frames, and the results."""
        self.folder.keep(arrays)
        self.folder.commit({})
        if finished:
            self.folder.finish()
        self.describe(state, finished)

    def describe(self, state: Progress, finished: bool) -> None:
        """Write `run.json`: what made the run, and how it stands."""
        results = {"finished": finished, "ok": state.ok and finished} | state.outcome.stored()
        self.folder.describe(self.info | results | {"stats": state.stats, "seconds": round(state.seconds, 3)})


def _so_far(state: Progress, last: bool) -> dict[str, Any]:
    """What a run that is killed after this leg would not know otherwise: its cost, and whether the leg was its last."""
    outcome = state.outcome if last or not state.ok else UNDER_WAY
    return outcome.stored() | {"ok": state.ok, "stats": state.stats, "seconds": round(state.seconds, 3)}


def _known(job: Job, run: Run, folder: RunFolder) -> Progress:
    """What is known of a run after its last safe frame."""
    state, known = Progress(job.flow.start), read_marker(run.path)
    if run.frames:
        state.mu = folder.state(job.flow.form(known["stats"].get("changes", 0)))
        state.frames, state.time = run.frames, float(run.times[-1])
        state.series = {name: float(series.values[-1]) for name, series in run.series.items()}
    state.stats, state.seconds, state.outcome = dict(known["stats"]), known["seconds"], RunOutcome.restored(known)
    return state


def check_same(run: Run, job: Job) -> None:
    """Refuse to go on with a run whose flow, precision or engine has changed."""
    now = {"fingerprint": job.fingerprint, "precision": job.precision, "engine": job.flow.start.engine_name}
    for name, value in now.items():
        if run.info[name] != value:
            what = "flow" if name == "fingerprint" else name
            raise InputError(
                f"{str(run.path)!r} cannot go on: its {what} was {run.info[name]!r} and is {value!r} now. "
                "The settings, the inputs, the engine and the precision must be those of the run."
            )


def described(job: Job) -> dict[str, Any]:
    """What makes a run, for `run.json`."""
    return {
        "format": FORMAT,
        "run": secrets.token_hex(8),
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

"""A run read from its folder: what was asked, what came out, and the frames."""

import json
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from measureflow.results import Result, frame_at
from measureflow.runs.command import AbstractCommand, again, command
from measureflow.runs.folder import FORMAT, is_alive, missing_chunks, read_marker
from measureflow.runs.outcomes import RunOutcome
from measureflow.words.files import digest
from measureflow.words.measures import AbstractMeasureWord
from measureflow.words.measures.base import Look
from measureflow.words.series import Watched, observed_series, unnamed
from measureflow.words.settings import InputError
from measureflow.words.vocabulary import MEASURES

if TYPE_CHECKING:
    from measureflow.wording import Report


@dataclass(frozen=True, repr=False)
class Run(Result):
    """A run folder, finished or not: a sequence of measures with what was watched and how it ended."""

    path: Path

    @cached_property
    def info(self) -> dict[str, Any]:
        """What made the run, how it ended and what it cost."""
        return self._read("run.json", json.loads)

    @cached_property
    def command(self) -> AbstractCommand:
        """The command that made the run."""
        return command(self.info["command"])

    @cached_property
    def config(self) -> Any:
        """What was asked."""
        words = self._read("config.toml", tomllib.loads) if (self.path / "config.toml").is_file() else {}
        try:
            return self.command.settings(words, past=True)
        except InputError as error:
            raise InputError(
                *(f"{str(self.path)!r}: config.toml: {sentence}" for sentence in error.sentences)
            ) from None

    @cached_property
    def frames(self) -> int:
        """How many frames were safe when the run was opened."""
        return self._marker["frames"]

    @property
    def alive(self) -> bool:
        """Whether a process is writing it."""
        return is_alive(self.path)

    @property
    def finished(self) -> bool:
        """Whether the run came to its end, by itself or by an early one that is a result."""
        return self.info["finished"]

    @property
    def ok(self) -> bool:
        """Whether the run reached its last time."""
        return self.info["ok"]

    @property
    def outcome(self) -> str:
        """How the run ended, in a sentence."""
        if self.ended.running and not self.alive:
            done = f"{self.frames} of {self.info['frames']} frames"
            return f"Killed after {done}; {again(self.info['command'], self.path)} goes on."
        return self.ended.sentence

    @property
    def ended(self) -> RunOutcome:
        """How the run stands or ended, as its folder says: its kind, and where."""
        return RunOutcome.restored(self.info)

    @property
    def stats(self) -> dict[str, Any]:
        """What the run cost, and the error estimate; of a run under way, what is known so far."""
        return self._marker["stats"] | self.info["stats"]

    @property
    def title(self) -> str:
        """The run in a line."""
        return self.info["title"]

    @cached_property
    def _marker(self) -> dict[str, Any]:
        try:
            return read_marker(self.path)
        except ValueError as error:
            raise self._broken("commit.json", error) from None

    @cached_property
    def data(self):
        """The frames as an xarray dataset, cut to those that are safe."""
        import xarray

        try:
            whole = xarray.open_dataset(self.path / "data.zarr", engine="zarr", consolidated=False)
        except Exception as error:
            raise self._broken("data.zarr", error) from None
        return whole.isel(time=slice(self.frames))

    @property
    def times(self) -> np.ndarray:
        """The times of the frames."""
        return self._columns[0]

    @property
    def series(self) -> dict[str, Watched]:
        """What was watched, by name."""
        return self._columns[1]

    @cached_property
    def _columns(self) -> tuple[np.ndarray, dict[str, Watched]]:
        data = self.data
        try:
            watched = {name: Watched(name, data[name].values, **data[name].attrs) for name in self.info["series"]}
            seen = {name: data[name].values for name in self.info.get("observed", ())}
            return data.time.values, watched | observed_series(seen)
        except Exception as error:
            raise self._broken("data.zarr", error) from None

    @property
    def word_name(self) -> str:
        """The word for the measure."""
        return self.info["measure"]["word"]

    @property
    def word(self) -> AbstractMeasureWord:
        """What is known of the measure."""
        if self.word_name not in MEASURES:
            raise InputError(f"`measure` {self.word_name!r} is no word here; add it with `use`, as the run did.")
        return MEASURES[self.word_name]

    @property
    def look(self) -> Look:
        """How the measures are looked at."""
        return Look(**self.info["look"])

    def arrays(self, frame: int) -> dict[str, np.ndarray]:
        """The stored numbers of one frame, and those that do not change."""
        try:
            return {str(name): np.asarray(values) for name, values in self.data.isel(time=frame).variables.items()}
        except Exception as error:
            raise self._broken(f"frame {frame % max(self.frames, 1)} in data.zarr", error) from None

    def at(self, i: int | None = None, *, time: float | None = None) -> Any:
        """The measure of frame `i`, or that of the frame at a `time`."""
        i = frame_at(self.times if i is None else (), i, time)
        if not -self.frames <= i < self.frames:
            raise IndexError(f"`i` is {i}, but {str(self.path)!r} has {self.frames} frames.")
        self._check_kept()
        return self.word.restored(self.info["measure"], self.arrays(i))

    def _check_kept(self) -> None:
        if not self.kept:
            raise InputError(
                f"{str(self.path)!r} holds what was `observed`, not the frames: record the flow with `keep=True` to have both."
            )

    @property
    def kept(self) -> bool:
        """Whether the frames are there, or only what was observed of them."""
        return self.info.get("kept", True)

    @property
    def observed(self) -> Any:
        """What was observed of every frame: an array, or several by name; None where nothing was."""
        return unnamed({name: self.data[name].values for name in self.info.get("observed", ())})

    @property
    def final(self) -> Any:
        """The measure of the last frame."""
        return self.at(-1)

    def check(self) -> None:
        """Refuse, with a sentence, a folder in which something is missing or broken; numbers are checked when they are read."""
        try:
            kinds = {"command": str, "title": str, "measure": dict, "look": dict, "series": list, "frames": int}
            kinds |= {"finished": bool, "ok": bool, "outcome": str, "stats": dict, "precision": str, "fingerprint": str}
            for name, kind in kinds.items():
                if not isinstance(self.info[name], kind):
                    raise TypeError(f"{name!r} is {self.info[name]!r}")
            if self.info["format"] > FORMAT:
                raise ValueError(f"format {self.info['format']} is of a later version; {FORMAT} is known here")
        except (KeyError, TypeError, ValueError) as error:
            raise self._broken("run.json", error) from None
        try:
            if not 0 <= self.frames <= self.info["frames"]:
                raise ValueError(f"{self.frames} frames are said to be safe, of {self.info['frames']}")
        except (KeyError, TypeError, ValueError) as error:
            raise self._broken("commit.json", error) from None
        try:
            if missing := missing_chunks(self.path, self.info["series"], self.frames):
                raise ValueError(f"{missing} is missing")
        except (KeyError, TypeError, ValueError, OSError) as error:
            raise self._broken("data.zarr", error) from None

    def _read(self, name: str, parse: Callable[[str], Any]) -> Any:
        try:
            return parse((self.path / name).read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise self._broken(name, error) from None

    def _broken(self, what: str, error: Exception) -> InputError:
        said = f"no {error}" if isinstance(error, KeyError) else str(error).split("\n")[0].rstrip(".")
        return InputError(
            f"{str(self.path)!r} is a run that is broken: {what}: {said}. What its other files hold can still be read: "
            "run.json and config.toml are text, and xarray opens data.zarr."
        )

    def __len__(self) -> int:
        return self.frames

    def __iter__(self) -> Iterator[Any]:
        return (self.at(i) for i in range(self.frames))

    def __getitem__(self, i: int) -> Any:
        return self.at(i)

    @property
    def points(self) -> np.ndarray:
        """The tokens of all frames."""
        self._check_kept()
        if "points" not in self.data:
            raise InputError(f"{str(self.path)!r} has no tokens: its frames are {self.word.help}. See `data`.")
        return self.data.points.values

    def __repr__(self) -> str:
        span = f", t = {self.times[0]:.4g} to {self.times[-1]:.4g}" if self.frames else ""
        error = f", error {self.stats['error']:.1g}" if "error" in self.stats else ""
        return f"Run({str(self.path)!r}: {self.frames} frames{span}, {self.title}. {self.outcome.rstrip('.')}{error})"

    @property
    def table(self) -> "Report":
        """The run in rows."""
        from measureflow.runs.report import table

        return table(self)

    @property
    def figure(self) -> Any:
        """The picture of the run."""
        from measureflow.runs.report import figure

        return figure(self)


def open(path: str | Path) -> Run:
    """The run in a folder."""
    path = Path(path)
    if not path.is_dir() or not (path / "run.json").is_file():
        raise InputError(
            f"{str(path)!r} is not a run folder; `measureflow simulate` and `measureflow train` write one."
        )
    run = Run(path)
    run.check()
    return run


def check_inputs(run: Run) -> None:
    """Refuse to compute with files that are not those that a run was made with."""
    for file, was in run.info.get("inputs", {}).items():
        if not Path(file).is_file():
            raise InputError(f"{str(run.path)!r} was made with {file!r}, which is gone; put it back.")
        if digest(file) != was:
            raise InputError(
                f"{str(run.path)!r} was made with {file!r}, which has changed since; put the old one back."
            )

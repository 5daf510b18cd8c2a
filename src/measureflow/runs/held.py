"""A path that looks like a run to whatever draws and describes runs."""

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Array

from measureflow import checks
from measureflow.energies import AbstractEnergy
from measureflow.flows import Trajectory
from measureflow.runs.command import AbstractCommand, command
from measureflow.runs.recorder import look_at, word_of
from measureflow.words.series import Series, Watched, observed, observed_series, watch

Curves = Mapping[str, Callable[[Any], Any] | np.ndarray | Array]
"""Numbers along a path by their labels: functions of a measure, or their values at the frames."""


class Held:
    """A path as pictures and words see it: like a run."""

    def __init__(self, path: Trajectory, energy: AbstractEnergy | None, series: Curves, title: str):
        if not checks.concrete(path) or np.ndim(path.outcome.kind):
            raise ValueError(
                "Only one path at a time can be drawn or saved, outside of `jit`; take one of the batch first."
            )
        self.path, self._curves = path, series
        self.word_name, self.word = word_of(path.final)
        self.look = look_at(path.final if path.kept is None or not len(path) else path.at(0), energy)
        self.title = title or path.final.described

    @property
    def times(self) -> np.ndarray:
        """The times of the frames."""
        return np.asarray(self.path.times)

    @property
    def frames(self) -> int:
        """How many frames there are."""
        return len(self.path)

    @property
    def kept(self) -> bool:
        """Whether the frames are there."""
        return self.path.kept is not None

    def at(self, i: int) -> Any:
        """The measure of a frame."""
        return self.path.at(i)

    @cached_property
    def series(self) -> dict[str, Watched]:
        """What is watched of such measures, and what was asked for besides."""
        usual = tuple(one for one in self.word.series(self.look) if one.where(self.path.final)) if self.kept else ()
        return self._watched(usual) | self._asked() | observed_series(observed(self.path.observed))

    def _watched(self, series: tuple[Series, ...]) -> dict[str, Watched]:
        declared = {one.name: one.attributes() for one in series}
        found = watch(series, self.times, self.path.measures) if series else {}
        return {name: Watched(name, values, **declared[name]) for name, values in found.items()}

    def _asked(self) -> dict[str, Watched]:
        functions = tuple(Series(label, of, label) for label, of in self._curves.items() if callable(of))
        given = {label: Watched(label, np.asarray(of), label) for label, of in self._curves.items() if not callable(of)}
        return self._watched(functions) | given

    def arrays(self, frame: int) -> dict[str, np.ndarray]:
        """The numbers of a frame, as a run would store them."""
        mu = self.path.at(frame)
        fixed = {name: values for name, (_, values) in self.word.fixed(mu).items()}
        return {name: np.asarray(values) for name, values in self.word.arrays(mu).items()} | fixed

    @property
    def stats(self) -> dict[str, Any]:
        """What the path cost."""
        return self.path.stats

    @property
    def ok(self) -> bool:
        """Whether the last time was reached."""
        return bool(self.path.outcome.ok)

    @property
    def outcome(self) -> str:
        """How it ended, in a sentence."""
        return str(self.path.outcome)

    @property
    def info(self) -> dict[str, Any]:
        """What is known of the measure."""
        return {"measure": {"word": self.word_name} | self.word.facts(self.path.final)}

    @property
    def command(self) -> AbstractCommand:
        """What makes its table and pictures: what would for a recording."""
        return command("record")

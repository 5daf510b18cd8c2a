"""What tables and figures ask of a run (`Recorded`), and a path or a run with other curves in that shape (`Record`)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np


@runtime_checkable
class Recorded(Protocol):
    """Measures over time as tables and figures see them: those of a run folder, or of a path in memory.

    Each series has `values`, a `label`, and says whether it `counts` something and is `drawn`, as `TimeSeries` does.
    """

    @property
    def times(self) -> np.ndarray:
        """The times of the frames."""
        ...

    @property
    def series(self) -> Mapping[str, Any]:
        """The numbers that were recorded along the run, by name."""
        ...

    @property
    def title(self) -> str:
        """The run in a line."""
        ...

    @property
    def stats(self) -> dict[str, Any]:
        """Numbers that the flow told once: steps, error, blow-up time."""
        ...

    @property
    def look(self) -> Any:
        """How the measures are looked at: the energy, how far clusters reach, the frame of reference."""
        ...

    @property
    def word_name(self) -> str:
        """The word for the measure on the command line."""
        ...

    def at(self, i: int) -> Any:
        """The measure of a frame."""
        ...


@dataclass(frozen=True)
class Record:
    """A path or a run with the series, the title and the frame of reference that a table or a figure shall show.

    `seen` gives what is shown of a measure at a time: the measure itself unless given.
    """

    source: Any
    series: Mapping[str, Any]
    title: str = ""
    look: Any = None
    word_name: str = ""
    seen: Callable[[Any, float], Any] = lambda mu, t: mu

    @property
    def times(self) -> np.ndarray:
        """The times of the frames."""
        return np.asarray(self.source.times)

    @property
    def stats(self) -> dict[str, Any]:
        """Numbers that the flow told once."""
        return self.source.stats

    def at(self, i: int) -> Any:
        """The measure of a frame, as it is shown."""
        return self.seen(self.source.at(i), float(self.times[i]))


def drawn_series(run: Recorded) -> list[str]:
    """The names of the series that a figure shows."""
    return [name for name, series in run.series.items() if series.drawn]

"""What a word for a measure knows. Files of words import JAX and pictures where they use them, so that help is quick."""

import abc
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from measureflow.words.table import Option, load

if TYPE_CHECKING:
    from measureflow.energies import AbstractEnergy
    from measureflow.plotting import Recorded
    from measureflow.words.series import Series
    from measureflow.words.settings import Settings

Rules = list[tuple[bool, str]]
Arrays = dict[str, Any]
Rows = Iterator[tuple[str, str]]

ENERGY = "interaction energy E"
"""The label of the energy that attention raises."""


@dataclass(frozen=True)
class Look:
    """How measures are looked at.

    `energy` is watched under its `label`. Clusters reach as far as the `tolerance`, or stand out from the cloud, whose size is
    at least `extent`. Tokens are seen by their `directions` alone, or as `e^{-tG} x` where they grow by the rates `G` of
    `growth`: a number, or the rows of a matrix. They are `rescaled` by that, or because the flow itself is.
    """

    energy: "AbstractEnergy | None" = None
    label: str = ENERGY
    tolerance: float | None = None
    directions: bool = False
    growth: Any = None
    rescaled: bool = False
    extent: float = 0.0

    def kept(self) -> dict[str, Any]:
        """What a run keeps of it, as plain values."""
        return {name: getattr(self, name) for name in ("tolerance", "directions", "growth", "rescaled", "extent")}


class AbstractMeasureWord(abc.ABC):
    """A word for a measure: everything that commands, run folders and pictures know of it."""

    help: ClassVar[str]
    kind: ClassVar[str]
    """The class of the measure, as `"module:name"`."""
    dimensions: ClassVar[Mapping[str, tuple[str, ...]]]
    """The stored arrays of a frame, with the names of their dimensions."""

    brings: ClassVar[Mapping[str, Option]] = {}
    usual: ClassVar[Mapping[str, Any]] = {}
    """Values that options take unless given."""
    sizes: ClassVar[tuple[str, ...]] = ("dim",)
    """Options that decide how much memory a run takes."""
    in_file: ClassVar[tuple[str, ...]] = ()
    """Options that a file of the start sets."""
    traits: ClassVar[tuple[str, ...]] = ()
    overlay: ClassVar[str] = ""
    """How the measure is drawn over another: as particles, gaussian, mixture, circle or sphere; not at all unless told."""
    rank: ClassVar[int] = 1
    """Words are listed by rank."""

    def rules(self, config: "Settings") -> Rules:
        """What must not be, each with the sentence that says so."""
        return []

    def numbers(self, config: "Settings") -> float:
        """About how many numbers a run holds in memory at once: a rough count."""
        return 0.0

    @abc.abstractmethod
    def start(self, config: "Settings") -> Any:
        """The measure from which a run starts."""

    @abc.abstractmethod
    def arrays(self, mu: Any) -> Arrays:
        """The arrays of a frame, or of many along a leading axis."""

    def fixed(self, mu: Any) -> dict[str, tuple[str, np.ndarray]]:
        """Arrays that do not change in time, each with its dimension."""
        return {}

    def facts(self, mu: Any) -> dict[str, Any]:
        """What else is needed to restore a measure, as plain values."""
        return {}

    @abc.abstractmethod
    def restored(self, facts: dict[str, Any], arrays: dict[str, np.ndarray]) -> Any:
        """The measure of one frame."""

    @abc.abstractmethod
    def series(self, look: Look) -> "tuple[Series, ...]":
        """What is watched along a run."""

    def rows(self, run: "Recorded") -> Rows:
        """Rows of the table of a run beyond those of its series."""
        yield from ()

    def looked(self, run: "Recorded") -> Any:
        """The run with its measures as they are looked at: as they are, unless the word knows better."""
        return run

    @abc.abstractmethod
    def figure(self, run: "Recorded", figure: Any = None) -> Any:
        """Draw a run into a figure, a new one unless given, and return the figure."""

    @abc.abstractmethod
    def draw(self, ax: Any, run: "Recorded", i: int) -> Any:
        """Draw the measure of one frame of a run on axes, as the figure of the run does, and return the axes."""

    def movie(self, run: "Recorded", file: Any) -> None:
        """Write the run as a moving picture."""
        raise ValueError(f"`movie` needs tokens; a run of `measure` {run.word_name} has none.")

    def drawn(self, mu: Any) -> Arrays:
        """The arrays of a measure as pictures want them."""
        fixed = {name: values for name, (_, values) in self.fixed(mu).items()}
        return {name: np.asarray(values) for name, values in self.arrays(mu).items()} | fixed


def load_kind(word: AbstractMeasureWord) -> type:
    """The class of the measure of a word."""
    return load(word.kind)

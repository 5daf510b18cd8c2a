"""Words for optimisers: what a line of the table of optimisers says. Needs no JAX."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from measureflow.words.table import Word, load


@dataclass(frozen=True)
class OptimiserWord(Word):
    """A word for an optimiser.

    `make` gives the field that moves particles, an `AbstractOptimiser`, from their descent and the options of the word; without
    it the descent itself moves them. The field knows how many vectors it remembers of a particle and which steps are stable.

    `solver` is made from the length of a step. Without one the flow itself is followed: its solver chooses its own steps, or
    takes those of `step` where the energy has kinks. `noise` is the word for a noise, which takes its options from those of
    this word. A word that brings the option `batch` trains on samples, so many at each step.
    """

    solver: str | Callable[..., Any] | None = "measureflow.flows:Euler"
    noise: Word | None = None

    @property
    def samples(self) -> bool:
        """Whether data are drawn at each step."""
        return "batch" in self.brings

    def field(self, config: Any, descent: Any) -> Any:
        """The field that moves particles, with the options that are not those of samples or noise."""
        elsewhere = {"batch", *(self.noise.takes if self.noise is not None else ())}
        options = {name: getattr(config, name) for name in (*self.brings, *self.takes) if name not in elsewhere}
        return load(self.make)(descent, **options) if self.make else descent

"""A job: what one run needs to know, whatever it computes.

A job supplies a flow, what is watched along it, when to stop and what is stored beside; `perform` does the rest.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import equinox as eqx
import jax
import numpy as np

from measureflow.flows import AbstractFlow, Trajectory, precision
from measureflow.flows.stats import STATS
from measureflow.measures import AbstractDiffusive
from measureflow.runs.fingerprint import fingerprint
from measureflow.runs.outcomes import UNDER_WAY, RunOutcome
from measureflow.words.measures import AbstractMeasureWord
from measureflow.words.measures.base import Look
from measureflow.words.series import Series, observed, watch
from measureflow.words.settings import Settings

ExtraArrays = dict[str, tuple[tuple[str, ...], np.ndarray]]
"""Arrays stored beside the frames, each with the names of its dimensions."""


SUMMED = tuple(stat.name for stat in STATS if stat.summed)
"""Stats of legs that add up to those of the run."""


@dataclass
class Progress:
    """What is known of a run so far: enough to show it, to stop it and to finish it."""

    mu: Any
    frames: int = 0
    time: float = 0.0
    series: dict[str, float] = field(default_factory=dict)
    stats: dict[str, Any] = field(default_factory=dict)
    outcome: RunOutcome = UNDER_WAY
    seconds: float = 0.0
    pulse: Any = None
    """What tells how far the leg is that is being computed, if anything does."""

    @property
    def ok(self) -> bool:
        """Whether nothing has ended the run before its last time."""
        return self.outcome.running or self.outcome.ok

    @property
    def reached(self) -> float:
        """The time up to which the run was computed, saved or not."""
        return max(self.time, self.pulse.time) if self.pulse is not None and self.pulse.steps else self.time

    def follow(self, path: Trajectory, values: Mapping[str, np.ndarray]) -> None:
        """Take in a leg."""
        self.mu, self.frames, self.time = path.final, self.frames + len(path), float(path.outcome.time)
        self.series = {name: float(column[-1]) for name, column in values.items() if len(column)} or self.series
        totals = {name: self.stats.get(name, 0) + path.stats[name] for name in SUMMED if name in path.stats}
        self.stats |= path.stats | totals
        self.outcome = RunOutcome.of(path.outcome)

    def end(self, kind: str, sentence: str) -> None:
        """Note that the run ends here, and why."""
        self.outcome = RunOutcome(kind, sentence, self.time)


@dataclass(frozen=True)
class Job:
    """A flow to be recorded; jobs of their own kind override what they do differently."""

    flow: AbstractFlow
    word: AbstractMeasureWord
    word_name: str
    series: tuple[Series, ...]
    title: str
    frames_per_leg: int
    command: str = "record"
    settings: Settings | None = None
    seed: int | None = None
    verify: bool = True
    look: Look = field(default_factory=Look)
    keep: bool = True
    """Whether frames are stored, beside what is observed of them."""
    ahead: bool = True
    """Whether the programs of the error estimate are compiled beside the first legs."""
    alone: AbstractFlow | None = None
    """The same flow in one process, where several compute it; a run may go on in any number of them, equal to rounding."""
    data: str = ""
    """What the data of the run were understood to be, in words: said before anything is computed."""

    def stop(self, state: Progress) -> str | None:
        """A sentence that ends the run before its last frame, if there is a reason."""
        return None

    def finish(self, state: Progress) -> ExtraArrays:
        """What is stored beside the frames when a run ends, also before its time; may add to the stats."""
        return {}

    @property
    def labels(self) -> dict[str, dict[str, Any]]:
        """The attributes that are stored beside series and other arrays, by name."""
        return {one.name: one.attributes() for one in self.series}

    @property
    def frames(self) -> int:
        """How many frames the run has in the end."""
        return len(self.flow.times)

    @cached_property
    def end(self) -> float:
        """The last time."""
        return float(np.asarray(self.flow.times)[-1])

    @cached_property
    def fingerprint(self) -> str:
        """A text that is equal for equal flows and legs."""
        flow = self.flow if self.alone is None else self.alone
        return fingerprint((flow, self.frames_per_leg) if self.keep else (flow, self.frames_per_leg, "observed"))

    @property
    def pathwise(self) -> bool:
        """Whether the flow follows one path of a noise: tokens do, densities have its law."""
        return getattr(self.flow, "noise", None) is not None and not isinstance(self.flow.start, AbstractDiffusive)

    @property
    def precision(self) -> str:
        """The floating point type of the flow."""
        return precision(self.flow.start).name

    def frames_of(self, path: Trajectory) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """The values of all series on the frames of a path, and the arrays that are stored of these frames."""
        values = watch(self.series, np.asarray(path.times), path.measures)
        frames = self.shown(path.measures) if self.keep else {}
        return values, frames | {name: np.asarray(array) for name, array in observed(path.observed).items()}

    def shown(self, measures: Any) -> dict[str, np.ndarray]:
        """The arrays of measures; those that have changed their form are shown in that of the start."""
        start = self.flow.start
        if jax.tree.structure(measures) != jax.tree.structure(start) or _shapes(measures, 1) != _shapes(start, 0):
            measures = _as_seen(measures, start)
        return {name: np.asarray(array) for name, array in self.word.arrays(measures).items()}

    def layout(self) -> dict[str, dict[str, int]]:
        """The stored arrays of a frame, each with the names and sizes of its dimensions."""
        start = self.word.arrays(self.flow.start) if self.keep else {}
        frames = {name: dict(zip(self.word.dimensions[name], np.shape(start[name]), strict=True)) for name in start}
        return frames | {
            name: {f"{name}_{i}": size for i, size in enumerate(value.shape)} for name, value in self.observed.items()
        }

    @cached_property
    def observed(self) -> dict[str, jax.ShapeDtypeStruct]:
        """What is observed of a frame, by name."""
        observe = self.flow.keeping.observe
        return {} if observe is None else observed(eqx.filter_eval_shape(observe, self.flow.start))


def _shapes(tree: Any, leading: int) -> list[tuple[int, ...]]:
    return [leaf.shape[leading:] for leaf in jax.tree.leaves(tree)]


@eqx.filter_jit
def _as_seen(measures: Any, like: Any) -> Any:
    return jax.lax.map(lambda mu: mu.seen(like), measures)

"""How a run stands or ended: a kind, which programs ask for, and a sentence, which people read.

A flow ends in one of the kinds of `measureflow.flows.Outcome` ("reached", "blow-up", ...). A run may also be under way, be
stopped by its job, be interrupted, run out of disk, or raise an error.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from measureflow.flows import Outcome
from measureflow.flows.trajectory import KINDS

REACHED = KINDS[0]
RESULTS = (REACHED, "blow-up", "ended")
"""Kinds of a run that did what was asked: it came to its last time or last event, or the flow itself has no later time."""
RUNNING = "running"
STOPPED = "stopped"
INTERRUPTED = "interrupted"
STORAGE = "storage"
ERROR = "error"
"""A run or a cell that raised an error; its sentence is the message."""


@dataclass(frozen=True)
class RunOutcome:
    """How a run stands or ended, where, and the speed of its measure there."""

    kind: str
    sentence: str
    time: float = 0.0
    speed: float = float("nan")

    @property
    def ok(self) -> bool:
        """Whether the run reached its last time."""
        return self.kind == REACHED

    @property
    def running(self) -> bool:
        """Whether the run has not ended yet."""
        return self.kind == RUNNING

    @property
    def code(self) -> int:
        """The exit code of a command that ends with this outcome: 0 for a result, 1 for a run that gave up before its time.

        A fixed step that is not finite counts as giving up, since it may be the step that is too long.
        """
        return 0 if self.kind in RESULTS else 1

    @staticmethod
    def of(outcome: Outcome) -> "RunOutcome":
        """The outcome of a flow."""
        return RunOutcome(KINDS[int(outcome.kind)], str(outcome), float(outcome.time), float(outcome.speed))

    def stored(self) -> dict[str, Any]:
        """The outcome as plain values of a JSON file."""
        speed = self.speed if np.isfinite(self.speed) else None
        return {"outcome": self.sentence, "ending": {"kind": self.kind, "time": self.time, "speed": speed}}

    @staticmethod
    def restored(stored: Mapping[str, Any]) -> "RunOutcome":
        """The outcome of plain values; folders of format 1 have its sentence and whether it is `ok`."""
        if "ending" not in stored:
            kind = RUNNING if stored["outcome"] == UNDER_WAY.sentence else REACHED if stored["ok"] else STOPPED
            return RunOutcome(kind, stored["outcome"])
        ending = stored["ending"]
        speed = float("nan") if ending["speed"] is None else ending["speed"]
        return RunOutcome(ending["kind"], stored["outcome"], ending["time"], speed)

    def of_flow(self, dtype: Any) -> Outcome:
        """The outcome as a flow tells it; what only a run knows is an interruption."""
        kind = KINDS.index(self.kind) if self.kind in KINDS else KINDS.index(INTERRUPTED)
        return Outcome(jnp.asarray(kind), jnp.asarray(self.time, dtype), jnp.asarray(self.speed, dtype))


UNDER_WAY = RunOutcome(RUNNING, "Running.")

"""Cells of one shape as one program: flows that differ in numbers alone are computed side by side.

A command that can describe a flow from traced numbers (`AbstractCommand.parts`) has its cells in batches: what is drawn, moved,
watched and estimated is one compiled program under `vmap`, from the swept numbers to the numbers of the table. Which numbers
can be traced is found by trying: those that decide shapes or choices cannot, and cells are grouped by them.
"""

import math
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from measureflow.flows import AbstractFlow, Flow, Trajectory
from measureflow.flows.leg import Keeping, Straight
from measureflow.runs.command import AbstractCommand
from measureflow.runs.outcomes import RunOutcome
from measureflow.sweeps.row import Row
from measureflow.words.series import Series
from measureflow.words.settings import Settings

MOST_CELLS = 64
"""Cells of a batch: with more, what is lost when a sweep is killed grows, and speed does not."""
NUMBERS = 2**24
"""About how many numbers a batch holds at once."""
UNTRACED = (jax.errors.JAXTypeError, jax.errors.JAXIndexError, TypeError, ValueError, UserWarning)
"""What a description raises that looks at a number while it is traced."""


def traceable(command: AbstractCommand, settings: Settings, names: Sequence[str]) -> tuple[str, ...]:
    """Those of some settings that a flow can be described from while they are traced."""
    numbers = {name: value for name in names if (value := _number(getattr(settings, name, None))) is not None}
    numbers = {name: value for name, value in numbers.items() if name not in settings.looked_at}
    if _traces(command, settings, numbers):
        return tuple(numbers)
    alone = {name: value for name, value in numbers.items() if _traces(command, settings, {name: value})}
    return tuple(alone) if _traces(command, settings, alone) else ()


def _number(value: Any) -> Any:
    return np.asarray(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _traces(command: AbstractCommand, settings: Settings, numbers: Mapping[str, Any]) -> bool:
    if not numbers:
        return False
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*set as static")  # a size, such as the dimension of a space
        try:
            jax.eval_shape(lambda given: _described(command, settings, given), dict(numbers))
        except UNTRACED:
            return False
    return True


def _described(command: AbstractCommand, settings: Settings, numbers: Mapping[str, Any]) -> Any:
    """The arrays of a flow, and those of what is watched on its start."""
    flow, series, look = command.parts(settings.model_copy(update=dict(numbers)))
    if isinstance(flow, Flow) and not isinstance(flow.way(), Straight):
        raise TypeError("A flow that merges tokens or follows a density stops to look at numbers.")
    watched = {one.name: one.of(flow.start) for one in series if not one.host}
    return eqx.filter((flow, look), eqx.is_array), watched


def size_of(settings: Settings, cells: int) -> int:
    """How many of some cells are computed at once, in batches of equal size."""
    most = int(np.clip(NUMBERS // max(settings.numbers(), 1.0), 1, MOST_CELLS))
    return math.ceil(cells / math.ceil(cells / most))


class Batch:
    """Cells that share a program: the settings of one of them, and the names of the numbers in which they differ."""

    def __init__(self, command: AbstractCommand, settings: Settings, names: Sequence[str], along: bool, size: int):
        self.command, self.settings, self.names, self.along, self.size = command, settings, tuple(names), along, size

    @cached_property
    def job(self) -> Any:
        """The job of the first cell, which says what is watched and how."""
        return self.command.job(self.settings)

    def compute(self, cells: Sequence[Settings]) -> list[Row]:
        """The rows of up to `size` cells; fewer are filled up, so that one program serves all."""
        filled = [*cells, *[cells[-1]] * (self.size - len(cells))]
        numbers = {name: jnp.asarray([getattr(cell, name) for cell in filled]) for name in self.names}
        begun = time.perf_counter()
        found = jax.block_until_ready(self._program(numbers))
        taken = time.perf_counter() - begun
        return list(self._rows(jax.tree.map(np.asarray, found), cells, taken / len(cells)))

    def compiled(self) -> "Batch":
        """The same, with its program made; what is wrong with its first cell is said here, in a sentence."""
        _ = self.job, self._program
        return self

    @cached_property
    def _program(self) -> Any:
        shapes = {name: jax.ShapeDtypeStruct((self.size,), _kind(self.settings, name)) for name in self.names}
        return jax.jit(jax.vmap(self._one)).lower(shapes).compile()

    def _one(self, numbers: Mapping[str, Any]) -> dict[str, Any]:
        """One cell, from its numbers to all that the table wants of it."""
        flow, series, look = self.command.parts(self.settings.model_copy(update=dict(numbers)))
        traced = tuple(one for one in series if not one.host)
        watch = lambda mu: {one.name: one.of(mu) for one in traced}  # noqa: E731
        path = _observed(flow, watch)
        found = {
            "outcome": path.outcome,
            "costs": path.costs,
            "final": path.final,
            "times": path.times,
            "observed": path.observed if self.along else jax.tree.map(lambda leaf: _last(leaf, path), path.observed),
            "extent": jnp.asarray(look.extent, float),
        }
        error = flow.error(path.final, path.outcome.time) if self.job.verify else None
        return found if error is None else found | {"error": error}

    def _rows(self, found: dict[str, Any], cells: Sequence[Settings], seconds: float) -> Iterator[Row]:
        for i in range(len(cells)):
            yield self._row(jax.tree.map(lambda leaf, i=i: leaf[i], found), seconds)

    def _row(self, found: dict[str, Any], seconds: float) -> Row:
        outcome = RunOutcome.of(found["outcome"])
        end = outcome.time
        reached = slice(int((found["times"] <= end).sum()))
        series = {name: np.asarray(of)[reached] for name, of in found["observed"].items()} if self.along else {}
        final = {name: of[-1] for name, of in series.items() if len(of)} if self.along else dict(found["observed"])
        host = [one for one in self.command.watched(self.job, float(found["extent"])) if one.host]
        final |= {one.name: _seen(one, found["final"], end) for one in host}
        stats = {name: of.item() for name, of in found["costs"].items()}
        stats |= {"error": float(found["error"])} if "error" in found and outcome.ok else {}
        final = {one.name: float(final[one.name]) for one in self.job.series if one.name in final}
        return Row.of(outcome, stats, final, seconds, found["times"][reached] if self.along else None, series)


def _observed(flow: AbstractFlow, watch: Any) -> Trajectory:
    """The path of a flow with what is watched of every frame, and no frames."""
    if not isinstance(flow, Flow):
        path = flow.run()
        return eqx.tree_at(
            lambda p: p.observed, path, jax.vmap(watch)(path.measures), is_leaf=lambda leaf: leaf is None
        )
    keeping = Keeping(frames=False, observe=watch)
    return eqx.tree_at(lambda f: f.keeping, flow, keeping, is_leaf=lambda node: isinstance(node, Keeping)).run()


def _kind(settings: Settings, name: str) -> Any:
    return jax.dtypes.canonicalize_dtype(np.asarray(getattr(settings, name)).dtype)


def _last(values: Any, path: Any) -> Any:
    """The value at the last frame that was reached."""
    return values[jnp.maximum(path.frames - 1, 0)]


def _seen(one: Series, mu: Any, t: float) -> Any:
    return np.asarray(one.of(mu, t) if one.timed else one.of(mu))

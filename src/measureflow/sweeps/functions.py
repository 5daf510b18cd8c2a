"""Cells of a function: `sweep(f, {"beta": [1.0, 4.0], "seed": range(8)})` calls `f(beta=..., seed=...)` for every cell.

A function of numbers that JAX can trace is computed for many cells at once, under `vmap`; any other is called cell by cell. It
gives a number, several by name (one axis is kept along `time`), or a `Flow`, which is run and watched like a recorded one.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from measureflow.flows import AbstractFlow
from measureflow.runs.fingerprint import fingerprint
from measureflow.runs.outcomes import REACHED
from measureflow.runs.recorder import job_for
from measureflow.sweeps.cells import AbstractWork, CellRequest, Chunk, groups_of, is_number, varying
from measureflow.sweeps.design import Design
from measureflow.sweeps.row import Row, computed
from measureflow.words.settings import InputError

BATCH = 64
"""Cells computed at once: how much a function holds is not known."""


@dataclass(frozen=True)
class FunctionWork(AbstractWork):
    """Cells of a function of the axes."""

    function: Callable[..., Any]
    keep: str = "final"

    def asked(self, design: Design) -> list[CellRequest]:
        """Every cell is known by its values and by the code of the function."""
        if self.keep == "runs":
            raise InputError("`keep` runs is for commands; record flows of your own with `mf.runs.record`.")
        code = fingerprint(self.function)
        values = ({**design.base, **cell} for cell in design.cells())
        return [CellRequest(fingerprint((code, sorted(cell.items()))), cell, cell, cell) for cell in values]

    def chunks(self, cells: Sequence[CellRequest], workers: int = 1) -> Iterator[Chunk]:
        """In batches where the function can be traced."""
        for group in groups_of(cells, varying(cells)):
            numbers = [name for name in group[0].cell if is_number(group[0].cell[name])]
            size = min(BATCH, -(-len(group) // workers))
            traced = size > 1 and numbers and self._traces(group[0].cell, numbers)
            size = size if traced else 1
            for start in range(0, len(group), size):
                yield Chunk(tuple(group[start : start + size]), tuple(numbers) if traced else (), size)

    def _traces(self, cell: Mapping[str, Any], numbers: Sequence[str]) -> bool:
        try:
            jax.eval_shape(lambda given: self._found({**cell, **given}), {name: cell[name] for name in numbers})
        except Exception:  # whatever it is, the function says it again when it is called alone
            return False
        return True

    def _found(self, cell: Mapping[str, Any]) -> dict[str, Any]:
        """What the function gives, by name."""
        found = self.function(**cell)
        if isinstance(found, AbstractFlow):
            raise TypeError("A flow is run by itself.")
        return {name: jnp.asarray(value) for name, value in named(found).items()}

    def rows(self, chunk: Chunk) -> list[Row]:
        """In a batch, or one by one."""
        if chunk.names:
            try:
                return self._batch(chunk)
            except Exception:  # each cell tells below what was wrong with it
                pass
        return [self._alone(one.cell) for one in chunk.cells]

    def _batch(self, chunk: Chunk) -> list[Row]:
        cells = [*chunk.cells, *[chunk.cells[-1]] * (chunk.size - len(chunk.cells))]
        numbers = {name: jnp.asarray([one.cell[name] for one in cells]) for name in chunk.names}
        fixed = tuple((name, value) for name, value in cells[0].cell.items() if name not in chunk.names)
        program = _vmapped(self, fixed)
        begun = time.perf_counter()
        found = jax.tree.map(np.asarray, program(numbers))
        seconds = (time.perf_counter() - begun) / len(chunk.cells)
        return [
            self._row({name: np.asarray(of[i]) for name, of in found.items()}, seconds) for i in range(len(chunk.cells))
        ]

    def _alone(self, cell: Mapping[str, Any]) -> Row:
        begun = time.perf_counter()
        try:
            found = self.function(**cell)
            if isinstance(found, AbstractFlow):
                return computed(job_for(found), along=self.keep == "series")
            values = {name: np.asarray(value) for name, value in named(found).items()}
            return self._row(values, time.perf_counter() - begun)
        except Exception as error:
            return Row.failed(error, time.perf_counter() - begun)

    def _row(self, values: Mapping[str, np.ndarray], seconds: float) -> Row:
        for name, of in values.items():
            if of.ndim > 1 or of.dtype.kind not in "biuf":
                raise InputError(f"`{name}` must be a number, or numbers along one axis; got {of.dtype}{of.shape}.")
        series = {name: of.astype(float) for name, of in values.items() if of.ndim}
        final = {name: float(of[-1] if of.ndim else of) for name, of in values.items()}
        bad = [name for name, value in final.items() if not np.isfinite(value)]
        outcome = f"Not finite: {', '.join(bad)}." if bad else "Computed."
        along = self.keep == "series" and bool(series)
        times = np.arange(max(map(len, series.values()))).astype(float) if along else None
        kind = "undefined" if bad else REACHED
        return Row(outcome, not bad, kind, seconds=seconds, final=final, times=times, series=series if along else {})


def named(found: Any) -> dict[str, Any]:
    """What a function gives, by name: `value` if it is one thing."""
    return dict(found) if isinstance(found, Mapping) else {"value": found}


_PROGRAMS: dict[Any, Any] = {}


def _vmapped(work: FunctionWork, fixed: tuple[tuple[str, Any], ...]) -> Any:
    """The program of a function with some values fixed; the last one is at hand."""
    program = _PROGRAMS.get((work, fixed))
    if program is None:
        _PROGRAMS.clear()
        program = _PROGRAMS[work, fixed] = jax.jit(jax.vmap(partial(_called, work, dict(fixed))))
    return program


def _called(work: FunctionWork, fixed: Mapping[str, Any], numbers: Mapping[str, Any]) -> dict[str, Any]:
    return work._found({**fixed, **numbers})

"""A sweep read from its folder: its table, its arrays by axis and its picture."""

import contextlib
import os
import shutil
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from measureflow.runs.outcomes import ERROR
from measureflow.sweeps import ledger
from measureflow.sweeps.design import Cell, Design
from measureflow.sweeps.row import Row
from measureflow.words.settings import InputError


@dataclass(frozen=True)
class ComputedCell:
    """A cell that was computed: its values by name, its settings and its row."""

    key: str
    cell: Cell
    settings: dict[str, Any]
    row: Row

    @property
    def failed(self) -> bool:
        """Whether it could not be computed."""
        return self.row.kind == ERROR


@dataclass(frozen=True, repr=False)
class Sweep:
    """A sweep folder, finished or not."""

    path: Path

    @cached_property
    def design(self) -> Design:
        """The design as it was last asked for."""
        if (text := ledger.info(self.path).get("design")) is None:
            raise InputError(
                f"{str(self.path)!r} is a sweep that was killed before it knew its design; the same command begins anew."
            )
        return Design.parse(text, str(self.path))

    @cached_property
    def command(self) -> str:
        """What made the cells."""
        return ledger.info(self.path)["command"]

    @cached_property
    def everything(self) -> list[ComputedCell]:
        """All cells that were ever computed here, in that order, those of former designs too."""
        found = dict(ledger.read(self.path))
        return [_known(entry) for entry in found.values()]

    @cached_property
    def cells(self) -> list[ComputedCell]:
        """The cells of the design that are computed, in its order."""
        found = {one.key: one for one in self.everything}
        return [found[key] for key in self.keys if key in found]

    @cached_property
    def keys(self) -> list[str]:
        """The keys of all cells of the design."""
        return ledger.info(self.path)["keys"]

    @property
    def finished(self) -> bool:
        """Whether every cell is computed."""
        return len(self.cells) == len(self.keys)

    @cached_property
    def labels(self) -> dict[str, str]:
        """What series are called in pictures."""
        return ledger.info(self.path)["labels"]

    @property
    def title(self) -> str:
        """The sweep in a line."""
        return self.design.section.title or f"{self.command} over {', '.join(self.design.names)}"

    @property
    def failed(self) -> Any:
        """The cells that could not be computed, with the reason, as a pandas table."""
        import pandas as pd

        return pd.DataFrame([{**one.cell, "reason": one.row.outcome} for one in self.cells if one.failed])

    @cached_property
    def table(self) -> Any:
        """A pandas table with a row for each cell: what varies, every setting, how it ended, what came out, and its cost."""
        import pandas as pd

        rows = [_columns(one) for one in self.cells]
        return pd.DataFrame(rows) if rows else pd.DataFrame(columns=list(self.design.names))

    def to_xarray(self) -> Any:
        """An xarray dataset by axis: with the axes of a grid as dimensions, else with one dimension `cell`.

        Final values are `final_NAME`; series that were kept are `NAME` along `time`. What is missing is NaN.
        """
        from measureflow.sweeps.table import dataset

        return dataset(self)

    def plot(self, show: str | None = None, theory: Any = None, *, figure: Any = None, ax: Any = None) -> Any:
        """Draw a map over two axes, or curves with bands over one; values are means over the seed.

        `show` names the series or final value; `theory` is a `measureflow.plotting.TheoryCurve` to draw on top, in place of
        the one that the design names. The picture is drawn into `figure`, a figure or subfigure, or on the axes `ax` where it has
        one panel, and returned; without either, on a new figure.
        """
        from measureflow.runs.results import shown
        from measureflow.sweeps.picture import picture

        drawn = picture(self, show, theory, figure, ax)
        return shown(drawn) if figure is None and ax is None else drawn

    def save(self) -> Path:
        """Write the table as `table.zarr`, which `xarray.open_zarr` opens, in place of an older one."""
        file, partial = self.path / "table.zarr", self.path / "table.zarr.tmp"
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(partial)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*Consolidated metadata.*")
            self.to_xarray().to_zarr(partial, mode="w")
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(file)
        os.replace(partial, file)
        return file

    def __len__(self) -> int:
        return len(self.cells)

    def __iter__(self) -> Iterator[ComputedCell]:
        return iter(self.cells)

    def __repr__(self) -> str:
        failed = sum(one.failed for one in self.cells)
        more = f", {failed} failed" if failed else ""
        return f"Sweep({str(self.path)!r}: {len(self)} of {len(self.keys)} cells{more}, {self.title})"


def open_sweep(path: str | Path) -> Sweep:
    """The sweep in a folder, finished or not."""
    path = Path(path)
    if not ledger.is_sweep(path):
        raise InputError(f"{str(path)!r} is not a sweep folder; `measureflow sweep FILE` writes one.")
    ledger.check(path)
    return Sweep(path)


def _known(entry: dict[str, Any]) -> ComputedCell:
    rest = {name: value for name, value in entry.items() if name not in ("key", "cell", "settings")}
    return ComputedCell(entry["key"], entry["cell"], entry["settings"], Row.restored(rest))


def _columns(one: ComputedCell) -> dict[str, Any]:
    row = one.row
    settings = {name: _flat(value) for name, value in one.settings.items() if name not in one.cell}
    stats = {name: value for name, value in row.stats.items() if name not in ("engine",)}
    ended = {"outcome": row.outcome, "ok": row.ok, "reached": row.time}
    final = {f"final_{name}": value for name, value in row.final.items()}
    found = ended | final | {"error": row.stats.get("error", np.nan)} | {n: v for n, v in stats.items() if n != "error"}
    return one.cell | settings | found | {"seconds": row.seconds, "key": one.key}


def _flat(value: Any) -> Any:
    return " ".join(map(str, value)) if isinstance(value, list | tuple) else value

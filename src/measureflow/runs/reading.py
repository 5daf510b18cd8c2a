"""The reading side of a run folder: what was asked, what came out, and the frames."""

import json
import tomllib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from measureflow.runs.config import InputError, Simulation, read
from measureflow.runs.folder import is_run


@dataclass(frozen=True)
class Run:
    """A run folder, finished or not."""

    path: Path

    @cached_property
    def config(self) -> Simulation:
        """What was asked."""
        return read(Simulation, tomllib.loads((self.path / "config.toml").read_text()))

    @cached_property
    def info(self) -> dict[str, Any]:
        """Versions, seed, outcome and stats."""
        return json.loads((self.path / "run.json").read_text())

    @property
    def frames(self) -> int:
        """How many frames are safe."""
        marker = self.path / "commit.json"
        return json.loads(marker.read_text())["frames"] if marker.is_file() else 0

    @property
    def data(self):
        """The frames as an xarray dataset, cut to those that are safe."""
        import xarray

        whole = xarray.open_dataset(self.path / "data.zarr", engine="zarr", consolidated=False)
        return whole.isel(time=slice(self.frames))


def open(path: str | Path) -> Run:
    """The run in a folder."""
    path = Path(path)
    if not path.is_dir() or not is_run(path):
        raise InputError(f"{str(path)!r} is not a run folder; `measureflow simulate` writes one.")
    return Run(path)

"""A run folder that survives being killed.

    config.toml    what was asked
    run.json       versions, seed, outcome, stats
    data.zarr      the frames, for xarray: `points(time, token, coordinate)`, `weights(token)`, `energy(time)`, ...;
                   a limit has `mean` and `cov`, `means` and `covs`, or `density` instead of points
    state-K.eqx    the measure after K frames, from which the run goes on
    commit.json    how many frames are safe

Data are written first, then the state, then the marker `commit.json` in one atomic replacement: it alone says what
counts. Readers look only at the frames it names.
"""

import contextlib
import importlib.metadata
import json
import os
import platform
import shutil
import sys
import warnings
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
import zarr

from measureflow.measures import AbstractMeasure
from measureflow.runs.config import InputError

PACKAGES = ("measureflow", "jax", "jaxlib", "diffrax", "equinox", "numpy", "zarr")

Layout = dict[str, dict[str, int]]
"""The arrays of a frame, each with the names and sizes of its dimensions; none for a number."""
Fixed = dict[str, tuple[str, np.ndarray]]
"""Arrays that do not change in time, each with its dimension: weights, or the coordinates of a grid."""


class RunFolder:
    """The writing side of a run folder."""

    def __init__(self, path: Path, frames: int, frames_per_leg: int, layout: Layout, fixed: Fixed):
        self.path = path
        self.frames = 0
        self._frames_per_leg = min(frames_per_leg, frames)
        self._layout: Layout = {"time": {}} | layout
        self._data = zarr.create_group(path / "data.zarr")
        for name, sizes in self._layout.items():
            shape = tuple(sizes.values())
            self._data.create_array(
                name,
                shape=(frames, *shape),
                chunks=(self._frames_per_leg, *shape),
                dtype="f8",
                fill_value=float("nan"),
                dimension_names=("time", *sizes),
            )
        for name, (dimension, values) in fixed.items():
            self._data.create_array(name, data=np.asarray(values, np.float64), dimension_names=(dimension,))
        self.save_info({"outcome": "Running."})

    @staticmethod
    def asked_for(config: Any, command: str, **shape: Any) -> "RunFolder":
        """The folder that a configuration asks for with `out` and `force`, or a new one named after the command."""
        path = Path(config.out) if config.out is not None else free_name(Path("runs", command))
        try:
            return RunFolder.create(path, config.to_toml(), force=config.force, **shape)
        except OSError as error:
            raise InputError(str(error) if isinstance(error, FileExistsError) else f"`out`: {error}.") from None

    @staticmethod
    def create(path: Path, config: str, *, force: bool = False, **shape: Any) -> "RunFolder":
        """A new run folder; an existing one is replaced only by force, and only if it is a run folder."""
        if path.exists():
            if not force:
                raise FileExistsError(f"`out`: {str(path)!r} exists; choose another folder or add `--force`.")
            if not is_run(path):
                raise FileExistsError(f"`out`: {str(path)!r} is not a run folder, so `--force` does not replace it.")
            shutil.rmtree(path)
        path.mkdir(parents=True)
        _write(path / "config.toml", config)
        return RunFolder(path, **shape)

    def append(self, times: np.ndarray, arrays: dict[str, np.ndarray], state: AbstractMeasure) -> None:
        """Add the frames of a leg and the measure it ends with; they are safe when this returns."""
        rows = slice(self.frames, self.frames + len(times))
        for name, values in {"time": times, **arrays}.items():
            self._array(name)[rows] = values
            for chunk in range(rows.start // self._frames_per_leg, -(-rows.stop // self._frames_per_leg)):
                _sync_chunk(self.path / "data.zarr" / name / "c" / str(chunk))
        self.frames = rows.stop
        name = f"state-{self.frames}.eqx"
        with open(self.path / name, "wb") as file:
            eqx.tree_serialise_leaves(file, state)
            _sync(file)
        _write(self.path / "commit.json", json.dumps({"frames": self.frames, "state": name}))
        for old in self.path.glob("state-*.eqx"):
            if old.name != name:
                old.unlink()

    def save_info(self, info: dict[str, Any]) -> None:
        """Write `run.json`."""
        _write(self.path / "run.json", json.dumps(info, indent=2) + "\n")

    def finish(self) -> None:
        """Cut the arrays to the frames that were reached and gather the metadata for xarray."""
        for name in self._layout:
            array = self._array(name)
            array.resize((self.frames, *array.shape[1:]))
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Consolidated metadata")
            zarr.consolidate_metadata(self._data.store)

    def _array(self, name: str) -> zarr.Array:
        array = self._data[name]
        assert isinstance(array, zarr.Array)
        return array


def environment() -> dict[str, Any]:
    """The versions and the machine that a result depends on, for `run.json`."""
    return {
        "versions": {name: importlib.metadata.version(name) for name in PACKAGES} | {"python": sys.version.split()[0]},
        "platform": platform.platform(),
        "device": jax.devices()[0].device_kind,
    }


def is_run(path: Path) -> bool:
    """Whether a folder was written by a run, or is empty."""
    return path.is_dir() and ((path / "config.toml").is_file() or not any(path.iterdir()))


def free_name(base: Path) -> Path:
    """The first of `base-1`, `base-2`, ... that does not exist."""
    k = 1
    while (path := base.with_name(f"{base.name}-{k}")).exists():
        k += 1
    return path


def _write(path: Path, text: str) -> None:
    partial = path.with_name(path.name + ".tmp")
    with open(partial, "w") as file:
        file.write(text)
        _sync(file)
    os.replace(partial, path)
    _sync_folder(path.parent)


def _sync(file: Any) -> None:
    file.flush()
    os.fsync(file.fileno())


def _sync_folder(path: Path) -> None:
    with contextlib.suppress(OSError):  # not every system can open a folder
        handle = os.open(path, os.O_RDONLY)
        os.fsync(handle)
        os.close(handle)


def _sync_chunk(path: Path) -> None:
    """Put a chunk on the disk: one file for a series, a folder with one for an array."""
    for file in [path] if path.is_file() else [inner for inner in path.rglob("*") if inner.is_file()]:
        with open(file, "rb") as chunk:
            os.fsync(chunk.fileno())

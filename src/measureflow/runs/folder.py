"""The writing side of a run folder, which survives being killed.

    run.json       what made the run (command, precision, engine, device, versions, git), how it ended, what it cost
    config.toml    what was asked, for runs of a command
    data.zarr      the frames, for xarray: `points(time, token, coordinate)`, `weights(token)`, `energy(time)`, ...;
                   a limit has `mean` and `cov`, `means` and `covs`, or `density` instead of points
    state-K.eqx    the measure after K frames, from which the run goes on
    checksums      a line for each of these files but run.json
    commit.json    how many frames are safe, what they cost, and how many of the checksums count

Data are written first, then the state, then the checksums, then the marker `commit.json` in one atomic replacement: it alone
says what counts. Readers look only at the frames it names, and refuse a file that is not what its checksum says; `run.json` and
`commit.json` hold checksums of their own, and both name the run. The folder itself is locked while a process writes it.
"""

import contextlib
import io
import json
import os
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import equinox as eqx
import numpy as np
import zarr
from zarr.codecs import BytesCodec, Crc32cCodec, ZstdCodec

from measureflow.runs.checksums import Checksums, broken, parsed, sealed
from measureflow.runs.locks import lock_folder, release
from measureflow.runs.store import DATA, CheckedStore

FORMAT = 3
"""The version of the layout, kept in `run.json`."""
CHECKED = 3
"""The first version of the layout with checksums of all files."""

Layout = Mapping[str, Mapping[str, int]]
"""The arrays of a frame, each with the names and sizes of its dimensions; none for a number."""


class StorageError(RuntimeError):
    """A run could not be written on; what was saved before is safe."""


class RunFolder:
    """An open run folder, locked by this process."""

    def __init__(self, path: Path, lock: int, checksums: Checksums, marker: Mapping[str, Any]):
        self.path, self.frames = path, marker["frames"]
        self._lock, self._checksums, self._marker = lock, checksums, dict(marker)
        self._data = zarr.open_group(CheckedStore(checksums), mode="a")
        self._arrays: dict[str, zarr.Array] = {}

    @staticmethod
    def create(
        path: Path,
        lock: int,
        run: str,
        frames: int,
        frames_per_leg: int,
        precision: str,
        layout: Layout,
        series: Mapping[str, Mapping[str, Any]],
        kinds: Mapping[str, str],
    ) -> "RunFolder":
        """Make the arrays of a new run in an empty folder that this process has locked; numbers of `precision`, or of their own
        kinds."""
        found = RunFolder(path, lock, Checksums(path), {"run": run, "frames": 0, "state": None})
        chunk = min(frames_per_leg, frames)
        for name, sizes in ({"time": {}} | {name: {} for name in series} | dict(layout)).items():
            shape, kind = tuple(sizes.values()), np.dtype(kinds.get(name, precision))
            nothing = kind.type("nan") if np.issubdtype(kind, np.inexact) else kind.type(0)
            found._data.create_array(
                name, shape=(frames, *shape), chunks=(chunk, *shape), dtype=kind, fill_value=nothing,
                dimension_names=("time", *sizes), compressors=[ZstdCodec(level=0), Crc32cCodec()], serializer=BytesCodec(),
                attributes=dict(series.get(name, {})),
            )  # fmt: skip
        return found

    @staticmethod
    def reopen(path: Path, frames: int) -> "RunFolder":
        """Go on writing a run that is there, of so many frames in the end."""
        lock = lock_folder(path)
        try:
            marker = read_marker(path)
            checksums = Checksums.read(path, marker["checksums"])
            checksums.reopen()
            found = RunFolder(path, lock, checksums, marker)
            found._resize(frames)  # a kill may have left some arrays cut
        except BaseException:
            os.close(lock)
            raise
        return found

    def keep(self, arrays: Mapping[str, tuple[tuple[str, ...], np.ndarray]]) -> None:
        """Store arrays that have no frames: weights, coordinates of a grid, what came out beside; replaced if there."""
        for name, (dimensions, values) in arrays.items():
            self._data.create_array(name, data=np.asarray(values), dimension_names=dimensions, overwrite=True)

    def append(
        self, times: np.ndarray, arrays: Mapping[str, np.ndarray], state: Any, so_far: Mapping[str, Any]
    ) -> None:
        """Add the frames of a leg, the measure it ends with and what the run cost so far; they are safe when this returns."""
        try:
            self._append(times, arrays, state, so_far)
        except OSError as error:
            raise StorageError(f"{error.strerror or error}. Make room") from error

    def _append(
        self, times: np.ndarray, arrays: Mapping[str, np.ndarray], state: Any, so_far: Mapping[str, Any]
    ) -> None:
        rows = slice(self.frames, self.frames + len(times))
        for name, values in {"time": times, **arrays}.items():
            self._array(name)[rows] = values
        held, name = io.BytesIO(), f"state-{rows.stop}.eqx"
        eqx.tree_serialise_leaves(held, state)
        self._write(name, held.getvalue())
        self.commit({**so_far, "frames": rows.stop, "state": name})
        self.frames = rows.stop
        for old in self.path.glob("state-*.eqx"):
            if old.name != name:
                old.unlink()

    def commit(self, so_far: Mapping[str, Any]) -> None:
        """Make what was written count, and keep what the run cost so far."""
        marker = self._marker | dict(so_far) | {"checksums": self._checksums.counted()}
        write(self.path / "commit.json", json.dumps(sealed(marker)))
        self._marker = marker

    def state(self, like: Any) -> Any:
        """The measure after the last safe frame, shaped like another."""
        name = str(self._marker["state"])
        data = self._checksums.data(name)
        try:
            return eqx.tree_deserialise_leaves(io.BytesIO(data), like)
        except Exception as error:  # its checksum is right, so another version wrote it
            raise broken(self.path, name, error) from None

    def describe(self, info: Mapping[str, Any]) -> None:
        """Write `run.json`."""
        write(self.path / "run.json", json.dumps(sealed(info), indent=2) + "\n")

    def write_text(self, name: str, text: str) -> None:
        """Write a file of the run."""
        self._write(name, text.encode())

    def finish(self) -> None:
        """Cut the arrays to the frames that were reached and gather the metadata for xarray."""
        self._resize(self.frames)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Consolidated metadata")
            zarr.consolidate_metadata(self._data.store)
        self.commit({})

    def close(self) -> None:
        """Release the folder."""
        release(self._lock)

    def _resize(self, frames: int) -> None:
        for name, array in self._data.arrays():
            about: Any = array.metadata
            if (about.dimension_names or (None,))[0] == "time" and array.shape[0] != frames:
                self._array(name).resize((frames, *array.shape[1:]))

    def _write(self, name: str, data: bytes) -> None:
        self._checksums.note(name, data)
        with open(self.path / name, "wb") as file:
            file.write(data)
            _sync(file)

    def _array(self, name: str) -> zarr.Array:
        if name not in self._arrays:  # zarr reads the metadata again each time
            array = self._data[name]
            assert isinstance(array, zarr.Array)
            # How to write is no part of the metadata; a chunk of nothing but NaN must be there too, or it counts as lost.
            self._arrays[name] = array.with_config({"write_empty_chunks": True})
        return self._arrays[name]


def missing_chunks(path: Path, series: Iterable[str], frames: int) -> str | None:
    """The first chunk that is not there though it holds a safe frame, which zarr would read as NaN; of older runs."""
    data = path / DATA
    framed = {"time", *series} | {item.parent.name for item in data.glob("*/zarr.json") if _has_frames(item)}
    for name in sorted(framed) if frames else ():
        chunk = json.loads((data / name / "zarr.json").read_text())["chunk_grid"]["configuration"]["chunk_shape"]
        for k in range(-(-frames // chunk[0])):
            if not data.joinpath(name, "c", str(k), *("0" for _ in chunk[1:])).is_file():
                return f"chunk {k} of {name!r}"
    return None


def _has_frames(metadata: Path) -> bool:
    return (json.loads(metadata.read_text()).get("dimension_names") or [None])[0] == "time"


def read_marker(path: Path) -> dict[str, Any]:
    """The marker of a run: how many frames are safe, and the state after them."""
    marker = path / "commit.json"
    return (
        parsed(marker.read_text())
        if marker.is_file()
        else {"frames": 0, "state": None, "stats": {}, "seconds": 0.0, "outcome": "Running.", "ok": True}
    )


def write(path: Path, text: str) -> None:
    """Replace a file at once; nothing is left beside it where that fails."""
    partial = path.with_name(path.name + ".tmp")
    try:
        with open(partial, "w", encoding="utf-8") as file:
            file.write(text)
            _sync(file)
        os.replace(partial, path)
    except OSError:
        partial.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _sync(file: Any) -> None:
    file.flush()
    os.fsync(file.fileno())


def _sync_folder(path: Path) -> None:
    with contextlib.suppress(OSError):  # not every system can open a folder
        handle = os.open(path, os.O_RDONLY)
        os.fsync(handle)
        os.close(handle)

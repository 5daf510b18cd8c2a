"""The writing side of a run folder, which survives being killed.

    run.json       what made the run (command, precision, engine, device, versions, git), how it ended, what it cost
    config.toml    what was asked, for runs of a command
    data.zarr      the frames, for xarray: `points(time, token, coordinate)`, `weights(token)`, `energy(time)`, ...;
                   a limit has `mean` and `cov`, `means` and `covs`, or `density` instead of points
    state-K.eqx    the measure after K frames, from which the run goes on
    commit.json    how many frames are safe, and what they cost

Data are written first, then the state, then the marker `commit.json` in one atomic replacement: it alone says what
counts. Readers look only at the frames it names. The folder itself is locked while a process writes it; the lock ends with the
process, however that ends. Every chunk has a checksum.
"""

import contextlib
import json
import os
import shutil
import warnings
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import equinox as eqx
import numpy as np
import zarr
from zarr.codecs import BytesCodec, Crc32cCodec, ZstdCodec

from measureflow.words.settings import InputError

FORMAT = 2
"""The version of the layout, kept in `run.json`."""
WRITTEN = (
    "run.json", "config.toml", "commit.json", "figure.png", "figure.pdf", "figure.svg", "movie.gif", "movie.mp4", "report.html",
)  # fmt: skip
"""Files that a run writes, beside `data.zarr` and `state-*.eqx`: the only ones that `--force` removes."""
FULL = 2**20
"""Free bytes beyond the size of the frames without which a run does not start."""

Layout = Mapping[str, Mapping[str, int]]
"""The arrays of a frame, each with the names and sizes of its dimensions; none for a number."""


class StorageError(RuntimeError):
    """A run could not be written on; what was saved before is safe."""


class RunFolder:
    """An open run folder, locked by this process."""

    def __init__(self, path: Path, frames_per_leg: int, lock: int):
        self.path = path
        self.frames = read_marker(path)["frames"]
        self._frames_per_leg = frames_per_leg
        self._lock = lock
        self._data = zarr.open_group(path / "data.zarr", mode="a")
        self._arrays: dict[str, zarr.Array] = {}

    @staticmethod
    def create(
        path: Path,
        lock: int,
        frames: int,
        frames_per_leg: int,
        precision: str,
        layout: Layout,
        series: Mapping[str, Mapping[str, Any]],
        kinds: Mapping[str, str],
    ) -> "RunFolder":
        """Make the arrays of a new run in an empty folder that this process has locked; numbers of `precision`, or of their own
        kinds."""
        data = zarr.create_group(path / "data.zarr")
        chunk = min(frames_per_leg, frames)
        for name, sizes in ({"time": {}} | {name: {} for name in series} | dict(layout)).items():
            shape, kind = tuple(sizes.values()), np.dtype(kinds.get(name, precision))
            nothing = kind.type("nan") if np.issubdtype(kind, np.inexact) else kind.type(0)
            array = data.create_array(
                name, shape=(frames, *shape), chunks=(chunk, *shape), dtype=kind, fill_value=nothing,
                dimension_names=("time", *sizes), compressors=[ZstdCodec(level=0), Crc32cCodec()], serializer=BytesCodec(),
            )  # fmt: skip
            array.attrs.update(series.get(name, {}))
        return RunFolder(path, frames_per_leg, lock)

    @staticmethod
    def reopen(path: Path, frames_per_leg: int) -> "RunFolder":
        """Go on writing a run that is there."""
        return RunFolder(path, frames_per_leg, lock_folder(path))

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
            for chunk in range(rows.start // self._frames_per_leg, -(-rows.stop // self._frames_per_leg)):
                _sync_chunk(self.path / "data.zarr" / name / "c" / str(chunk))
        name = f"state-{rows.stop}.eqx"
        with open(self.path / name, "wb") as file:
            eqx.tree_serialise_leaves(file, state)
            _sync(file)
        write(self.path / "commit.json", json.dumps({"frames": rows.stop, "state": name} | dict(so_far)))
        self.frames = rows.stop
        for old in self.path.glob("state-*.eqx"):
            if old.name != name:
                old.unlink()

    def state(self, like: Any) -> Any:
        """The measure after the last safe frame, shaped like another."""
        return eqx.tree_deserialise_leaves(self.path / read_marker(self.path)["state"], like)

    def describe(self, info: Mapping[str, Any]) -> None:
        """Write `run.json`."""
        write(self.path / "run.json", json.dumps(info, indent=2) + "\n")

    def write_text(self, name: str, text: str) -> None:
        """Write a file of the run."""
        write(self.path / name, text)

    def finish(self, series: Mapping[str, Any], layout: Layout) -> None:
        """Cut the arrays to the frames that were reached and gather the metadata for xarray."""
        for name in ("time", *layout, *series):
            array = self._array(name)
            array.resize((self.frames, *array.shape[1:]))
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Consolidated metadata")
            zarr.consolidate_metadata(self._data.store)

    def close(self) -> None:
        """Release the folder."""
        os.close(self._lock)

    def _array(self, name: str) -> zarr.Array:
        if name not in self._arrays:  # zarr reads the metadata again each time
            array = self._data[name]
            assert isinstance(array, zarr.Array)
            # How to write is no part of the metadata; a chunk of nothing but NaN must be there too, or it counts as lost.
            self._arrays[name] = array.with_config({"write_empty_chunks": True})
        return self._arrays[name]


def make_folder(out: str | None, command: str, force: bool, inputs: tuple[str, ...] = ()) -> tuple[Path, int]:
    """The folder that is asked for, empty and locked: a new one named after the command unless given."""
    if out is None:
        path = _next(Path("runs", command.replace(" ", "-")))
        return path, lock_folder(path)
    path = Path(out)
    with _speaking("out"):
        if path.exists() or path.is_symlink():
            _check_replaceable(path, force, inputs)
        path.mkdir(parents=True, exist_ok=True)
        if not os.access(path, os.W_OK):
            raise InputError(f"`out`: {out!r} cannot be written.")
        lock = lock_folder(path)
        if force:
            _clear(path)
        if any(path.iterdir()):  # another process was faster
            os.close(lock)
            raise InputError(f"`out`: {out!r} exists; choose another folder or add `--force`.")
    return path, lock


def remove_folder(path: Path, lock: int) -> None:
    """Remove what was written into a folder that this process has locked, and the folder if nothing else is in it."""
    with contextlib.suppress(OSError):
        _clear(path)
        path.rmdir()
    os.close(lock)


def _next(base: Path) -> Path:
    """The first of `base-1`, `base-2`, ... that no other process has made either."""
    with _speaking("out"):
        base.parent.mkdir(parents=True, exist_ok=True)
        k = 1
        while True:
            with contextlib.suppress(FileExistsError):
                path = base.with_name(f"{base.name}-{k}")
                path.mkdir()
                return path
            k += 1


def _check_replaceable(path: Path, force: bool, inputs: tuple[str, ...]) -> None:
    """Refuse a folder that is not empty, unless it is a run that may be replaced."""
    shown = str(path)
    if not force:
        if path.is_dir() and not path.is_symlink() and not any(path.iterdir()):
            return
        raise InputError(f"`out`: {shown!r} exists; choose another folder or add `--force`.")
    if path.is_symlink() or not path.is_dir():
        raise InputError(f"`out`: {shown!r} is a link or a file, so `--force` does not replace it.")
    here = path.resolve()
    if here == Path.home() or here == Path.cwd() or here in Path.cwd().parents:
        raise InputError(f"`out`: {shown!r} holds your work, so `--force` does not replace it; choose another folder.")
    if any(here in Path(file).resolve().parents for file in inputs):
        raise InputError(f"`out`: {shown!r} holds an input of this run, so `--force` does not replace it.")
    if any(path.iterdir()) and not is_run(path):
        raise InputError(f"`out`: {shown!r} is not a run folder, so `--force` does not replace it.")
    foreign = [item.name for item in path.iterdir() if not _ours(item)]
    if foreign:
        raise InputError(
            f"`out`: {shown!r} also holds {foreign[0]!r}, which no run wrote; `--force` does not replace it."
        )


def _clear(path: Path) -> None:
    """Remove what a run writes, file by file."""
    for item in path.iterdir():
        if _ours(item):
            shutil.rmtree(item) if item.is_dir() else item.unlink()


def _ours(item: Path) -> bool:
    if item.is_symlink():
        return False
    if item.is_dir():
        return item.name == "data.zarr"
    return item.name.removesuffix(".tmp") in WRITTEN or (item.name.startswith("state-") and item.suffix == ".eqx")


def is_run(path: Path) -> bool:
    """Whether a folder was written by a run: it says so itself."""
    try:
        return isinstance(json.loads((path / "run.json").read_text()).get("format"), int)
    except (OSError, ValueError, AttributeError):
        return False


def missing_chunks(path: Path, series: Iterable[str], frames: int) -> str | None:
    """The first chunk that is not there though it holds a safe frame, which zarr would read as NaN."""
    data = path / "data.zarr"
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
        json.loads(marker.read_text())
        if marker.is_file()
        else {"frames": 0, "state": None, "stats": {}, "seconds": 0.0, "outcome": "Running.", "ok": True}
    )


def is_alive(path: Path) -> bool:
    """Whether a process is writing the run."""
    try:
        os.close(_lock(path))
    except BlockingIOError:
        return True
    return False


def check_room(out: str | Path | None, size: int) -> None:
    """Refuse a run whose frames do not fit on the disk."""
    path = Path("." if out is None else out).absolute()
    free = shutil.disk_usage(next(folder for folder in (path, *path.parents) if folder.exists())).free
    if free < size + FULL:
        raise InputError(
            f"`frames` need {size / 2**20:.0f} MiB and the disk of {str(path)!r} has {free / 2**20:.0f} MiB left: keep fewer."
        )


def write(path: Path, text: str) -> None:
    """Replace a file at once."""
    partial = path.with_name(path.name + ".tmp")
    with open(partial, "w", encoding="utf-8") as file:
        file.write(text)
        _sync(file)
    os.replace(partial, path)
    _sync_folder(path.parent)


def lock_folder(path: Path) -> int:
    """The handle of a folder that this process alone may write from now on; a sentence where another one does."""
    try:
        return _lock(path)
    except BlockingIOError:
        raise InputError(
            f"{str(path)!r} is being written by another process; wait for it or choose another folder."
        ) from None


def _lock(path: Path) -> int:
    """The handle of a folder that no other process holds; the lock ends with the process."""
    import fcntl

    handle = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        os.close(handle)
        raise
    return handle


@contextlib.contextmanager
def _speaking(option: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(f"`{option}`: cannot make {error.filename!r}: {error.strerror}.") from None


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

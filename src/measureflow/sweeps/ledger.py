"""The ledger of a sweep: the file in which every computed cell is a line, and which survives being killed.

    sweep.json     what the folder is: format, command, versions, the design as it was last asked for, the keys of its cells
    sweep.toml     the same design, for people
    cells.jsonl    a line for each cell, added when it has been computed
    table.zarr     the table as arrays, for xarray, made anew when a sweep ends
    runs/KEY       run folders, if they are kept

`sweep.json` and every line of a cell hold a checksum of their own. A line is added in one write and is on the disk before the
next cell begins. What a kill leaves of a line that was being written has no end, and is cut off; a line that was damaged is
refused. Later lines win over earlier ones of the same cell; nothing is ever rewritten, but for the lines of an older version.
"""

import contextlib
import errno
import importlib.metadata
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from measureflow.runs.checksums import sealed, unsealed
from measureflow.runs.folder import write
from measureflow.runs.locks import lock_folder
from measureflow.sweeps.design import Design
from measureflow.sweeps.row import Row
from measureflow.words.settings import InputError

FORMAT = 3
"""The version of the layout, kept in `sweep.json`."""
SEALED = 3
"""The first version of the layout with checksums."""
PACKAGES = ("measureflow", "jax", "jaxlib", "numpy")
BEGUN = "sweep.json.tmp"
"""What a folder may hold that was being made a sweep when the process was killed."""


class Ledger:
    """An open ledger, locked by this process."""

    def __init__(self, path: Path, lock: int):
        self.path, self._lock = path, lock
        self.entries = dict(read(path))
        self._file = open(path / "cells.jsonl", "ab", buffering=0)  # noqa: SIM115
        self._file.truncate(_whole(path / "cells.jsonl"))

    @staticmethod
    def begin(path: Path, command: str) -> "Ledger":
        """The ledger of a folder: a new one, or one that is there and of the same command."""
        if path.exists() and not path.is_dir():
            raise InputError(f"`out`: {str(path)!r} is a file; choose a folder.")
        if path.is_dir() and {item.name for item in path.iterdir()} - {BEGUN} and not is_sweep(path):
            raise InputError(f"`out`: {str(path)!r} holds something else than a sweep; choose another folder.")
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"`out`: cannot make {str(path)!r}: {error.strerror}.") from None
        lock = lock_folder(path)
        try:
            if is_sweep(path):
                check(path, command)
                _renew(path)
            else:
                _tell(path, {"format": FORMAT, "command": command, "versions": versions()})
            return Ledger(path, lock)
        except BaseException:
            os.close(lock)
            raise

    def label(self, labels: Mapping[str, str]) -> None:
        """Keep what series are called."""
        about = info(self.path)
        _tell(self.path, about | {"labels": about["labels"] | dict(labels)})

    def ask(self, design: Design, keys: Iterable[str]) -> None:
        """Keep the design that is asked for now, and the keys of its cells in their order."""
        _tell(self.path, info(self.path) | {"design": design.to_toml(), "keys": list(keys)})
        write(self.path / "sweep.toml", design.to_toml())

    def add(self, entries: Iterable[tuple[str, Mapping[str, Any], Mapping[str, Any], Row]]) -> None:
        """Add cells: key, values by name, settings and row. They are safe when this returns."""
        found = [
            {"key": key, "cell": dict(cell), "settings": dict(settings), **row.kept()}
            for key, cell, settings, row in entries
        ]
        lines, end = "".join(json.dumps(sealed(entry)) + "\n" for entry in found).encode(), self._file.tell()
        try:
            if self._file.write(lines) < len(lines):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(self._file.fileno())
        except OSError:
            self._file.truncate(end)  # half a line would spoil the next one
            raise
        self.entries |= {entry["key"]: entry for entry in found}

    def close(self) -> None:
        """Release the folder."""
        self._file.close()
        os.close(self._lock)


def versions() -> dict[str, str]:
    """Those of what computes cells."""
    return {name: importlib.metadata.version(name) for name in PACKAGES} | {"python": sys.version.split()[0]}


def is_sweep(path: Path) -> bool:
    """Whether a folder holds a sweep."""
    return (path / "sweep.json").is_file()


def info(path: Path) -> dict[str, Any]:
    """What the folder says of itself."""
    try:
        found = json.loads((path / "sweep.json").read_text())
        found = unsealed(found) if "checksum" in found or found["format"] >= SEALED else _older(path, found)
        return (
            {"labels": {}, "versions": {}, "keys": []}
            | found
            | {"format": found["format"], "command": found["command"]}
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{str(path)!r} is a sweep that is broken: sweep.json: {error}.") from None


def _older(path: Path, about: dict[str, Any]) -> dict[str, Any]:
    """What older folders keep in several files."""
    texts = {name: (path / name).read_text() for name in ("sweep.toml", "sweep.keys") if (path / name).is_file()}
    return about | {"design": texts.get("sweep.toml"), "keys": texts.get("sweep.keys", "").split()}


def _tell(path: Path, about: Mapping[str, Any]) -> None:
    write(path / "sweep.json", json.dumps(sealed(about)) + "\n")


def _renew(path: Path) -> None:
    """Bring a folder of an older version to this one: lines first, so that a kill in between leaves one that is read the same."""
    about = info(path)
    if about["format"] == FORMAT:
        return
    write(path / "cells.jsonl", "".join(json.dumps(sealed(entry)) + "\n" for _, entry in read(path)))
    _tell(path, about | {"format": FORMAT})
    (path / "sweep.keys").unlink(missing_ok=True)


def check(path: Path, command: str | None = None) -> None:
    """Refuse a sweep of another version, or of another command."""
    if command is not None and (was := info(path)["command"]) != command:
        raise InputError(f"`out`: {str(path)!r} is a sweep of `{was}`, not of `{command}`; choose another folder.")
    if (format := info(path)["format"]) not in (FORMAT, FORMAT - 1):
        raise InputError(
            f"{str(path)!r} is a sweep of format {format}, and {FORMAT} is known here: open it with the version of measureflow "
            "that made it. Nothing was changed."
        )


def read(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The entries of a ledger by key, in the order in which they were computed."""
    file = path / "cells.jsonl"
    is_sealed = file.is_file() and info(path)["format"] >= SEALED
    for number, line in enumerate(_lines(file), start=1):
        try:
            entry = json.loads(line)
            if is_sealed or "checksum" in entry:
                entry = unsealed(entry)
            yield entry["key"], entry
        except (ValueError, KeyError, TypeError):
            raise InputError(
                f"{str(file)!r} is broken in line {number}: it was damaged, or changed by something else. Remove that line, and "
                "the same sweep computes its cell again."
            ) from None


def _lines(file: Path) -> list[bytes]:
    """The lines that have an end, and a last one of which only the end was damaged: what a kill leaves is no whole line."""
    *lines, last = file.read_bytes().split(b"\n") if file.is_file() else [b""]
    with contextlib.suppress(ValueError):
        unsealed(json.loads(last[:-1]))
        return [*lines, last]
    return lines


def _whole(file: Path) -> int:
    """The length of the lines that are whole."""
    return file.read_bytes().rfind(b"\n") + 1 if file.is_file() else 0

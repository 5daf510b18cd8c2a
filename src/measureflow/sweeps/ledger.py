"""The ledger of a sweep: the file in which every computed cell is a line, and which survives being killed.

    sweep.json     what the folder is: format, command, versions
    sweep.toml     the design as it was last asked for, and sweep.keys the keys of its cells
    cells.jsonl    a line for each cell, added when it has been computed
    table.zarr     the table as arrays, for xarray, made anew when a sweep ends
    runs/KEY       run folders, if they are kept

A line is added in one write and is on the disk before the next cell begins. What a kill leaves of a line that was being written
does not parse, and is cut off. Later lines win over earlier ones of the same cell; nothing is ever rewritten.
"""

import importlib.metadata
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from measureflow.runs.folder import lock_folder, write
from measureflow.sweeps.design import Design
from measureflow.sweeps.row import Row
from measureflow.words.settings import InputError

FORMAT = 2
"""The version of the layout, kept in `sweep.json`."""
PACKAGES = ("measureflow", "jax", "jaxlib", "numpy")


class Ledger:
    """An open ledger, locked by this process."""

    def __init__(self, path: Path, lock: int):
        self.path, self._lock = path, lock
        self.entries = dict(read(path))
        self._file = open(path / "cells.jsonl", "ab")  # noqa: SIM115
        self._file.truncate(_whole(path / "cells.jsonl"))

    @staticmethod
    def begin(path: Path, command: str) -> "Ledger":
        """The ledger of a folder: a new one, or one that is there and of the same command."""
        if path.exists() and not path.is_dir():
            raise InputError(f"`out`: {str(path)!r} is a file; choose a folder.")
        if path.is_dir() and any(path.iterdir()) and not is_sweep(path):
            raise InputError(f"`out`: {str(path)!r} holds something else than a sweep; choose another folder.")
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"`out`: cannot make {str(path)!r}: {error.strerror}.") from None
        lock = lock_folder(path)
        try:
            if is_sweep(path):
                check(path, command)
            else:
                about = {"format": FORMAT, "command": command, "versions": versions()}
                write(path / "sweep.json", json.dumps(about) + "\n")
            return Ledger(path, lock)
        except BaseException:
            os.close(lock)
            raise

    def label(self, labels: Mapping[str, str]) -> None:
        """Keep what series are called."""
        about = info(self.path)
        write(self.path / "sweep.json", json.dumps(about | {"labels": about["labels"] | dict(labels)}) + "\n")

    def ask(self, design: Design, keys: Iterable[str]) -> None:
        """Keep the design that is asked for now, and the keys of its cells in their order."""
        write(self.path / "sweep.toml", design.to_toml())
        write(self.path / "sweep.keys", "".join(f"{key}\n" for key in keys))

    def add(self, entries: Iterable[tuple[str, Mapping[str, Any], Mapping[str, Any], Row]]) -> None:
        """Add cells: key, values by name, settings and row. They are safe when this returns."""
        found = [
            {"key": key, "cell": dict(cell), "settings": dict(settings), **row.kept()}
            for key, cell, settings, row in entries
        ]
        self._file.write("".join(json.dumps(entry) + "\n" for entry in found).encode())
        self._file.flush()
        os.fsync(self._file.fileno())
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
        return {"labels": {}, "versions": {}} | found | {"format": found["format"], "command": found["command"]}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{str(path)!r} is a sweep that is broken: sweep.json: {error}.") from None


def check(path: Path, command: str | None = None) -> None:
    """Refuse a sweep of another version, or of another command."""
    if command is not None and (was := info(path)["command"]) != command:
        raise InputError(f"`out`: {str(path)!r} is a sweep of `{was}`, not of `{command}`; choose another folder.")
    if (format := info(path)["format"]) != FORMAT:
        raise InputError(
            f"{str(path)!r} is a sweep of format {format}, and {FORMAT} is known here: open it with the version of measureflow "
            "that made it. Nothing was changed."
        )


def keys(path: Path) -> list[str]:
    """The keys of the cells of the design."""
    try:
        return (path / "sweep.keys").read_text().split()
    except OSError as error:
        raise InputError(f"{str(path)!r} is a sweep that is broken: sweep.keys: {error.strerror}.") from None


def read(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The entries of a ledger by key, in the order in which they were computed."""
    file = path / "cells.jsonl"
    for number, line in enumerate(file.read_bytes().splitlines(keepends=True) if file.is_file() else (), start=1):
        if not line.endswith(b"\n"):
            return  # a line that was being written when the process was killed
        try:
            entry = json.loads(line)
            yield entry["key"], entry
        except (ValueError, KeyError, TypeError):
            raise InputError(
                f"{str(file)!r} is broken in line {number}: it was changed by something else. Remove that line to go on."
            ) from None


def _whole(file: Path) -> int:
    """The length of the lines that are whole."""
    return file.read_bytes().rfind(b"\n") + 1 if file.is_file() else 0

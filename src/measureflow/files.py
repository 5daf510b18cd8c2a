"""Files of users: texts, tables and arrays, each of which is checked before it is believed.

A file that is not what its name says, is truncated, holds less than its header declares or more than fits into memory, or has
things that would be lost on the way to numbers, is refused with a sentence. Libraries that read tables guess where a table is
not clear: they rename columns of one name, fill short rows and take a longer row for one with an index. Here the module `csv`
splits cells, and what is not clear is refused.
"""

import csv
import io
import math
import os
import stat
import zipfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.lib import format as npy

from measureflow import memory

MAGIC = {b"\x93NUMPY": ".npy", b"PK\x03\x04": ".npz", b"PK\x05\x06": ".npz"}
"""How files of NumPy begin."""

HEADERS: dict[tuple[int, int], Any] = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
"""How headers of arrays are read, by the version of their format."""

CELL = 20.0
"""Bytes of memory for each byte of a table, whose cells are texts before they are numbers."""

WHOLE = 2**53
"""The whole number up to which all of them are floats."""


def plain(file: str | Path) -> Path:
    """The path of a file; a folder, a pipe, a device or a link to nothing is refused, some of which would never end."""
    try:
        mode = os.stat(file).st_mode
    except (OSError, ValueError) as error:
        raise ValueError(f"{str(file)!r} cannot be read: {getattr(error, 'strerror', None) or error}.") from None
    if not stat.S_ISREG(mode):
        kind = "a folder" if stat.S_ISDIR(mode) else "a pipe or a device"
        raise ValueError(f"{str(file)!r} is {kind}, not a file.")
    return Path(file)


def text(file: str | Path, cost: float = 4.0) -> str:
    """A text in UTF-8 without the mark that may begin it; `cost` is what is needed of memory for each of its bytes."""
    path = plain(file)
    memory.ask(cost * path.stat().st_size, f"{str(file)!r}", "take a smaller file")
    try:
        return path.read_bytes().decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"{str(file)!r} is not a text in UTF-8: {error.reason} at byte {error.start}.") from None
    except OSError as error:
        raise ValueError(f"{str(file)!r} cannot be read: {error.strerror}.") from None


class Row(NamedTuple):
    """The cells of a row, and the line of the file it ends in."""

    line: int
    cells: list[str]


def rows(file: str | Path) -> list[Row]:
    """The rows of a table in CSV, which are equally long; empty lines are left out."""
    reader = csv.reader(io.StringIO(text(file, CELL), newline=""), strict=True)
    try:
        found = [Row(reader.line_num, [cell.strip() for cell in cells]) for cells in reader if cells]
    except csv.Error as error:
        raise ValueError(f"{str(file)!r} is no table in CSV: {error} in line {reader.line_num}.") from None
    for row in found:
        if len(row.cells) != len(found[0].cells):
            raise ValueError(
                f"line {row.line} of {str(file)!r} has {len(row.cells)} columns, not {len(found[0].cells)}."
            )
    return found


def number(cell: str) -> float | None:
    """The number that a cell writes; Python's own `1_000` is none elsewhere."""
    try:
        return None if "_" in cell else float(cell)
    except ValueError:
        return None


def unique(names: Iterable[str], of: str) -> None:
    """Refuse names of which one stands for two things."""
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ValueError(f"{of} has {twice[0]!r} twice; give each a name of its own.")


def arrays(file: str | Path) -> dict[str, np.ndarray] | np.ndarray:
    """The arrays of an npz file by name, or the one array of an npy file, of whatever type."""
    path = plain(file)
    with path.open("rb") as stream:
        head = stream.read(6)
        kind = next((kind for magic, kind in MAGIC.items() if head.startswith(magic)), None)
        if kind != path.suffix:
            what = f"is a file of the kind {kind}" if kind else "does not begin like one"
            raise ValueError(f"{str(file)!r} ends in {path.suffix} and {what}; it is damaged or named wrongly.")
        stream.seek(0)
        try:
            return _archive(stream) if kind == ".npz" else _array(stream, path.stat().st_size, "it")
        except Exception as error:  # of whichever layer of a damaged archive
            raise ValueError(f"{str(file)!r} cannot be read: {str(error).rstrip('.') or 'it is damaged'}.") from None


def _archive(stream: Any) -> dict[str, np.ndarray]:
    with zipfile.ZipFile(stream) as archive:
        items = archive.infolist()
        unique((item.filename for item in items), "it")
        memory.ask(2 * sum(item.file_size for item in items), "it", "take a smaller file")
        found = {}
        for item in items:
            name = item.filename.removesuffix(".npy")
            if name == item.filename:
                raise ValueError(f"it holds {name!r}, which is no array")
            with archive.open(item) as held:
                found[name] = _array(held, item.file_size, f"its array {name!r}")
        return found


def _array(stream: Any, size: int, name: str) -> np.ndarray:
    """An array, if as many bytes follow its header as that says; `size` counts both."""
    version = npy.read_magic(stream)
    if version not in HEADERS:
        raise ValueError(f"{name} has the version {version} of the format, which no array of numbers has")
    shape, transposed, dtype = HEADERS[version](stream)
    if dtype.hasobject:
        raise ValueError(f"{name} holds objects of Python, and to read them is to run the program in them")
    bytes_, there = math.prod(shape) * dtype.itemsize, size - stream.tell()
    if min(shape, default=0) < 0 or bytes_ != there:
        raise ValueError(f"{name} should have {bytes_} bytes by its shape {shape}, and there are {there}")
    memory.ask(2 * bytes_, name, "take a smaller file")
    values = np.frombuffer(stream.read(bytes_), dtype)
    return values.reshape(shape, order="F" if transposed else "C")


def numbers(name: str, array: np.ndarray) -> np.ndarray:
    """An array in float64, if it has numbers and none of them loses anything."""
    if array.dtype.kind == "c":
        raise ValueError(f"{name} is complex and would lose its imaginary part.")
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{name} has entries of the type {array.dtype}, which are no numbers.")
    if array.dtype.kind in "iu" and array.size and max(-int(array.min()), int(array.max())) > WHOLE:
        raise ValueError(f"{name} has whole numbers beyond 2^53, which would lose digits.")
    return np.asarray(array, np.float64)

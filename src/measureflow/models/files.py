"""The files of a checkpoint: tensors by name from safetensors, without reading what is not asked for.

A file of safetensors is the length of a header, the header in JSON with the type, shape and place of each tensor, and the bytes.
Everything the header says is checked against the file before anything is allocated. Pickled files are refused: to read one is to
run the program in it.
"""

import json
import math
import struct
from collections.abc import Iterable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard

import ml_dtypes
import numpy as np

from measureflow import files, memory
from measureflow.precision import keep_all

DTYPES = {
    "F64": np.float64,
    "F32": np.float32,
    "F16": np.float16,
    "BF16": ml_dtypes.bfloat16,
    "I64": np.int64,
    "I32": np.int32,
    "U8": np.uint8,
    "BOOL": np.bool_,
}
"""Types of numbers, by their names in a header."""

LONGEST = 100 * 2**20
"""Bytes of the longest header that is read."""

PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl")


class ModelError(ValueError):
    """A model that cannot be read, with the reason."""


class Place(NamedTuple):
    """Where a tensor is: its file, the type and shape of its numbers, and where they begin and end."""

    file: Path
    dtype: np.dtype
    shape: tuple[int, ...]
    start: int
    end: int


class Tensors(Mapping[str, np.ndarray]):
    """The tensors of one or several files, read in float32 when they are asked for."""

    def __init__(self, files: list[Path]):
        self._places: dict[str, Place] = {}
        for file in files:
            found = _header(file)
            if twice := sorted(found.keys() & self._places.keys()):
                raise ModelError(f"{str(file)!r} has the tensor {twice[0]!r}, which another file of the model has too.")
            self._places |= found
        check_size(math.prod(place.shape) for place in self._places.values())

    def __iter__(self):
        return iter(self._places)

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self._places:
            raise ModelError(
                f"The checkpoint has no tensor {name!r}, which its architecture needs; is a file of it missing?"
            )
        file, dtype, shape, start, end = self._places[name]
        held = np.memmap(file, np.uint8, "r", start, (end - start,)) if end > start else np.zeros(0, np.uint8)
        values = held.view(dtype).reshape(shape)
        return np.asarray(values, np.float32 if dtype.kind in "fV" else None)


def check_size(counts: Iterable[int]) -> None:
    """Refuse tensors that do not fit into memory as float32, beside the model that is made of them."""
    try:
        memory.ask(8 * sum(counts), "The model", "take a smaller one")
    except ValueError as error:
        raise ModelError(str(error)) from None


def opened(folder: Path) -> Tensors:
    """The tensors of a folder: of all its files of safetensors, those that its index names if there is one."""
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        return _indexed(folder, read_json(index).get("weight_map"))
    found = sorted(folder.glob("*.safetensors"))
    if not found:
        pickled = [file.name for file in sorted(folder.iterdir()) if file.suffix in PICKLED]
        if pickled:
            raise ModelError(
                f"{str(folder)!r} holds its weights as {pickled[0]}, a pickled file: to read one is to run the program in it. "
                "Convert it to safetensors first."
            )
        raise ModelError(f"{str(folder)!r} holds no file of safetensors.")
    return Tensors(found)


def _indexed(folder: Path, places: Any) -> Tensors:
    """The tensors that an index places in files of its folder, and in no others."""
    if not isinstance(places, dict) or not all(isinstance(name, str) for name in places.values()):
        raise ModelError(f"The index of {str(folder)!r} has no `weight_map` from tensors to files.")
    names = sorted(set(places.values()))
    if outside := [name for name in names if Path(name).name != name]:
        raise ModelError(f"The index of {str(folder)!r} names {outside[0]!r}, which is no file of that folder.")
    if missing := [name for name in names if not (folder / name).is_file()]:
        raise ModelError(f"{str(folder)!r} lacks {', '.join(missing)}, which its index names; download it again.")
    found = Tensors([folder / name for name in names])
    if lost := sorted(places.keys() - found.keys()):
        raise ModelError(f"{str(folder)!r} lacks the tensor {lost[0]!r}, which its index names; download it again.")
    return found


def read_json(file: Path) -> dict[str, Any]:
    """What a JSON file says."""
    try:
        return _table(files.text(file), str(file))
    except ModelError:
        raise
    except ValueError as error:
        raise ModelError(str(error)) from None


def _table(text: str | bytes, file: str) -> dict[str, Any]:
    """A table in JSON, in which no name stands twice."""

    def table(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        files.unique((name for name, _ in pairs), "a table in it")
        return dict(pairs)

    try:
        found = json.loads(text, object_pairs_hook=table)
    except RecursionError:
        raise ModelError(f"{file!r} is not JSON of a model: its lists are too deep.") from None
    except ValueError as error:
        raise ModelError(f"{file!r} is not JSON: {str(error).rstrip('.')}.") from None
    if not isinstance(found, dict):
        raise ModelError(f"{file!r} must hold a table; got a {type(found).__name__}.")
    return found


def _header(file: Path) -> dict[str, Place]:
    """Where the tensors of a file are, if they fill it one after the other."""
    try:
        size = files.plain(file).stat().st_size
        with file.open("rb") as stream:
            head = stream.read(8)
            length = struct.unpack("<Q", head)[0] if len(head) == 8 else size
            if length > min(LONGEST, size - 8):
                raise ModelError(
                    f"{str(file)!r} is no whole file of safetensors: it says that its header has {length} bytes."
                )
            table = _table(stream.read(length), str(file))
    except ModelError:
        raise
    except (ValueError, OSError) as error:
        raise ModelError(str(error)) from None
    table.pop("__metadata__", None)
    found = {name: _place(file, name, entry, 8 + length) for name, entry in table.items()}
    ends = sorted((place.start, place.end) for place in found.values())
    if any(end != start for (_, end), (start, _) in pairwise([(0, 8 + length), *ends, (size, size)])):
        raise ModelError(
            f"The tensors of {str(file)!r} do not fill it one after the other; it is truncated or damaged, download it again."
        )
    return found


def _place(file: Path, name: str, entry: Any, begin: int) -> Place:
    """Where a tensor is, if the header says it in whole numbers that agree."""
    dtype, shape, offsets = map((entry if isinstance(entry, dict) else {}).get, ("dtype", "shape", "data_offsets"))
    if not (isinstance(dtype, str) and _sizes(shape) and _sizes(offsets) and len(offsets) == 2):
        raise ModelError(f"{str(file)!r} describes its tensor {name!r} in no way that is known.")
    if dtype not in DTYPES:
        raise ModelError(
            f"Tensor {name!r} of {str(file)!r} has numbers of type {dtype}; known are {', '.join(DTYPES)}."
        )
    bytes_ = np.dtype(DTYPES[dtype]).itemsize * math.prod(shape)
    if offsets[1] - offsets[0] != bytes_:
        raise ModelError(
            f"Tensor {name!r} of {str(file)!r} should have {bytes_} bytes, and the file has not as many there; it is "
            "truncated or damaged, download it again."
        )
    return Place(file, np.dtype(DTYPES[dtype]), tuple(shape), begin + offsets[0], begin + offsets[1])


def _sizes(values: Any) -> TypeGuard[list[int]]:
    """Whether they are a list of whole numbers that are not negative."""
    return isinstance(values, list) and all(type(value) is int and value >= 0 for value in values)


keep_all(globals())

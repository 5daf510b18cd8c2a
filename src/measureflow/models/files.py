"""The files of a checkpoint: tensors by name from safetensors, without reading what is not asked for.

A file of safetensors is the length of a header, the header in JSON with the type, shape and place of each tensor, and the bytes.
Everything the header says is checked against the file before anything is allocated. Pickled files are refused: to read one is to
run the program in it.
"""

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

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


class Tensors(Mapping[str, np.ndarray]):
    """The tensors of one or several files, read in float32 when they are asked for."""

    def __init__(self, files: list[Path]):
        self._places = {name: place for file in files for name, place in _header(file).items()}

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
        file, dtype, shape, start = self._places[name]
        found = np.memmap(file, DTYPES[dtype], "r", start, shape or (1,))
        return np.asarray(found, np.float32 if dtype[0] in "FB" and dtype != "BOOL" else None).reshape(shape)


def opened(folder: Path) -> Tensors:
    """The tensors of a folder: of all its files of safetensors, those that its index names if there is one."""
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        names = sorted(set(read_json(index).get("weight_map", {}).values()))
        files = [folder / name for name in names]
        if missing := [file.name for file in files if not file.is_file()]:
            raise ModelError(f"{str(folder)!r} lacks {', '.join(missing)}, which its index names; download it again.")
    else:
        files = sorted(folder.glob("*.safetensors"))
    if not files:
        pickled = [file.name for file in sorted(folder.iterdir()) if file.suffix in PICKLED]
        if pickled:
            raise ModelError(
                f"{str(folder)!r} holds its weights as {pickled[0]}, a pickled file: to read one is to run the program in it. "
                "Convert it to safetensors first."
            )
        raise ModelError(f"{str(folder)!r} holds no file of safetensors.")
    return Tensors(files)


def read_json(file: Path) -> dict[str, Any]:
    """What a JSON file says."""
    try:
        found = json.loads(file.read_text())
    except OSError as error:
        raise ModelError(f"{str(file)!r} cannot be read: {error.strerror}.") from None
    except ValueError as error:
        raise ModelError(f"{str(file)!r} is not JSON: {error}.") from None
    if not isinstance(found, dict):
        raise ModelError(f"{str(file)!r} must hold a table; got a {type(found).__name__}.")
    return found


def _header(file: Path) -> dict[str, tuple[Path, str, tuple[int, ...], int]]:
    """Where the tensors of a file are, if all of them are inside it."""
    size = file.stat().st_size
    with file.open("rb") as stream:
        head = stream.read(8)
        length = struct.unpack("<Q", head)[0] if len(head) == 8 else size
        if length > min(LONGEST, size - 8):
            raise ModelError(
                f"{str(file)!r} is no whole file of safetensors: it says that its header has {length} bytes."
            )
        try:
            table = json.loads(stream.read(length))
        except ValueError:
            raise ModelError(f"{str(file)!r} is no file of safetensors: its header is not JSON.") from None
    found = {}
    for name, entry in table.items():
        if name == "__metadata__":
            continue
        try:
            dtype, shape, (start, end) = entry["dtype"], tuple(map(int, entry["shape"])), entry["data_offsets"]
        except (KeyError, TypeError, ValueError):
            raise ModelError(f"{str(file)!r} describes its tensor {name!r} in no way that is known.") from None
        if dtype not in DTYPES:
            raise ModelError(
                f"Tensor {name!r} of {str(file)!r} has numbers of type {dtype}; known are {', '.join(DTYPES)}."
            )
        bytes_ = np.dtype(DTYPES[dtype]).itemsize * int(np.prod(shape, dtype=object))
        if not 0 <= start <= end <= size - 8 - length or end - start != bytes_:
            raise ModelError(
                f"Tensor {name!r} of {str(file)!r} should have {bytes_} bytes, and the file has not as many there; it is "
                "truncated or damaged, download it again."
            )
        found[name] = file, dtype, shape, 8 + length + start
    return found


keep_all(globals())

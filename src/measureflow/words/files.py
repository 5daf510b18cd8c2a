"""Arrays of numbers read from files of users: npz, npy, CSV and plain text."""

import hashlib
import io
import warnings
from pathlib import Path

import numpy as np

from measureflow import files
from measureflow.words.settings import InputError


def numbers_in(file: str, option: str) -> np.ndarray | dict[str, np.ndarray]:
    """The arrays of a file by name, or its one array; the `option` that names the file is named with what is wrong."""
    try:
        if Path(file).suffix not in (".npz", ".npy"):
            return _table(file)
        found = files.arrays(file)
        if isinstance(found, dict):
            return {name: files.numbers(f"{name!r} of {file!r}", array) for name, array in found.items()}
        return files.numbers(repr(file), found)
    except ValueError as error:
        raise InputError(f"`{option}`: {error}") from None


def _table(file: str) -> np.ndarray:
    """Rows of numbers, split by commas or by blanks."""
    text = io.StringIO(files.text(file, files.CELL))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # a file without numbers is only warned of
            return np.loadtxt(text, delimiter="," if Path(file).suffix == ".csv" else None, ndmin=2)
    except (ValueError, UserWarning) as error:
        raise ValueError(f"{file!r} is no table of numbers: {str(error).rstrip('.')}.") from None


def digest(file: str) -> str:
    """A text that is equal for files of equal content."""
    with files.plain(file).open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()

"""Arrays of numbers read from files of users: npz, npy, CSV and plain text."""

import hashlib
import warnings
import zipfile
from pathlib import Path

import numpy as np

from measureflow.words.memory import available, in_words
from measureflow.words.settings import InputError


def numbers_in(file: str) -> np.ndarray | dict[str, np.ndarray]:
    """The arrays of a file by name, or its one array."""
    try:
        match Path(file).suffix:
            case ".npz":
                _check_size(file)
                with np.load(file) as held:
                    return {name: _real(name, held[name]) for name in held.files}
            case ".npy":
                return _real("it", np.load(file))
            case suffix:
                with warnings.catch_warnings():
                    warnings.simplefilter("error")  # a file without numbers is only warned of
                    return np.loadtxt(file, delimiter="," if suffix == ".csv" else None, ndmin=2)
    except Exception as error:
        raise InputError(f"Cannot read numbers from {file!r}: {str(error).rstrip('.')}.") from None


def _check_size(file: str) -> None:
    """Refuse an archive that holds more than the memory that is free: a small one can expand a thousandfold."""
    with zipfile.ZipFile(file) as archive:
        size = float(sum(item.file_size for item in archive.infolist()))
    if (free := available()) is not None and size > free:
        raise ValueError(f"it holds {in_words(size)}, more than the {in_words(free)} of memory that are free")


def _real(name: str, array: np.ndarray) -> np.ndarray:
    if np.iscomplexobj(array):
        raise ValueError(f"{name} is complex and would lose its imaginary part")
    return np.asarray(array, np.float64)


def digest(file: str) -> str:
    """A text that is equal for files of equal content."""
    return hashlib.sha256(Path(file).read_bytes()).hexdigest()

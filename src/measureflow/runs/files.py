"""Numbers in files."""

from pathlib import Path

import numpy as np

from measureflow.runs.settings import InputError


def numbers_in(file: str) -> np.ndarray | dict[str, np.ndarray]:
    """The arrays of a file by name, or its one array."""
    try:
        match Path(file).suffix:
            case ".npz":
                with np.load(file) as held:
                    return {name: _real(name, held[name]) for name in held.files}
            case ".npy":
                return _real("it", np.load(file))
            case _:
                return np.loadtxt(file, delimiter="," if Path(file).suffix == ".csv" else None, ndmin=2)
    except Exception as error:
        raise InputError(f"Cannot read numbers from {file!r}: {str(error).rstrip('.')}.") from None


def _real(name: str, array: np.ndarray) -> np.ndarray:
    if np.iscomplexobj(array):
        raise ValueError(f"{name} is complex and would lose its imaginary part")
    return np.asarray(array, np.float64)

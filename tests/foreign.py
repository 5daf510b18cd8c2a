"""Files of strangers: what damage, chance and malice make of tables, arrays, graphs and models.

`TABLES`, `ARRAYS`, `GRAPHS` and `MODELS` have generators by the kind of file. Each takes a random generator and a folder,
writes one file (or, for models, one folder with a model) into it, over the one before, and returns its path:

    for seed in range(10_000):
        file = foreign.TABLES["csv"](np.random.default_rng(seed), folder)

(tests get the module as the fixture `foreign`; a script beside it imports it).
One seed is one file, so that a failure is repeated by its seed. Some of the files are whole, most are not; whoever reads them has
to return checked numbers or to raise one sentence, soon and in little memory.
"""

import io
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy import sparse

Generator = Callable[[np.random.Generator, Path], Path]

CELLS = [
    "",
    "0",
    "1",
    "y",
    "x",
    "nan",
    "inf",
    "-1e400",
    "1_0",
    "0x1",
    "NA",
    '"',
    '"a,b"',
    "\ufeff",
    "\0",
    "é",
    "1,2",
    " 3 ",
]
"""Cells that tables do not expect."""

SHAPES = [(), (0,), (1,), (6,), (6, 1), (6, 2), (0, 2), (6, 0), (2, 3, 1)]
TYPES = ["f8", "f4", "i8", "u1", "?", "c16", "U3", "S2", "M8[s]", "O", ">f8", "f2"]

SIZES = [-(2**63), -1, 0, 1, 2, 3, 7, 2**31, 2**40, 2**63 - 1]
"""Numbers that a size or a place should not be."""

VALUES = [None, True, -1, 0, 1, 2.5, 10**9, 2**70, 1e308, float("nan"), "", "x", "4", [], [1, [2]], {}, {"a": 1}]
"""Values of JSON that a configuration does not expect."""


def flipped(rng: np.random.Generator, raw: bytes, bits: int = 3) -> bytes:
    """Bytes of which some bits are turned over."""
    found = bytearray(raw)
    for place in rng.integers(0, len(found), rng.integers(1, bits + 1)) if found else ():
        found[place] ^= 1 << int(rng.integers(8))
    return bytes(found)


def damaged(rng: np.random.Generator, raw: bytes) -> bytes:
    """Bytes as they are, cut off, with bits turned over, a piece left out, doubled or of zeros, or more at the end."""
    a, b = sorted(int(k) for k in rng.integers(0, len(raw) + 1, 2))
    ways = [
        lambda: raw,
        lambda: raw[:a],
        lambda: flipped(rng, raw),
        lambda: raw[:a] + raw[b:],
        lambda: raw[:b] + raw[a:],
        lambda: raw[:a] + bytes(b - a) + raw[b:],
        lambda: raw + rng.bytes(int(rng.integers(1, 50))),
    ]
    return ways[int(rng.integers(len(ways)))]()


def _one(rng: np.random.Generator, values: list):
    return values[int(rng.integers(len(values)))]


def _csv(rng: np.random.Generator, folder: Path) -> Path:
    """A table of numbers in which some cells, rows or bytes are not as they should be."""
    columns = int(rng.integers(1, 5))
    rows = [[f"{x:.3g}" for x in rng.normal(size=columns - 1)] + [_one(rng, ["0", "1"])] for _ in range(8)]
    names = [["x", "y", "z", "y", "w"][k] for k in rng.permutation(5)[:columns]]
    table = ([names] if rng.random() < 0.5 else []) + rows
    for _ in range(int(rng.integers(0, 3))):
        row = _one(rng, table)
        if row and rng.random() < 0.7:
            row[int(rng.integers(len(row)))] = _one(rng, CELLS)
        elif row:
            row.pop()
    split = _one(rng, [",", ",", ",", ";"])
    lines = _one(rng, ["\n", "\r\n"]).join(split.join(row) for row in table)
    raw = ("\ufeff" * (rng.random() < 0.1) + lines).encode()
    (folder / "foreign.csv").write_bytes(damaged(rng, raw) if rng.random() < 0.5 else raw)
    return folder / "foreign.csv"


def _values(rng: np.random.Generator) -> np.ndarray:
    shape, kind = _one(rng, SHAPES), _one(rng, TYPES)
    if rng.random() < 0.6:
        shape, kind = (6, *_one(rng, [(), (2,)])), "f8"
    return (10 * rng.normal(size=shape)).astype(np.int64).astype(kind) if kind != "O" else np.full(shape, {}, object)


def _saved(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array, allow_pickle=True)
    return stream.getvalue()


def _npy(rng: np.random.Generator, folder: Path) -> Path:
    """An array of any shape and type, perhaps damaged."""
    (folder / "foreign.npy").write_bytes(damaged(rng, _saved(_values(rng))))
    return folder / "foreign.npy"


def _npz(rng: np.random.Generator, folder: Path) -> Path:
    """An archive of arrays, some damaged before they were packed, and itself perhaps damaged."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", _one(rng, [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])) as archive:
        for name in ("x", _one(rng, ["y", "y", "y", "labels", "points", "../y"])):
            raw = _saved(_values(rng))
            archive.writestr(
                f"{name}{_one(rng, ['.npy'] * 9 + [''])}", damaged(rng, raw) if rng.random() < 0.2 else raw
            )
    raw = stream.getvalue()
    (folder / "foreign.npz").write_bytes(damaged(rng, raw) if rng.random() < 0.3 else raw)
    return folder / "foreign.npz"


def _edges(rng: np.random.Generator, folder: Path) -> Path:
    """Lines of edges with names, weights and headings that may be wrong."""
    rows = [[str(k) for k in rng.integers(0, 6, 2)] + ["1"] * (rng.random() < 0.5) for _ in range(8)]
    rows = [row[: len(rows[0])] + ["1"] * (len(rows[0]) - len(row)) for row in rows]
    for _ in range(int(rng.integers(0, 3))):
        row = _one(rng, rows)
        row[int(rng.integers(len(row)))] = _one(rng, CELLS)
    raw = "\n".join(
        ([_one(rng, ["# edges", "source target", "u v"])] if rng.random() < 0.3 else []) + [" ".join(r) for r in rows]
    )
    (folder / "foreign.txt").write_bytes(damaged(rng, raw.encode()) if rng.random() < 0.4 else raw.encode())
    return folder / "foreign.txt"


def _matrix(rng: np.random.Generator, folder: Path) -> Path:
    """A sparse matrix with places, pointers and sizes that may be out of range."""
    upper = sparse.random_array((6, 6), density=0.4, rng=rng)
    matrix = (upper + upper.T).asformat(_one(rng, ["csr", "csc", "coo"]))
    sparse.save_npz(folder / "foreign.npz", matrix)
    with np.load(folder / "foreign.npz") as held:
        arrays = {name: held[name] for name in held.files}
    for _ in range(int(rng.integers(0, 3))):
        name = _one(rng, [name for name in arrays if name != "format"])
        array = arrays[name].copy()
        if array.size:
            array.flat[int(rng.integers(array.size))] = np.clip(_one(rng, SIZES), -(2**31), 2**31 - 1)
        arrays[name] = array[:-1] if array.ndim and rng.random() < 0.3 else array
    np.savez(folder / "foreign.npz", **arrays)
    raw = (folder / "foreign.npz").read_bytes()
    (folder / "foreign.npz").write_bytes(damaged(rng, raw) if rng.random() < 0.1 else raw)
    return folder / "foreign.npz"


TABLES: dict[str, Generator] = {"csv": _csv, "npz": _npz}
ARRAYS: dict[str, Generator] = {"npy": _npy, "npz": _npz}
GRAPHS: dict[str, Generator] = {"edges": _edges, "matrix": _matrix}

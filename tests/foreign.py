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
import json
import runpy
import struct
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


CHECKPOINTS = runpy.run_path(str(Path(__file__).with_name("checkpoints.py")))
"""Whole models of all families, which the damage begins with."""


def _edited(rng: np.random.Generator, table: dict) -> dict:
    """A table in JSON of which some entries, or entries of entries, are others, elsewhere or gone."""
    found = json.loads(json.dumps(table))
    for _ in range(int(rng.integers(1, 3))):
        inside = found
        while (names := [name for name, value in inside.items() if isinstance(value, dict)]) and rng.random() < 0.8:
            inside = inside[_one(rng, names)]
        name = _one(rng, list(inside) or ["x"])
        value = inside.pop(name, None)
        if isinstance(value, list) and value and rng.random() < 0.6:
            value[int(rng.integers(len(value)))] = _one(rng, [*SIZES, *VALUES])
        elif rng.random() < 0.8:
            value = _one(rng, [*VALUES, *SIZES])
        inside[_one(rng, [name] * 4 + ["x"])] = value
    return found


def _family(rng: np.random.Generator) -> tuple[dict, dict]:
    config, tensors = CHECKPOINTS[_one(rng, ["bert", "gpt2", "qwen", "vit"])]()
    if rng.random() < 0.2:
        name = _one(rng, list(tensors))
        tensors[name] = _one(rng, [tensors[name][:-1], tensors[name][..., :1], tensors[name].T, tensors[name] * np.nan])
    return config, tensors


def _folder(rng: np.random.Generator, folder: Path) -> Path:
    """A model in a folder, of which the configuration, the header or the bytes are damaged."""
    config, tensors = _family(rng)
    place = CHECKPOINTS["write"](folder / "foreign", config, tensors)
    weights, text = place / "model.safetensors", place / "config.json"
    raw = weights.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    match int(rng.integers(5)):
        case 0:
            text.write_text(json.dumps(_edited(rng, config)))
        case 1:
            text.write_bytes(damaged(rng, text.read_bytes()))
        case 2:
            head = json.dumps(_edited(rng, json.loads(raw[8 : 8 + length]))).encode()
            weights.write_bytes(struct.pack("<Q", len(head)) + head + raw[8 + length :])
        case 3:
            weights.write_bytes(flipped(rng, raw[: 8 + length]) + raw[8 + length :])
        case 4:
            weights.write_bytes(damaged(rng, raw))
    return place


def _gguf(rng: np.random.Generator, folder: Path) -> Path:
    """A model in a file of GGUF, whose head is damaged, or any of it."""
    raw = gguf_bytes(GGUF, gguf_tensors())
    cut = raw.index(b"tokenizer.ggml.model") if rng.random() < 0.5 else len(raw)
    (folder / "foreign.gguf").write_bytes(damaged(rng, raw[:cut]) + raw[cut:])
    return folder / "foreign.gguf"


def gguf_tensors() -> dict[str, np.ndarray]:
    """The tensors of a model of one layer, with four heads of two numbers."""
    rows = {"token_embd": 3, "blk.0.ffn_gate": 5, "blk.0.ffn_up": 5} | {f"blk.0.attn_{part}": 8 for part in "qkv"}
    shapes = {name: (count, 8) for name, count in rows.items()} | {
        "blk.0.attn_output": (8, 8),
        "blk.0.ffn_down": (8, 5),
    }
    shapes |= {name: (8,) for name in ("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm")}
    return {f"{name}.weight": np.full(shape, 0.1, np.float32) for name, shape in shapes.items()}


GGUF = {
    "general.architecture": "llama",
    "llama.embedding_length": 8,
    "llama.block_count": 1,
    "llama.attention.head_count": 4,
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.pre": "gpt-2",
    "tokenizer.ggml.tokens": ["a", "b", "ab"],
    "tokenizer.ggml.merges": ["a b"],
}
"""What a file of GGUF says before its tensors."""


def gguf_bytes(settings: dict, tensors: dict[str, np.ndarray]) -> bytes:
    """A file of GGUF of words, lists of words, whole numbers and float32, written by hand."""

    def word(text: str) -> bytes:
        return struct.pack("<Q", len(text.encode())) + text.encode()

    def value(of) -> bytes:
        match of:
            case str():
                return struct.pack("<I", 8) + word(of)
            case int():
                return struct.pack("<II", 4, of)
        return struct.pack("<IIQ", 9, 8, len(of)) + b"".join(map(word, of))

    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(settings))
    head += b"".join(word(name) + value(of) for name, of in settings.items())
    body = b""
    for name, tensor in tensors.items():
        sizes = tensor.shape[::-1]
        head += word(name) + struct.pack(f"<I{len(sizes)}QIQ", len(sizes), *sizes, 0, len(body))
        body += tensor.astype("<f4").tobytes()
        body += bytes(-len(body) % 32)
    return head + bytes(-len(head) % 32) + body


TABLES: dict[str, Generator] = {"csv": _csv, "npz": _npz}
ARRAYS: dict[str, Generator] = {"npy": _npy, "npz": _npz}
GRAPHS: dict[str, Generator] = {"edges": _edges, "matrix": _matrix}
MODELS: dict[str, Generator] = {"folder": _folder, "gguf": _gguf}

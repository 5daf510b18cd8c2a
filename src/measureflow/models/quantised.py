"""Files of GGUF, whose tensors may be quantised: their names and settings in the words of the other layout.

Queries and keys of the family of Llama lie in these files so that rotary pairs are neighbours. Headers are read by our own code,
as those of safetensors are, because every size that they declare is checked against the file; the package gguf knows what the
bytes of a quantised row mean.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from measureflow import files
from measureflow.models.files import ModelError, check_size
from measureflow.precision import keep_all

NAMES = {
    "token_embd": "embed_tokens",
    "output_norm": "norm",
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "ffn_gate": "mlp.gate_proj",
    "output": "lm_head",
}
"""Names of tensors, without their number of layer and ending."""

SETTINGS = {
    "hidden_size": "embedding_length",
    "num_hidden_layers": "block_count",
    "num_attention_heads": "attention.head_count",
    "num_key_value_heads": "attention.head_count_kv",
    "head_dim": "attention.key_length",
    "rms_norm_eps": "attention.layer_norm_rms_epsilon",
    "rope_theta": "rope.freq_base",
}
"""Settings, by their names in a configuration."""

KINDS = ("llama", "qwen2", "qwen3")


SCALARS = ("<u1", "<i1", "<u2", "<i2", "<u4", "<i4", "<f4", "?", None, None, "<u8", "<i8", "<f8")
"""Types of numbers by their codes, among which are those of words and of lists."""
WORD, LIST = 8, 9

VERSIONS = (2, 3)
"""Versions of the format that are read."""

AXES = 8
"""Axes that a tensor has at most."""


class Tensor(NamedTuple):
    """A tensor of a file: the code of its type, its shape, and the rows of bytes that hold it."""

    kind: int
    shape: tuple[int, ...]
    rows: np.ndarray


class Head:
    """What a file says before its tensors, read forward: no size in it is believed beyond the end of the file."""

    def __init__(self, file: Path):
        self.raw, self.at = np.memmap(files.plain(file), mode="r"), 0

    def take(self, count: int) -> np.ndarray:
        """The next bytes."""
        if count > len(self.raw) - self.at:
            raise ValueError(f"it says that {count} bytes follow at {self.at}, and it has {len(self.raw)} in all")
        self.at += count
        return self.raw[self.at - count : self.at]

    def numbers(self, kind: str, count: int) -> list[Any]:
        """The next numbers of a type."""
        return self.take(count * np.dtype(kind).itemsize).view(kind).tolist()

    def number(self, kind: str = "<u8") -> Any:
        """The next number."""
        return self.numbers(kind, 1)[0]

    def word(self) -> str:
        """The next word."""
        return self.take(self.number()).tobytes().decode()

    def value(self, kind: int) -> Any:
        """The next value of a type that is told by its code: a word, a number, or a list of such."""
        if kind != LIST:
            return self.word() if kind == WORD else self.number(_scalar(kind))
        kind, count = self.number("<u4"), self.number()
        return [self.word() for _ in range(count)] if kind == WORD else self.numbers(_scalar(kind), count)


def _scalar(kind: int) -> str:
    found = SCALARS[kind] if kind < len(SCALARS) else None
    if found is None:
        raise ValueError(f"it has a value of the type {kind}, which is not known")
    return found


class Contents(NamedTuple):
    """What a file holds: its settings by name, and its tensors under the names of the other layout."""

    fields: dict[str, Any]
    tensors: dict[str, Tensor]


def read(file: Path) -> Contents:
    """The settings and the tensors of a file, all of which are inside it."""
    try:
        from gguf import GGML_QUANT_SIZES as SIZES  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise ModelError(f"{str(file)!r} needs the package gguf: pip install 'measureflow[models]'.") from None
    try:
        return _read(Head(file), {int(kind): sizes for kind, sizes in SIZES.items()})
    except Exception as error:  # of whichever of its parts
        raise ModelError(f"{str(file)!r} is no whole file of GGUF: {str(error).rstrip('.')}.") from None


def _read(head: Head, sizes: dict[int, tuple[int, int]]) -> Contents:
    magic, version = head.take(4).tobytes(), head.number("<u4")
    if magic != b"GGUF" or version not in VERSIONS:
        raise ValueError(f"it begins with {magic!r} and version {version}")
    count, settings = head.number(), head.number()
    fields: dict[str, Any] = {}
    for _ in range(settings):
        name = head.word()
        files.unique([*fields.keys() & {name}, name], "it")
        fields[name] = head.value(head.number("<u4"))
    placed = [_described(head) for _ in range(count)]
    files.unique((_name(name) for name, *_ in placed), "it")
    step = fields.get("general.alignment", 32)
    if type(step) is not int or step < 1:
        raise ValueError(f"`general.alignment` must be a positive number; got {step!r}")
    start = -(-head.at // step) * step
    check_size(math.prod(shape) for _, shape, *_ in placed)
    found = {_name(name): _tensor(head.raw, sizes, name, start, shape, kind, at) for name, shape, kind, at in placed}
    return Contents(fields, found)


def _described(head: Head) -> tuple[str, tuple[int, ...], int, int]:
    """The name of a tensor, its shape, which is told from the last axis, the code of its type, and where it begins."""
    name, axes = head.word(), head.number("<u4")
    if axes > AXES:
        raise ValueError(f"its tensor {name!r} has {axes} axes")
    return name, tuple(reversed(head.numbers("<u8", axes))), head.number("<u4"), head.number()


def _tensor(
    raw: np.ndarray,
    sizes: dict[int, tuple[int, int]],
    name: str,
    start: int,
    shape: tuple[int, ...],
    kind: int,
    at: int,
) -> Tensor:
    """A tensor, if all of it is in the file."""
    if kind not in sizes or not shape or shape[-1] % sizes[kind][0]:
        raise ValueError(
            f"its tensor {name!r} of shape {shape} has the type {kind}, which is not known or does not fit"
        )
    numbers, bytes_ = sizes[kind]
    row, rows = shape[-1] // numbers * bytes_, math.prod(shape[:-1])
    if start + at + rows * row > len(raw):
        raise ValueError(f"its tensor {name!r} should have {rows * row} bytes from {start + at} on, beyond its end")
    return Tensor(kind, shape, raw[start + at : start + at + rows * row].reshape(rows, row))


class Dequantised(Mapping[str, np.ndarray]):
    """The tensors of a file in float32, under the names of the other layout."""

    def __init__(self, tensors: dict[str, Tensor]):
        self._tensors = tensors

    def __iter__(self):
        return iter(self._tensors)

    def __contains__(self, name: object) -> bool:
        return name in self._tensors

    def __len__(self) -> int:
        return len(self._tensors)

    def __getitem__(self, name: str) -> np.ndarray:
        from gguf import GGMLQuantizationType  # pyright: ignore[reportMissingImports]
        from gguf.quants import dequantize  # pyright: ignore[reportMissingImports]

        if name not in self._tensors:
            raise ModelError(f"The file has no tensor for {name!r}, which its architecture needs.")
        kind, shape, rows = self._tensors[name]
        try:
            values = dequantize(np.asarray(rows), GGMLQuantizationType(kind))
        except NotImplementedError as error:
            raise ModelError(f"The tensor {name!r} cannot be read: {error}.") from None
        return np.asarray(values, np.float32).reshape(shape)


def facts(file: Path, names: tuple[str, ...]) -> dict[str, Any]:
    """What a file says of its tokenizer."""
    fields = read(file).fields
    return {name: fields.get(f"tokenizer.ggml.{name}") for name in names}


def opened(file: Path) -> tuple[dict[str, Any], Dequantised]:
    """The configuration and the tensors of a file."""
    fields, tensors = read(file)
    kind = fields.get("general.architecture")
    if kind not in KINDS:
        raise ModelError(
            f"A file of GGUF of the architecture {kind!r} is not known here; known are {', '.join(KINDS)}."
        )
    settings = {name: fields.get(f"{kind}.{key}") for name, key in SETTINGS.items()}
    config = {name: value for name, value in settings.items() if value is not None}
    name = fields.get("general.name") or file.stem
    return config | {
        "model_type": kind,
        "hidden_act": "silu",
        "rotary_interleaved": kind == "llama",
        "_name_or_path": name,
    }, Dequantised(tensors)


def _name(name: str) -> str:
    parts = name.split(".")
    layered = parts[0] == "blk" and len(parts) > 2
    stem = ".".join(parts[2:-1] if layered else parts[:-1])
    known = NAMES.get(stem, stem)
    if known == "lm_head":
        return f"lm_head.{parts[-1]}"
    return f"model.layers.{parts[1]}.{known}.{parts[-1]}" if layered else f"model.{known}.{parts[-1]}"


keep_all(globals())

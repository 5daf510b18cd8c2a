"""Files of GGUF, whose tensors may be quantised: their names and settings in the words of the other layout.

Queries and keys of the family of Llama lie in these files so that rotary pairs are neighbours.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from measureflow.models.files import ModelError
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


class Dequantised(Mapping[str, np.ndarray]):
    """The tensors of a file in float32, under the names of the other layout."""

    def __init__(self, reader: Any):
        self._tensors = {_name(tensor.name): tensor for tensor in reader.tensors}

    def __iter__(self):
        return iter(self._tensors)

    def __contains__(self, name: object) -> bool:
        return name in self._tensors

    def __len__(self) -> int:
        return len(self._tensors)

    def __getitem__(self, name: str) -> np.ndarray:
        from gguf.quants import dequantize  # pyright: ignore[reportMissingImports]

        if name not in self._tensors:
            raise ModelError(f"The file has no tensor for {name!r}, which its architecture needs.")
        tensor = self._tensors[name]
        return np.asarray(dequantize(tensor.data, tensor.tensor_type), np.float32)


def facts(file: Path, names: tuple[str, ...]) -> dict[str, Any]:
    """What a file says of its tokenizer."""
    reader = _reader(file)
    return {name: _field(reader, f"tokenizer.ggml.{name}") for name in names}


def _reader(file: Path) -> Any:
    try:
        from gguf import GGUFReader  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise ModelError(f"{str(file)!r} needs the package gguf: pip install 'measureflow[models]'.") from None
    try:
        return GGUFReader(file)
    except Exception as error:
        raise ModelError(f"{str(file)!r} is no whole file of GGUF: {error}.") from None


def opened(file: Path) -> tuple[dict[str, Any], Dequantised]:
    """The configuration and the tensors of a file."""
    reader = _reader(file)
    kind = _field(reader, "general.architecture")
    if kind not in KINDS:
        raise ModelError(
            f"A file of GGUF of the architecture {kind!r} is not known here; known are {', '.join(KINDS)}."
        )
    settings = {name: _field(reader, f"{kind}.{key}") for name, key in SETTINGS.items()}
    config = {name: value for name, value in settings.items() if value is not None}
    name = _field(reader, "general.name") or file.stem
    return config | {
        "model_type": kind,
        "hidden_act": "silu",
        "rotary_interleaved": kind == "llama",
        "_name_or_path": name,
    }, Dequantised(reader)


def _name(name: str) -> str:
    parts = name.split(".")
    layered = parts[0] == "blk"
    stem = ".".join(parts[2:-1] if layered else parts[:-1])
    known = NAMES.get(stem, stem)
    if known == "lm_head":
        return f"lm_head.{parts[-1]}"
    return f"model.layers.{parts[1]}.{known}.{parts[-1]}" if layered else f"model.{known}.{parts[-1]}"


def _field(reader: Any, name: str) -> Any:
    field = reader.get_field(name)
    return None if field is None else field.contents()


keep_all(globals())

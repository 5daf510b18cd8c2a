"""Checkpoints of the families of architectures, small and random, written in the real format."""

import json
import struct
from types import SimpleNamespace

import numpy as np
import pytest

RNG = np.random.default_rng(0)
D, H, G, L, M, V = 12, 4, 2, 2, 20, 31
IDS = RNG.integers(0, V, 9)


def write(folder, config, tensors, kind="F32"):
    """A checkpoint in the real format, by hand."""
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    header, blob = {"__metadata__": {"format": "pt"}}, b""
    for name, tensor in tensors.items():
        data = tensor.astype(np.float16 if kind == "F16" else np.float32).tobytes()
        header[name] = {"dtype": kind, "shape": list(tensor.shape), "data_offsets": [len(blob), len(blob) + len(data)]}
        blob += data
    head = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(head)) + head + blob)
    return folder


def normal(*shape):
    return (RNG.normal(size=shape) * (0.3 if len(shape) > 1 else 0.1)).astype(np.float32)


def norms(name, bias=True):
    return {f"{name}.weight": 1 + normal(D)} | ({f"{name}.bias": normal(D)} if bias else {})


def linears(names, out, into, bias=True):
    return {f"{name}.weight": normal(out, into) for name in names} | (
        {f"{name}.bias": normal(out) for name in names} if bias else {}
    )


def bert():
    tensors = {
        "word_embeddings": normal(V, D),
        "position_embeddings": normal(16, D),
        "token_type_embeddings": normal(2, D),
    }
    tensors = {f"bert.embeddings.{name}.weight": tensor for name, tensor in tensors.items()} | norms(
        "bert.embeddings.LayerNorm"
    )
    for k in range(L):
        at = f"bert.encoder.layer.{k}."
        tensors |= linears([f"{at}attention.self.{part}" for part in ("query", "key", "value")], D, D)
        tensors |= linears([f"{at}attention.output.dense"], D, D) | norms(f"{at}attention.output.LayerNorm")
        tensors |= linears([f"{at}intermediate.dense"], M, D) | linears([f"{at}output.dense"], D, M)
        tensors |= norms(f"{at}output.LayerNorm")
    config = dict(
        model_type="bert", num_attention_heads=H, num_hidden_layers=L, hidden_act="gelu", layer_norm_eps=1e-12
    )
    return config, tensors


def gpt2():
    tensors = {"wte.weight": normal(V, D), "wpe.weight": normal(16, D)} | norms("ln_f")
    for k in range(L):
        at = f"h.{k}."
        for name, into, out in (
            ("attn.c_attn", D, 3 * D),
            ("attn.c_proj", D, D),
            ("mlp.c_fc", D, M),
            ("mlp.c_proj", M, D),
        ):
            tensors |= {f"{at}{name}.weight": normal(into, out), f"{at}{name}.bias": normal(out)}
        tensors |= norms(f"{at}ln_1") | norms(f"{at}ln_2")
    config = dict(
        model_type="gpt2", n_head=H, n_embd=D, n_layer=L, activation_function="gelu_new", layer_norm_epsilon=1e-5
    )
    return config, tensors


def qwen():
    k_ = D // H + 1  # heads that are wider than their share, with norms of their own
    tensors = {"model.embed_tokens.weight": normal(V, D), "lm_head.weight": normal(V, D)} | norms("model.norm", False)
    for k in range(L):
        at = f"model.layers.{k}."
        tensors |= linears([f"{at}self_attn.q_proj"], H * k_, D) | linears([f"{at}self_attn.o_proj"], D, H * k_, False)
        tensors |= linears([f"{at}self_attn.{part}_proj" for part in "kv"], G * k_, D)
        tensors |= {f"{at}self_attn.{part}_norm.weight": 1 + normal(k_) for part in "qk"}
        tensors |= linears([f"{at}mlp.{part}_proj" for part in ("up", "gate")], M, D, False)
        tensors |= linears([f"{at}mlp.down_proj"], D, M, False)
        tensors |= norms(f"{at}input_layernorm", False) | norms(f"{at}post_attention_layernorm", False)
    config = dict(model_type="qwen3", hidden_size=D, num_attention_heads=H, num_key_value_heads=G, num_hidden_layers=L)
    return config | dict(head_dim=k_, rms_norm_eps=1e-5, rope_theta=100.0, hidden_act="silu"), tensors


def vit():
    side = 4
    tensors = {
        "embeddings.cls_token": normal(1, 1, D),
        "embeddings.position_embeddings": normal(1, 10, D),
        "embeddings.patch_embeddings.projection.weight": normal(D, 3, side, side),
        "embeddings.patch_embeddings.projection.bias": normal(D),
    } | norms("layernorm")
    for k in range(L):
        at = f"encoder.layer.{k}."
        tensors |= linears([f"{at}attention.attention.{part}" for part in ("query", "key", "value")], D, D)
        tensors |= linears([f"{at}attention.output.dense"], D, D) | linears([f"{at}intermediate.dense"], M, D)
        tensors |= linears([f"{at}output.dense"], D, M) | norms(f"{at}layernorm_before") | norms(f"{at}layernorm_after")
    config = dict(model_type="vit", num_attention_heads=H, num_hidden_layers=L, hidden_act="gelu", image_size=12)
    return config, tensors


def alphabet(folder):
    """A tokenizer of bytes, of which a model of few tokens knows the first: text of `abc`."""
    tokenizers = pytest.importorskip("tokenizers")
    made = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({c: i for i, c in enumerate("abcdefghijklmnopqrstuvwxyz ?")}, "?")
    )
    made.pre_tokenizer = tokenizers.pre_tokenizers.Split("", "isolated")
    made.decoder = tokenizers.decoders.Fuse()
    made.save(str(folder / "tokenizer.json"))
    return folder


def made():
    """How checkpoints are made, and their sizes."""
    kinds = dict(bert=bert, gpt2=gpt2, qwen=qwen, vit=vit)
    return SimpleNamespace(**kinds, kinds=kinds, write=write, alphabet=alphabet, D=D, H=H, G=G, L=L, V=V, ids=IDS)

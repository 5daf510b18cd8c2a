"""Files of models: what is damaged, promises too much or never ends is refused with a sentence."""

import json
import os
import re
import struct
from pathlib import Path

import numpy as np
import pytest

from measureflow import memory, models
from measureflow.models import ModelError, architectures
from measureflow.models.files import Tensors
from measureflow.models.tokens import tokenizer


@pytest.fixture
def folder(made, tmp_path):
    return made.write(tmp_path / "m", *made.qwen())


def configured(folder, **changes):
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def header(folder, change):
    """The header of the weights as `change` makes it of itself."""
    file = folder / "model.safetensors"
    raw = file.read_bytes()
    length = struct.unpack("<Q", raw[:8])[0]
    found = change(json.loads(raw[8 : 8 + length]))
    head = (found if isinstance(found, str) else json.dumps(found)).encode()
    file.write_bytes(struct.pack("<Q", len(head)) + head + raw[8 + length :])


def entry(change):
    """A change of the header entry of the first tensor."""
    return lambda table: table | {(name := list(table)[1]): table[name] | change}


HEADERS = {
    "a list": (lambda _: [1], "must hold a table; got a list"),
    "deep": (lambda _: "[" * 10**5, "its lists are too deep"),
    "twice": (lambda table: json.dumps(table)[:-1] + ', "lm_head.weight": 1}', "has 'lm_head.weight' twice"),
    "an entry that is none": (lambda table: table | {"x": 3}, "describes its tensor 'x' in no way"),
    "a type that is a list": (entry({"dtype": []}), "in no way that is known"),
    "another type": (entry({"dtype": "Q4"}), "numbers of type Q4; known are"),
    "half a row": (entry({"shape": [31.5, 12]}), "in no way that is known"),
    "two negative sizes": (entry({"shape": [-31, -12]}), "in no way that is known"),
    "true": (entry({"shape": [True, 372]}), "in no way that is known"),
    "places as words": (entry({"data_offsets": ["0", "4"]}), "in no way that is known"),
    "one place": (entry({"data_offsets": [0]}), "in no way that is known"),
    "over another": (entry({"data_offsets": [4, 1492]}), "do not fill it one after the other"),
}


@pytest.mark.parametrize("name", HEADERS)
def test_a_header_is_believed_only_where_it_agrees_with_the_file(name, folder):
    change, words = HEADERS[name]
    header(folder, change)
    with pytest.raises(ModelError, match=re.escape(words)):
        models.load(folder)


def test_a_file_with_more_than_its_tensors_is_refused(folder):
    with (folder / "model.safetensors").open("ab") as stream:
        stream.write(b"\0")
    with pytest.raises(ModelError, match="do not fill it one after the other"):
        models.load(folder)


CONFIGURATIONS = {
    "huge heads": ({"head_dim": 10**9}, "not those of 4 heads of `head_dim` 1000000000"),
    "true": ({"num_attention_heads": True}, "no positive whole number `num_attention_heads`"),
    "many layers": ({"num_hidden_layers": 10**9}, "has no tensor 'model.layers.2"),
    "a list for a word": ({"hidden_act": ["silu"]}, "`hidden_act` ['silu'] is not known"),
    "a list for a family": ({"model_type": ["llama"]}, "`model_type` ['llama'] is not known"),
    "a base of NaN": ({"rope_theta": float("nan")}, "`rope_theta` of the configuration must be a positive number"),
    "an infinite base": ({"rope_theta": 10**400}, "`rope_theta` of the configuration must be a positive number"),
    "a list of positions": ({"rope_scaling": [1]}, "Rotary positions of the kind [1]"),
    "a word for a number": ({"rms_norm_eps": "tiny"}, "`rms_norm_eps` of the configuration must be a positive number"),
}


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_a_configuration_is_checked_against_the_tensors(name, folder):
    changes, words = CONFIGURATIONS[name]
    configured(folder, **changes)
    with pytest.raises(ModelError, match=re.escape(words)):
        models.load(folder)


def test_nothing_is_allocated_for_a_size_that_no_tensor_has(folder, monkeypatch):
    """Heads of 10^9 coordinates would need a table of frequencies of as many numbers."""
    monkeypatch.setattr(architectures.Rotary, "of_base", lambda *_, **__: pytest.fail("frequencies were made"))
    configured(folder, head_dim=10**9)
    with pytest.raises(ModelError, match="`head_dim` 1000000000"):
        models.load(folder)


TENSORS = {
    "NaN": ("model.embed_tokens.weight", lambda x: x * np.nan, "has 372 entries that are NaN or infinite"),
    "a norm of one number": ("model.norm.weight", lambda x: x[:1], "a norm has not 12 weights"),
    "a norm inside of one number": ("model.layers.0.input_layernorm.weight", lambda x: x[:1], "do not fit together"),
    "an output of other tokens": ("lm_head.weight", lambda x: x[:, :7], "the output takes 7 numbers"),
    "a perceptron that does not fit": ("model.layers.0.mlp.up_proj.weight", lambda x: x[:, :5], "do not fit together"),
}


@pytest.mark.parametrize("name", TENSORS)
def test_tensors_that_do_not_belong_together_are_refused(name, made, tmp_path):
    tensor, change, words = TENSORS[name]
    config, tensors = made.qwen()
    tensors[tensor] = change(tensors[tensor])
    with pytest.raises(ModelError, match=words):
        models.load(made.write(tmp_path / "m", config, tensors))


def test_a_tensor_without_numbers_and_one_without_axes_are_read(made, tmp_path):
    made.write(tmp_path / "m", {}, {"none": np.zeros((0, 3)), "one": np.float32(2.5)})
    found = Tensors([tmp_path / "m" / "model.safetensors"])
    assert found["none"].shape == (0, 3)
    assert found["one"].shape == ()
    assert float(found["one"]) == 2.5


def test_pipes_and_links_to_nothing_are_refused_and_not_waited_for(folder):
    weights = folder / "model.safetensors"
    weights.unlink()
    os.mkfifo(weights)
    with pytest.raises(ModelError, match="is a pipe or a device, not a file"):
        models.load(folder)
    weights.unlink()
    weights.symlink_to("nowhere")
    with pytest.raises(ModelError, match="cannot be read: No such file"):
        models.load(folder)
    with pytest.raises(ModelError, match="cannot be read: File name too long"):
        models.load("m" * 300)


INDICES = {
    "no map": ([], "must hold a table"),
    "a list": ({"weight_map": ["a"]}, "has no `weight_map`"),
    "numbers": ({"weight_map": {"a": 1}}, "has no `weight_map`"),
    "elsewhere": ({"weight_map": {"a": "../m/model.safetensors"}}, "is no file of that folder"),
    "another tensor": ({"weight_map": {"a": "model.safetensors"}}, "lacks the tensor 'a', which its index names"),
}


@pytest.mark.parametrize("name", INDICES)
def test_an_index_names_tensors_of_files_of_its_folder(name, folder):
    index, words = INDICES[name]
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(ModelError, match=words):
        models.load(folder)


def test_one_tensor_in_two_files_is_refused(folder):
    (folder / "copy.safetensors").write_bytes((folder / "model.safetensors").read_bytes())
    with pytest.raises(ModelError, match="which another file of the model has too"):
        models.load(folder)


def test_a_model_that_does_not_fit_into_memory_is_refused_unread(folder, monkeypatch):
    monkeypatch.setattr(memory, "available", lambda: 1e4)
    with pytest.raises(ModelError, match=r"The model would need about .* kB of memory, and 10 kB are free"):
        models.load(folder)


def quantised(foreign, tmp_path, settings=None, raw=None):
    place = tmp_path / "m.gguf"
    place.write_bytes(raw or foreign.gguf_bytes(foreign.GGUF | (settings or {}), foreign.gguf_tensors()))
    return place


def test_a_file_of_gguf_is_read_up_to_its_end_and_no_further(foreign, tmp_path):
    pytest.importorskip("gguf")
    whole = quantised(foreign, tmp_path)
    model, raw = models.load(whole), whole.read_bytes()
    assert (model.depth, model.dim, model.heads) == (1, 8, 4)
    assert np.asarray(model.embedding.table) == pytest.approx(0.1)
    assert tokenizer(whole).encode("ab").tolist() == [2]
    for k in (0, 3, 12, 30, 200, len(raw) - 40):
        with pytest.raises(ModelError, match="no whole file of GGUF"):
            models.load(quantised(foreign, tmp_path, raw=raw[:k] or b"\0"))
    count = raw.index(struct.pack("<IQ", 8, 3)) + 4  # of the list of tokens: three words
    for many in (2**60, 10**7):
        with pytest.raises(ModelError, match="bytes follow at"):
            models.load(quantised(foreign, tmp_path, raw=raw[:count] + struct.pack("<Q", many) + raw[count + 8 :]))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"tokenizer.ggml.merges": 3}, "has no list of merges"),
        ({"tokenizer.ggml.merges": ["a"]}, "merges what are no tokens"),
        ({"tokenizer.ggml.merges": ["a z"]}, "merges what are no tokens"),
        ({"tokenizer.ggml.tokens": ["a", "a"]}, "has a token twice"),
        ({"tokenizer.ggml.tokens": "a"}, "has no list of tokens"),
        ({"tokenizer.ggml.pre": "other"}, "is not known here"),
    ],
)
def test_a_tokenizer_of_gguf_needs_its_lists(settings, words, foreign, tmp_path):
    pytest.importorskip("gguf")
    with pytest.raises(ModelError, match=words):
        tokenizer(quantised(foreign, tmp_path, settings))


def test_numbers_of_tokens_beyond_the_vocabulary_are_counted(tmp_path):
    """A vocabulary may leave numbers out, and then has fewer words than its largest number says."""
    tokenizers = pytest.importorskip("tokenizers")
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "b": 10**6}, "a"))
    made.save(str(tmp_path / "tokenizer.json"))
    assert tokenizer(tmp_path).size == 10**6 + 1
    for text in ("{", '{"model": {"type": "BPE"}}', "[" * 10**4):
        Path(tmp_path / "tokenizer.json").write_text(text)
        with pytest.raises(ModelError, match="is no tokenizer"):
            tokenizer(tmp_path)


@pytest.mark.parametrize("kind", ["folder", "gguf"])
def test_any_model_is_read_or_refused_with_a_sentence(kind, foreign, tmp_path):
    pytest.importorskip("gguf")
    said, read = [], 0
    for seed in range(60):
        try:
            model = models.load(foreign.MODELS[kind](np.random.default_rng(seed), tmp_path))
        except ModelError as error:
            said.append(str(error))
        else:
            read += 1
            assert np.isfinite(np.asarray(model.embedding.table)).all(), seed
    assert 0 < read < 60
    assert all(sentence.endswith((".", "?")) for sentence in said)

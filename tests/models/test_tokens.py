"""Texts to tokens and back, in both formats of files."""

import numpy as np
import pytest

from measureflow import models
from measureflow.models import ModelError

TEXT = "a measure in motion: 12 clusters, café"


@pytest.fixture
def tokenizers():
    return pytest.importorskip("tokenizers")


def test_texts_come_back(tokenizers, tmp_path):
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer, made.decoder = tokenizers.pre_tokenizers.ByteLevel(), tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet, show_progress=False)
    made.train_from_iterator([TEXT, "in a motion"], trainer)
    made.enable_truncation(4)
    made.save(str(tmp_path / "tokenizer.json"))
    found = models.tokenizer(tmp_path)
    ids = found.encode(TEXT)
    assert len(ids) > 4  # what a checkpoint cuts off is not cut off here
    assert found.decode(ids).strip() == TEXT
    assert "".join(found.words(ids[:5])).strip() == found.decode(ids[:5]).strip()
    assert ids.max() < found.size
    with pytest.raises(ValueError, match="`text` is empty"):
        found.encode("")


def test_pairs_of_bytes_of_gguf(tokenizers, tmp_path):
    gguf = pytest.importorskip("gguf")
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    writer = gguf.GGUFWriter(str(tmp_path / "m.gguf"), "llama")
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list([*alphabet, "in", "Ġm"])
    writer.add_token_merges(["i n", "Ġ m"])
    for finish in (
        writer.write_header_to_file,
        writer.write_kv_data_to_file,
        writer.write_tensors_to_file,
        writer.close,
    ):
        finish()
    found = models.tokenizer(tmp_path / "m.gguf")
    ids = found.encode(TEXT)
    assert found.decode(ids) == TEXT
    assert found.decode([len(alphabet)]) == "in"
    assert len(ids) == len(TEXT.encode()) - 3  # `in` once, and ` m` twice
    assert np.sum(ids >= len(alphabet)) == 3


def test_what_is_no_tokenizer_is_explained(tokenizers, tmp_path):
    with pytest.raises(ModelError, match=r"has no tokenizer\.json"):
        models.tokenizer(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(ModelError, match="is no tokenizer"):
        models.tokenizer(tmp_path)

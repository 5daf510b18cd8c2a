"""From the tensors of a checkpoint to a model: one function for each family of architectures.

A family says where its tensors are, how they lie (`Linear` is `(out, in)`, the `Conv1D` of GPT-2 `(in, out)`), what is fused,
which norm comes before or after, and how positions enter. Everything else is the same for all.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from measureflow.fields import Composed, FactoredAttention, FeedForward, Layered, LayerNorm, RMSNorm, Rotary, Sublayer
from measureflow.fields.normalisation import AbstractNorm
from measureflow.models.files import ModelError
from measureflow.models.model import Embedding, Model
from measureflow.precision import keep_all

Config = Mapping[str, Any]

ACTIVATIONS: dict[str, Callable] = {
    "gelu": partial(jax.nn.gelu, approximate=False),
    "gelu_new": jax.nn.gelu,
    "gelu_pytorch_tanh": jax.nn.gelu,
    "gelu_fast": jax.nn.gelu,
    "relu": jax.nn.relu,
    "silu": jax.nn.silu,
    "swish": jax.nn.silu,
    "quick_gelu": lambda x: x * jax.nn.sigmoid(1.702 * x),
}
"""Activations by their names in a configuration."""


@dataclass(frozen=True)
class Get:
    """Tensors by their names without a prefix that some checkpoints put before all of them."""

    tensors: Mapping[str, np.ndarray]
    prefix: str

    def __call__(self, name: str) -> np.ndarray:
        """A tensor, with finite numbers."""
        return finite(self.prefix + name, self.tensors[self.prefix + name])

    def __contains__(self, name: str) -> bool:
        return self.prefix + name in self.tensors


def finite(name: str, values: np.ndarray) -> np.ndarray:
    """The numbers of a tensor, none of which is NaN or infinite: a model would carry it through all layers."""
    if not np.isfinite(values).all():
        raise ModelError(f"The tensor {name!r} has {(~np.isfinite(values)).sum()} entries that are NaN or infinite.")
    return values


def prefixed(tensors: Mapping[str, np.ndarray], known: str) -> Get:
    """The tensors of a model, one of which is known by its name."""
    found = next((name for name in tensors if name == known or name.endswith(f".{known}")), None)
    if found is None:
        raise ModelError(
            f"The checkpoint has no tensor {known!r}: its files are not those that its configuration speaks of."
        )
    return Get(tensors, found.removesuffix(known))


def build(config: Config, tensors: Mapping[str, np.ndarray]) -> Model:
    """The model that a configuration describes, with the weights of its tensors."""
    kind = config.get("model_type")
    if not isinstance(kind, str) or kind not in FAMILIES:
        raise ModelError(f"`model_type` {kind!r} is not known here; known are {', '.join(FAMILIES)}.")
    try:
        model = FAMILIES[kind](config, tensors)
        check_shapes(model)
    except ModelError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise ModelError(
            f"The tensors of the checkpoint do not fit together as those of `model_type` {kind}: {_brief(error)}."
        ) from None
    return model


def _brief(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")


def check_shapes(model: Model) -> None:
    """Refuse tensors of shapes with which the model cannot be computed, or only by repeating them; computes nothing."""
    points = jax.ShapeDtypeStruct((1, model.dim), jnp.float32)
    eqx.filter_eval_shape(lambda model, x: model.run(model.particles(model.embedding.place(x))), model, points)
    sizes = {model.dim, model.attention(0).query.shape[1]}
    for norm in jax.tree.leaves(model, is_leaf=lambda part: isinstance(part, AbstractNorm)):
        if isinstance(norm, AbstractNorm) and any(
            part.shape[-1] not in sizes for part in jax.tree.leaves(norm) if part.ndim
        ):
            raise ValueError(f"a norm has not {model.dim} weights")
    if model.unembedding is not None and model.unembedding.shape[1] != model.dim:
        raise ValueError(f"the output takes {model.unembedding.shape[1]} numbers, and tokens have {model.dim}")


def bert(config: Config, tensors: Mapping[str, np.ndarray]) -> Model:
    """BERT and its like: norms after residuals, all tokens see each other, learned positions."""
    get, norm = prefixed(tensors, "embeddings.word_embeddings.weight"), partial(layer_norm, config)

    def layer(k: int) -> Composed:
        at = f"encoder.layer.{k}."
        attention, mlp = encoder_parts(config, get, at, "self")
        return Composed(
            (
                Sublayer(attention, after=norm(get, f"{at}attention.output.LayerNorm")),
                Sublayer(mlp, after=norm(get, f"{at}output.LayerNorm")),
            )
        )

    embedding = Embedding(
        array(get("embeddings.word_embeddings.weight")),
        array(get("embeddings.position_embeddings.weight")),
        array(get("embeddings.token_type_embeddings.weight")[0]),
        norm(get, "embeddings.LayerNorm"),
    )
    return assembled(config, embedding, layer, None, None)


def gpt2(config: Config, tensors: Mapping[str, np.ndarray]) -> Model:
    """GPT-2: norms before, causal, learned positions, matrices that lie the other way."""
    get, H, d = prefixed(tensors, "wte.weight"), number(config, "n_head"), number(config, "n_embd")
    norm = partial(layer_norm, config)

    def layer(k: int) -> Composed:
        at = f"h.{k}."
        fused, bias = get(f"{at}attn.c_attn.weight").T, get(f"{at}attn.c_attn.bias")
        matrices, biases = (part.reshape(3, H, d // H, *part.shape[1:]) for part in (fused, bias))
        output = headed_output(get(f"{at}attn.c_proj.weight").T, H)
        last = array(get(f"{at}attn.c_proj.bias"))
        attention = attention_of(list(map(array, matrices)), output, list(map(array, biases)), last, causal=True)
        mlp = FeedForward(
            array(get(f"{at}mlp.c_fc.weight").T),
            array(get(f"{at}mlp.c_proj.weight").T),
            None,
            array(get(f"{at}mlp.c_fc.bias")),
            array(get(f"{at}mlp.c_proj.bias")),
            act(config, "activation_function"),
        )
        return Composed(
            (Sublayer(attention, before=norm(get, f"{at}ln_1")), Sublayer(mlp, before=norm(get, f"{at}ln_2")))
        )

    embedding = Embedding(array(get("wte.weight")), array(get("wpe.weight")))
    return assembled(config, embedding, layer, norm(get, "ln_f"), array(get("wte.weight")))


def llama(config: Config, tensors: Mapping[str, np.ndarray]) -> Model:
    """Llama, Mistral, Qwen: root mean square norms before, rotary positions, groups of heads, gated perceptrons."""
    get, H = prefixed(tensors, "embed_tokens.weight"), number(config, "num_attention_heads")
    G = number(config, "num_key_value_heads") if config.get("num_key_value_heads") else H
    size = number(config, "head_dim") if config.get("head_dim") else number(config, "hidden_size") // H
    if len(get("layers.0.self_attn.q_proj.weight")) != H * size:
        raise ModelError(f"The queries of the checkpoint are not those of {H} heads of `head_dim` {size}.")
    eps = real(config, 1e-6, "rms_norm_eps")
    rotary = Rotary.of_base(size, rotary_base(config), interleaved=bool(config.get("rotary_interleaved")))

    def norm(name: str) -> RMSNorm:
        return RMSNorm(array(get(f"{name}.weight")), eps)

    def layer(k: int) -> Composed:
        at = f"layers.{k}."
        names = [f"{at}self_attn.{part}_proj" for part in "qkv"]
        own = [
            norm(f"{at}self_attn.{part}_norm") if f"{at}self_attn.{part}_norm.weight" in get else None for part in "qk"
        ]
        attention = linear_attention(
            get, names, f"{at}self_attn.o_proj", H, G, rotary=rotary, causal=True, query_norm=own[0], key_norm=own[1]
        )
        mlp = FeedForward(
            *(array(get(f"{at}mlp.{part}_proj.weight")) for part in ("up", "down", "gate")),
            activation=act(config, "hidden_act"),
        )
        return Composed(
            (
                Sublayer(attention, before=norm(f"{at}input_layernorm")),
                Sublayer(mlp, before=norm(f"{at}post_attention_layernorm")),
            )
        )

    table = array(get("embed_tokens.weight"))
    tied = config.get("tie_word_embeddings", False) or "lm_head.weight" not in tensors
    head = table if tied else array(finite("lm_head.weight", tensors["lm_head.weight"]))
    return assembled(config, Embedding(table), layer, norm("norm"), head)


def bloom(config: Config, tensors: Mapping[str, np.ndarray]) -> Model:
    """BLOOM: norms before, causal, a penalty on distance in place of positions (ALiBi)."""
    get, norm = prefixed(tensors, "word_embeddings.weight"), partial(layer_norm, config)
    H, d = number(config, "n_head"), number(config, "hidden_size")

    def layer(k: int) -> Composed:
        at = f"h.{k}."
        name = f"{at}self_attention.query_key_value"
        fused, bias = get(f"{name}.weight"), get(f"{name}.bias")
        matrices, biases = (part.reshape(H, 3, d // H, *part.shape[1:]).swapaxes(0, 1) for part in (fused, bias))
        output = headed_output(get(f"{at}self_attention.dense.weight"), H)
        last = array(get(f"{at}self_attention.dense.bias"))
        slopes = array(alibi_slopes(H))
        attention = attention_of(
            list(map(array, matrices)), output, list(map(array, biases)), last, slopes=slopes, causal=True
        )
        mlp = perceptron(get, f"{at}mlp.dense_h_to_4h", f"{at}mlp.dense_4h_to_h", jax.nn.gelu)
        return Composed(
            (
                Sublayer(attention, before=norm(get, f"{at}input_layernorm")),
                Sublayer(mlp, before=norm(get, f"{at}post_attention_layernorm")),
            )
        )

    table = array(get("word_embeddings.weight"))
    embedding = Embedding(table, norm=norm(get, "word_embeddings_layernorm"))
    return assembled(config, embedding, layer, norm(get, "ln_f"), table)


def vit(config: Config, tensors: Mapping[str, np.ndarray]) -> Model:
    """Vision transformers: patches of an image as tokens behind one that stands for the class, norms before.

    The table of the embedding has the class and, behind it, one row for each number of a patch.
    """
    get, norm = prefixed(tensors, "embeddings.cls_token"), partial(layer_norm, config)

    def layer(k: int) -> Composed:
        at = f"encoder.layer.{k}."
        attention, mlp = encoder_parts(config, get, at, "attention")
        return Composed(
            (
                Sublayer(attention, before=norm(get, f"{at}layernorm_before")),
                Sublayer(mlp, before=norm(get, f"{at}layernorm_after")),
            )
        )

    kernel = get("embeddings.patch_embeddings.projection.weight")
    table = np.concatenate([get("embeddings.cls_token").reshape(1, -1), kernel.reshape(len(kernel), -1).T])
    positions = get("embeddings.position_embeddings")[0].copy()
    positions[1:] += get("embeddings.patch_embeddings.projection.bias")[None]
    return assembled(
        config, Embedding(array(table), array(positions), patched=True), layer, norm(get, "layernorm"), None
    )


FAMILIES: dict[str, Callable[[Config, Mapping[str, np.ndarray]], Model]] = {
    "bert": bert,
    "gpt2": gpt2,
    "llama": llama,
    "mistral": llama,
    "qwen2": llama,
    "qwen3": llama,
    "bloom": bloom,
    "vit": vit,
}
"""Families of architectures, by the word `model_type` of a configuration."""


def assembled(config: Config, embedding: Embedding, layer: Callable[[int], Composed], norm: Any, head: Any) -> Model:
    """The model of its layers."""
    depth = number(config, "num_hidden_layers", "n_layer")
    name = str(config.get("_name_or_path") or config["model_type"])
    return Model(embedding, Layered([layer(k) for k in range(depth)]), norm, head, name)


def number(config: Config, *names: str) -> int:
    """A size that a configuration must have, under one of several names."""
    for name in names:
        if type(config.get(name)) is int and config[name] > 0:
            return config[name]
    raise ModelError(f"The configuration has no positive whole number `{names[0]}`.")


def real(config: Config, usual: float, *names: str) -> float:
    """A positive number that a configuration may have, under one of several names."""
    found = next((config[name] for name in names if config.get(name) is not None), usual)
    if type(found) not in (int, float) or not 0 < found < 1e30:
        raise ModelError(f"`{names[0]}` of the configuration must be a positive number; got {str(found)[:50]}.")
    return float(found)


def act(config: Config, name: str) -> Callable:
    """The activation that a configuration names."""
    word = config.get(name, "gelu")
    if not isinstance(word, str) or word not in ACTIVATIONS:
        raise ModelError(f"`{name}` {word!r} is not known here; known are {', '.join(ACTIVATIONS)}.")
    return ACTIVATIONS[word]


def rotary_base(config: Config) -> float:
    """The base of rotary frequencies; they are refused where they are rescaled."""
    said = config.get("rope_parameters") or config.get("rope_scaling") or {}
    if not isinstance(said, dict) or said.get("rope_type", said.get("type", "default")) != "default":
        raise ModelError(f"Rotary positions of the kind {said} are not known here; plain ones are.")
    return real({**config, **said}, 10_000.0, "rope_theta")


def layer_norm(config: Config, get: Get, name: str) -> LayerNorm:
    """A layer norm of a checkpoint."""
    eps = real(config, 1e-5, "layer_norm_eps", "layer_norm_epsilon")
    return LayerNorm(array(get(f"{name}.weight")), array(get(f"{name}.bias")), eps)


def perceptron(get: Get, up: str, down: str, activation: Callable) -> FeedForward:
    """A perceptron with biases."""
    found = [array(get(f"{name}.{part}")) for part in ("weight", "bias") for name in (up, down)]
    return FeedForward(found[0], found[1], None, found[2], found[3], activation)


def encoder_parts(config: Config, get: Get, at: str, inner: str) -> tuple[FactoredAttention, FeedForward]:
    """Attention and perceptron of a layer of an encoder, in which all tokens see each other."""
    H = number(config, "num_attention_heads")
    names = [f"{at}attention.{inner}.{part}" for part in ("query", "key", "value")]
    attention = linear_attention(get, names, f"{at}attention.output.dense", H, H)
    return attention, perceptron(get, f"{at}intermediate.dense", f"{at}output.dense", act(config, "hidden_act"))


def linear_attention(get: Get, names: list[str], output: str, H: int, G: int, **options: Any) -> FactoredAttention:
    """Attention of matrices that lie as `(out, in)`: rows of heads one after the other."""
    counts = (H, G, G)
    matrices = [headed(get(f"{name}.weight"), count, name) for name, count in zip(names, counts, strict=True)]
    biases = [
        headed(get(f"{name}.bias"), count, name) if f"{name}.bias" in get else None
        for name, count in zip(names, counts, strict=True)
    ]
    last = array(get(f"{output}.bias")) if f"{output}.bias" in get else None
    return attention_of(matrices, headed_output(get(f"{output}.weight"), H), biases, last, **options)


def attention_of(matrices: list[Any], output: Any, biases: list[Any], last: Any, **options: Any) -> FactoredAttention:
    """Attention of queries, keys and values, with their biases, and of what maps the heads back."""
    query, key, value = matrices
    names = ("query_bias", "key_bias", "value_bias", "output_bias")
    held: dict[str, Any] = dict(zip(names, [*biases, last], strict=True)) | options
    return FactoredAttention(query, key, value, output, **held)


def headed(matrix: np.ndarray, heads: int, name: str) -> jax.Array:
    """Rows `(H k, ...)` as heads `(H, k, ...)`."""
    if len(matrix) % heads:
        raise ModelError(f"{name!r} has {len(matrix)} rows, which {heads} heads do not divide.")
    return array(matrix.reshape(heads, -1, *matrix.shape[1:]))


def headed_output(matrix: np.ndarray, heads: int) -> jax.Array:
    """Columns `(d, H k)` as heads `(H, d, k)`."""
    return array(matrix.reshape(len(matrix), heads, -1).swapaxes(0, 1))


def alibi_slopes(heads: int) -> np.ndarray:
    """The slopes of ALiBi: powers of `2^{-8/m}` for the largest power of two `m` up to `heads`, then odd powers of its root."""
    m = 2 ** int(np.log2(heads))
    first = 2.0 ** (-8.0 / m * np.arange(1, m + 1))
    rest = 2.0 ** (-4.0 / m * np.arange(1, 2 * (heads - m), 2)) if heads > m else np.zeros(0)
    return np.concatenate([first, rest[: heads - m]])


def array(values: np.ndarray) -> jax.Array:
    """Weights in float32."""
    return jnp.asarray(np.asarray(values, np.float32))


keep_all(globals())

"""Many attention heads on the same sequences, by the native kernel: no derivatives of their own.

Heads `(W_Q, W_K, W_V, W_O)` are rows of `points`. `threads` 0 uses every core, and results do not depend on it; `level` limits
the instruction set, -1 takes the best.
"""

import jax
import numpy as np
from jaxtyping import Array, Float


def total(
    points: Float[Array, "n D"],
    weights: Float[Array, " n"],
    tokens: Float[Array, "S T d"],
    *,
    key_dim: int,
    value_dim: int,
    threads: int = 0,
    level: int = -1,
) -> Float[Array, "S T d"]:
    """What weighted causal heads add to each position together."""
    options = {"key_dim": key_dim, "value_dim": value_dim, "threads": threads, "level": level}
    return _call("measureflow_heads", tokens, (points, weights, tokens), options)


def gradient(
    points: Float[Array, "n D"],
    tokens: Float[Array, "S T d"],
    cotangents: Float[Array, "S T d"],
    *,
    key_dim: int,
    value_dim: int,
    threads: int = 0,
    level: int = -1,
) -> Float[Array, "n D"]:
    """The gradient, for each head, of what it computes paired with cotangents."""
    options = {"key_dim": key_dim, "value_dim": value_dim, "threads": threads, "level": level}
    return _call("measureflow_heads_gradient", points, (points, tokens, cotangents), options)


def _call(name: str, like: Array, arguments: tuple[Array, ...], options: dict[str, int]) -> Array:
    call = jax.ffi.ffi_call(name, jax.ShapeDtypeStruct(like.shape, like.dtype), vmap_method="sequential")
    return call(*arguments, **{key: np.int32(value) for key, value in options.items()})

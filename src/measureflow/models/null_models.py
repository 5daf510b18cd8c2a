"""Null models, which show what a number of a trained model is by chance: shuffled tokens, random tokens, random weights.

Random weights have the spectrum of the trained ones: every matrix is turned by a random rotation of the space of tokens, which
keeps all singular values, of queries, keys and values and of the products `K^T Q` and `O V` of each head, but not how they lie to
each other and to the tokens.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from measureflow.fields import FactoredAttention, FeedForward, Layered
from measureflow.models.model import Model
from measureflow.precision import keep_all


def shuffled_tokens(windows: np.ndarray, rng: np.random.Generator, fixed: tuple[int, int] = (0, 0)) -> np.ndarray:
    """The tokens of all windows in one random order; so many at the ends of each window stay where they are."""
    first, last = fixed[0], windows.shape[1] - fixed[1]
    found, inside = windows.copy(), windows[:, first:last]
    mixed = inside.reshape(-1, *inside.shape[2:])[rng.permutation(inside.shape[0] * inside.shape[1])]
    found[:, first:last] = mixed.reshape(inside.shape)
    return found


def random_tokens(
    windows: np.ndarray, rng: np.random.Generator, vocabulary: int, fixed: tuple[int, int] = (0, 0)
) -> np.ndarray:
    """Tokens drawn evenly from a vocabulary, in place of all but those at the ends."""
    first, last = fixed[0], windows.shape[1] - fixed[1]
    found = windows.copy()
    found[:, first:last] = rng.integers(0, vocabulary, found[:, first:last].shape)
    return found


def with_random_weights(model: Model, key: Any) -> Model:
    """The model with random weights of the same spectrum; embedding, norms and biases stay."""
    keys = iter(jax.random.split(key, 8))

    def rotations() -> Float[Array, "L d d"]:
        return jax.random.orthogonal(next(keys), model.dim, (model.depth,), jnp.float32)

    def turned(part: Any) -> Any:
        match part:
            case FactoredAttention():
                into = [jnp.einsum("lhkd,lde->lhke", W, rotations()) for W in (part.query, part.key, part.value)]
                out = jnp.einsum("lde,lhek->lhdk", rotations(), part.output)
                return eqx.tree_at(lambda p: (p.query, p.key, p.value, p.output), part, (*into, out))
            case FeedForward():
                up, down = part.up @ rotations(), rotations() @ part.down
                found = eqx.tree_at(lambda p: (p.up, p.down), part, (up, down))
                return found if part.gate is None else eqx.tree_at(lambda p: p.gate, found, part.gate @ rotations())
        return part

    def blocks(part: Any) -> bool:
        return isinstance(part, FactoredAttention | FeedForward)

    fields = jax.tree.map(turned, model.stack.fields, is_leaf=blocks)
    stack: Layered = eqx.tree_at(lambda stack: stack.fields, model.stack, fields)
    return eqx.tree_at(lambda model: model.stack, model, stack)


keep_all(globals())

"""Attention sees tokens as a measure, so their order and their multiplicity do not matter; a mask breaks this."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from measureflow.fields import Causal, SoftmaxAttention
from measureflow.measures import Particles
from measureflow.spaces import Euclidean
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_least, equal

CLAIM = Claim(
    "Self-attention commutes with permutations and equals the mean-field map at the empirical measure; masked "
    "attention is not equivariant.",
    reference="castin:25",
    where="slide on mean-field attention, part I of the talk",
)

Tokens = Float[Array, "n d"]


def layer(attention: SoftmaxAttention, tokens: Tokens) -> Tokens:
    """The mean-field map at the empirical measure of the tokens."""
    return attention(0.0, tokens, Particles(Euclidean(3), tokens))


def masked_layer(attention: SoftmaxAttention, tokens: Tokens) -> Tokens:
    """Token `i` attends to the tokens up to itself."""
    return Causal(attention)(0.0, tokens, Particles(Euclidean(tokens.shape[1]), tokens))


def matrix_attention(attention: SoftmaxAttention, tokens: Tokens) -> Tokens:
    """Self-attention as it is usually written: a row softmax of the score matrix, times the values."""
    scores = (tokens @ attention.interaction.T) @ tokens.T
    return jax.nn.softmax(scores, axis=1) @ (tokens @ attention.value.T)


@eqx.filter_jit
def differences(attention: SoftmaxAttention, tokens: Tokens, order: Array) -> dict[str, Array]:
    """How much each change of the tokens changes the output, the largest over all coordinates."""
    doubled = jnp.concatenate([tokens, tokens])
    moves = {
        "matrix form": matrix_attention(attention, tokens) - layer(attention, tokens),
        "permuted": layer(attention, tokens[order]) - layer(attention, tokens)[order],
        "duplicated": layer(attention, doubled)[: len(tokens)] - layer(attention, tokens),
        "masked, permuted": masked_layer(attention, tokens[order]) - masked_layer(attention, tokens)[order],
    }
    return {name: jnp.abs(move).max() for name, move in moves.items()}


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Compare one layer on 7 tokens with the same layer on the tokens permuted and doubled."""
    of_tokens, of_A, of_V, of_order = jax.random.split(jax.random.key(seed), 4)
    attention = SoftmaxAttention(jax.random.normal(of_A, (3, 3)), jax.random.normal(of_V, (3, 3)))
    tokens, order = jax.random.normal(of_tokens, (7, 3)), jax.random.permutation(of_order, 7)
    found = differences(attention, tokens, order)
    # The sums run in another order, so they agree to rounding and not to the bit.
    same = [equal(name, 0.0, found[name], 1e-12) for name in ("permuted", "duplicated", "matrix form")]
    return CLAIM.judge(*same, at_least("masked, permuted", 1e-3, found["masked, permuted"]))

"""How steep the attention of a checkpoint is: on the tokens of a text, on as few of them as one likes, and at its worst.

Slopes are spectral norms of Jacobians, by Lanczos steps on products with them. The number of tokens may grow in two ways: as the
text grows, where places grow with it, or as more tokens are taken of the same window, each at its place, so that nothing but the
number changes. The bounds of the theory are about heads without biases and places; one with them is one without, for tokens
`(x, 1)`.
"""

import dataclasses
import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from measureflow.diagnostics import Lipschitz, lipschitz
from measureflow.fields import FactoredAttention
from measureflow.measures import Particles
from measureflow.models.heads import Factors, norms, temptations, tempting_vectors
from measureflow.precision import keep_all
from measureflow.spaces import Euclidean

TOLERANCE = 1e-3
"""The residual of Lanczos steps, relative to the slope."""


def steepness(attention: FactoredAttention, tokens: Float[Array, "n d"]) -> Lipschitz:
    """The largest factor by which attention enlarges a small change of tokens, with its residual."""
    return lipschitz(attention, Particles(Euclidean(tokens.shape[1]), tokens), tolerance=TOLERANCE)


def slopes(cases: Iterable[tuple[FactoredAttention, Float[Array, "n d"]]]) -> list[Lipschitz]:
    """Slopes of several attentions at several clouds, as many at a time as there are cores.

    Each is a chain of small products, for which more than one core is of little use.
    """
    wide = jax.config.read("jax_enable_x64")

    def slope(case: tuple[FactoredAttention, Float[Array, "n d"]]) -> Lipschitz:
        with jax.enable_x64(wide):  # a thread does not inherit what a `with` has set
            return jax.block_until_ready(steepness(*case))

    pool = ThreadPoolExecutor(os.cpu_count())
    try:
        return list(pool.map(slope, cases))
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def masked(attention: FactoredAttention, causal: bool) -> FactoredAttention:
    """The same attention on the past alone, or on all tokens."""
    return dataclasses.replace(attention, causal=causal)


def placed(attention: FactoredAttention, places: np.ndarray) -> FactoredAttention:
    """The same attention for tokens at given places of a text."""
    held = dataclasses.replace(attention, places=jnp.zeros(len(places), attention.query.dtype))
    return eqx.tree_at(lambda one: one.places, held, jnp.asarray(places, attention.query.dtype))


def some_places(n: int, of: int) -> np.ndarray:
    """Places of `n` tokens that are spread evenly over a window, with its first and last."""
    return np.linspace(0, of - 1, n).round().astype(int)


class Worst(NamedTuple):
    """A cloud on which one head is about as steep as it can be, and what it is sure to reach there."""

    head: int
    temptation: float
    """`gamma = max(-l, l/8)` over the real eigenvalues of `A`."""
    gain: float
    """How strongly the head passes on a change of the token that all look at: the norm of `U` across its direction."""
    along: np.ndarray
    """The direction along which tokens lie."""
    places: tuple[float, float]
    """Where on it the first token lies and where all others do, as parts of the radius."""

    def tokens(self, n: int, radius: float) -> np.ndarray:
        """The cloud with `n` tokens in a ball."""
        first, rest = self.places
        return radius * np.outer(np.r_[first, np.full(n - 1, rest)], self.along)


def worst(attention: FactoredAttention) -> Worst:
    """The head that can be tempted most, with the cloud that does it.

    For an eigenvalue `l < 0` of `A` one token at `-R` outweighs all others at `R`, for `l > 0` one at `R` all others at `R/2`.
    All tokens look at it, and follow every move of it across the line with `U` (castin:24).
    """
    (eigenvalues, vectors), each = tempting_vectors(attention), temptations(attention)
    h = int(np.argmax(each))
    heads, u = Factors.of(attention), vectors[h]
    across = heads.value[h] - np.outer(heads.value[h] @ u, u)
    gain = float(np.linalg.norm(np.linalg.qr(heads.output[h], mode="r") @ across, 2))
    return Worst(h, float(each[h]), gain, u, (-1.0, 1.0) if eigenvalues[h] < 0 else (1.0, 0.5))


def bare(attention: FactoredAttention, h: int) -> FactoredAttention:
    """One head without biases and positions, which sees all tokens."""
    one = attention.head(h)
    return FactoredAttention(one.query, one.key, one.value, one.output)


class Reach(NamedTuple):
    """What bounds on slopes are made of, for each head."""

    score: np.ndarray
    """A bound on the norm of `A` for tokens `(x, 1)`, whatever their places."""
    value: np.ndarray
    """The norm of `U`."""
    radius: float
    """The largest norm of a token `(x, 1)`, or of `x` where there are no biases."""


def reach(attention: FactoredAttention, tokens: Float[Array, "*w n d"]) -> Reach | None:
    """What bounds need to hold for attention with its biases and places; None where heads normalise their queries."""
    if attention.query_norm is not None or attention.key_norm is not None:
        return None
    query, key, value, output = (np.asarray(part, np.float64) for part in attention.each())
    radius = float(jnp.linalg.norm(tokens, axis=-1).max())
    if attention.query_bias is not None or attention.key_bias is not None:
        times = len(attention.query) // len(attention.key)
        query = _with_bias(query, attention.query_bias, attention.scale)
        key = _with_bias(key, None if attention.key_bias is None else np.repeat(attention.key_bias, times, axis=0), 1.0)
        radius = float(np.hypot(radius, 1.0))
    if attention.rotary is None:
        score = norms(key.swapaxes(1, 2), query)
    else:  # rotations stand between the factors
        score = np.linalg.norm(query, 2, axis=(1, 2)) * np.linalg.norm(key, 2, axis=(1, 2))
    return Reach(score, norms(output, value), radius)


def _with_bias(matrices: np.ndarray, bias: Array | np.ndarray | None, scale: float) -> np.ndarray:
    column = np.zeros(matrices.shape[:2]) if bias is None else scale * np.asarray(bias, np.float64)
    return np.concatenate([matrices, column[..., None]], -1)


keep_all(globals())

"""What a transformer does to its tokens, layer by layer: how they crowd together, and how sharply heads look at them.

Tokens are looked at by their directions, as on the sphere of the theory. Those that heads dump their attention on (sinks) are
found first and kept out of all averages, since one of them can be a hundred times as long as all others. Arrays have a leading
axis over windows of text, and each window is looked at alone.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from measureflow import checks
from measureflow.diagnostics.spread import rank_of
from measureflow.fields import FactoredAttention
from measureflow.measures import Particles
from measureflow.measures.grouping import linked
from measureflow.precision import keep_all
from measureflow.spaces import Euclidean, Sphere

BINS = 40
"""Bins of the law of overlaps, over [-1, 1]."""

RECEIVED, LONG = 0.1, 5.0
"""A sink gets this part of the attention of those who see it, averaged over heads, or is so many times as long as the median."""

WITNESSES = 4
"""One in so many tokens of a window must see a token before one can tell whether it is a sink: neighbours look at each other."""

BETAS = np.append(0.0, np.geomspace(1e-2, 1e4, 61))
"""Inverse temperatures at which isotropic attention is compared with that of a head."""


class TokenLook(NamedTuple):
    """How tokens are spread, by window."""

    overlap: Float[Array, " w"]
    """The mean cosine between two tokens."""
    histogram: Float[Array, "w bins"]
    """The law of that cosine, as masses of equal bins of [-1, 1]."""
    rank: Float[Array, " w"]
    """The effective rank of the directions."""
    energy: Float[Array, " w"]
    """The interaction energy as a part of its largest value: the mean of `e^{beta(cos - 1)}` over all pairs."""
    size: Float[Array, " w"]
    """The median of the norms."""


class AttentionLook(NamedTuple):
    """How sharply heads look, by window and head."""

    entropy: Float[Array, "w H"]
    """The entropy of attention over its largest value, averaged over the queries: 1 for an even look, 0 for one token."""
    beta: Float[Array, "w H"]
    """The `beta` at which isotropic attention on the same tokens is as sharp; infinite where none is."""
    received: Float[Array, "w n"]
    """The part of its attention that a token gets from the others that see it, averaged over heads."""


def sinks(points: Float[Array, "w n d"], received: Float[Array, "w n"] | None) -> Bool[Array, "w n"]:
    """The tokens that are far longer than the others, or on which heads dump their attention, where that is known."""
    sizes = jnp.linalg.norm(points, axis=-1)
    long = sizes > LONG * jnp.median(sizes, axis=1, keepdims=True)
    return long if received is None else long | (received > RECEIVED)


@eqx.filter_jit
def look_at_tokens(points: Float[Array, "w n d"], kept: Bool[Array, "w n"], beta: Float[Array, ""]) -> TokenLook:
    """How the tokens that are kept are spread, in each window."""
    return jax.lax.map(lambda one: TokenLook(*_tokens(one[0], one[1], beta)), (points, kept))


def _tokens(points: Float[Array, "n d"], kept: Bool[Array, " n"], beta: Float[Array, ""]) -> tuple[Array, ...]:
    sizes = jnp.linalg.norm(points, axis=1)
    rows = points / jnp.maximum(sizes, jnp.finfo(sizes.dtype).tiny)[:, None]
    w = kept.astype(points.dtype) / jnp.maximum(kept.sum(), 1).astype(points.dtype)
    cos = jnp.clip(rows @ rows.T, -1.0, 1.0)
    both = w[:, None] * w[None]
    apart = both * (1 - jnp.eye(len(w), dtype=w.dtype))
    pairs = apart / jnp.maximum(apart.sum(), jnp.finfo(w.dtype).tiny)
    histogram = jnp.histogram(cos, bins=BINS, range=(-1.0, 1.0), weights=pairs)[0]
    root = jnp.sqrt(w)[:, None] * rows
    energy = (both * jnp.exp(beta * (cos - 1))).sum()
    return (
        (pairs * cos).sum(),
        histogram,
        rank_of(root @ root.T),
        energy,
        jnp.nanmedian(jnp.where(kept, sizes, jnp.nan)),
    )


@eqx.filter_jit
def look_at_attention(attention: FactoredAttention, seen: Float[Array, "w n d"]) -> AttentionLook:
    """How sharply each head looks at the tokens that it sees, in each window."""
    return jax.lax.map(lambda xs: AttentionLook(*_attention(attention, xs)), seen)


def _attention(attention: FactoredAttention, xs: Float[Array, "n d"]) -> tuple[Array, Array, Array]:
    n = len(xs)
    visible = jnp.tril(jnp.ones((n, n), bool)) if attention.causal else jnp.ones((n, n), bool)
    P = attention.weights(xs, Particles(Euclidean(xs.shape[1]), xs))
    found = jax.vmap(lambda P: _entropy(P, visible))(P)
    rows = xs / jnp.linalg.norm(xs, axis=1, keepdims=True)
    cos = rows @ rows.T

    def isotropic(beta):
        return _entropy(jax.nn.softmax(jnp.where(visible, beta * cos, -jnp.inf), -1), visible)

    curve = jax.lax.map(isotropic, jnp.asarray(BETAS, xs.dtype))
    others = visible & ~jnp.eye(n, dtype=bool)
    witnesses = others.sum(0)
    received = jnp.where(others, P.mean(0), 0.0).sum(0) / jnp.maximum(witnesses, 1).astype(xs.dtype)
    return found, jax.vmap(lambda e: matched(e, curve))(found), jnp.where(witnesses >= n // WITNESSES, received, 0.0)


def _entropy(P: Float[Array, "n n"], visible: Bool[Array, "n n"]) -> Float[Array, ""]:
    """The mean over queries that see several tokens of the entropy over the logarithm of how many."""
    many = visible.sum(1)
    most = jnp.log(jnp.maximum(many, 2).astype(P.dtype))
    each = -jnp.sum(jnp.where(P > 0, P * jnp.log(jnp.where(P > 0, P, 1.0)), 0.0), axis=1) / most
    return jnp.sum(jnp.where(many > 1, each, 0.0)) / jnp.maximum((many > 1).sum(), 1).astype(P.dtype)


def matched(entropy: Float[Array, ""], curve: Float[Array, " b"]) -> Float[Array, ""]:
    """The `beta` of `BETAS` at which a curve of entropies, which falls, has a value; infinite below its end."""
    betas = jnp.asarray(BETAS, curve.dtype)
    found = jnp.interp(-entropy, -curve, betas)
    return jnp.where(entropy < curve[-1], jnp.inf, found)


def groups(points: np.ndarray, kept: np.ndarray, tolerance: float) -> np.ndarray:
    """For each token of each window the number of its group, linked by hops of at most an angle; -1 for tokens left out."""
    checks.positive("tolerance", tolerance)
    space, labels = Sphere(points.shape[-1]), np.full(kept.shape, -1)
    for one, keep, row in zip(points, kept, labels, strict=True):
        if keep.any():
            rows = one[keep] / np.linalg.norm(one[keep], axis=1, keepdims=True)
            row[keep] = linked(rows, space, tolerance)
    return labels


def between(points: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The largest overlap of two tokens of different groups, in each window; -1 where there is one group alone."""
    rows = points / np.linalg.norm(points, axis=-1, keepdims=True)
    cos = rows @ rows.swapaxes(1, 2)
    there = labels >= 0
    apart = (labels[:, :, None] != labels[:, None]) & there[:, :, None] & there[:, None]
    return np.where(apart, cos, -1.0).max((1, 2))


class Regrouped(NamedTuple):
    """What became of the pairs of tokens from one layer to the next, as parts of all pairs, by window."""

    joined: np.ndarray
    parted: np.ndarray


def regrouped(before: np.ndarray, after: np.ndarray) -> Regrouped:
    """Which part of the pairs came together and which came apart, from labels `(w, n)`; negative ones are left out."""
    there = (before >= 0) & (after >= 0)
    pairs = (there[:, :, None] & there[:, None]) & ~np.eye(before.shape[1], dtype=bool)[None]
    was, now = (labels[:, :, None] == labels[:, None] for labels in (before, after))
    count = np.maximum(pairs.sum((1, 2)), 1)
    return Regrouped((pairs & now & ~was).sum((1, 2)) / count, (pairs & was & ~now).sum((1, 2)) / count)


@eqx.filter_jit
def output_cosines(attention: FactoredAttention, seen: Float[Array, "w n d"]) -> Float[Array, "H H"]:
    """The cosines between what heads add to the tokens, in the mean square over all windows."""

    def products(xs):
        added = attention.by_head(xs, Particles(Euclidean(xs.shape[1]), xs)).reshape(len(attention.query), -1)
        return added @ added.T

    inner = jax.lax.map(products, seen).sum(0)
    size = jnp.sqrt(jnp.diagonal(inner))
    return inner / (size[:, None] * size[None])


@eqx.filter_jit
def discarded(attention: FactoredAttention, seen: Float[Array, "n d"]) -> Float[Array, ""]:
    """The part of what attention adds, in the mean square, that is lost without its biases, positions and norms of heads."""
    plain = FactoredAttention(
        attention.query, attention.key, attention.value, attention.output, causal=attention.causal
    )
    mu = Particles(Euclidean(seen.shape[1]), seen)
    whole, rest = (field(0.0, seen, mu) for field in (attention, plain))
    return jnp.sum((whole - rest) ** 2) / jnp.sum(whole**2)


keep_all(globals())

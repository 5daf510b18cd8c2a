"""The attention of a layer on the tokens that it sees: how sharp each head is, which tokens get attention, and what heads add.

Arrays have a leading axis over windows of text, and each window is computed alone.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from measureflow.fields import FactoredAttention
from measureflow.measures import Particles
from measureflow.models.quantities import InspectedLayer, by_kind, quantity
from measureflow.precision import keep_all
from measureflow.spaces import Euclidean

WITNESSES = 4
"""A token can be a sink only if one in so many tokens of its window see it, because neighbours always look at each other."""

BETAS = np.append(0.0, np.geomspace(1e-2, 1e4, 61))
"""Inverse temperatures at which isotropic attention is compared with that of a head."""


class AttentionStatistics(NamedTuple):
    """How sharp attention is, by window and head."""

    entropy: Float[Array, "w H"]
    """The entropy of attention over its largest value, averaged over queries: 1 if all tokens get the same, 0 if one gets all."""
    beta: Float[Array, "w H"]
    """The `beta` at which isotropic attention on the same tokens is as sharp; infinite where none is."""
    received: Float[Array, "w n"]
    """The part of its attention that a token gets from the others that see it, averaged over heads."""


@eqx.filter_jit
def attention_statistics(attention: FactoredAttention, seen: Float[Array, "w n d"]) -> AttentionStatistics:
    """How sharp the attention of each head is on the tokens that it sees, for each window."""
    return jax.lax.map(lambda xs: AttentionStatistics(*_attention(attention, xs)), seen)


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


def statistics_by_kind(layer: InspectedLayer) -> list[AttentionStatistics]:
    """How sharp attention is on each kind of cloud."""
    return [
        attention_statistics(model.attention(layer.k), seen)
        for model, seen in zip(layer.models, layer.seen, strict=True)
    ]


BY_HEAD = ("kind", "window", "head")
quantity("entropy", BY_HEAD, needs="attention")(by_kind(statistics_by_kind, "entropy"))
quantity("beta", BY_HEAD, needs="attention")(by_kind(statistics_by_kind, "beta"))


@quantity("received", ("window", "place"), needs="attention")
def received_on_text(layer: InspectedLayer) -> Float[Array, "w n"]:
    """The part of attention that each token of the text gets."""
    return layer.once(statistics_by_kind)[0].received


@quantity("output_cosines", ("head", "other"), needs="attention")
def output_cosines_on_text(layer: InspectedLayer) -> Float[Array, "H H"]:
    """The cosines between what heads add to the tokens of the text."""
    return output_cosines(layer.attention, layer.seen[0])


@quantity("radius", needs="attention")
def radius(layer: InspectedLayer) -> float:
    """The largest norm of a token of the text that attention sees."""
    return float(jnp.linalg.norm(layer.seen[0], axis=-1).max())


keep_all(globals())

"""The layers of trained transformers as fields: attention with factored heads, gated perceptrons, residuals and their norms.

A layer of a network is `x <- x + v(x)`, so that a field of this kind is what one layer adds, and `layers` runs a stack of them.
"""

import dataclasses
from collections.abc import Callable
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from measureflow import checks
from measureflow.annotations import Number
from measureflow.fields.base import AbstractField
from measureflow.fields.normalisation import AbstractNorm
from measureflow.measures import AbstractMeasure, Particles


@final
class Rotary(eqx.Module):
    """Positions as rotations: pairs of coordinates turn by the position times their frequency.

    Pairs are neighbours if `interleaved`, and otherwise the first half with the second.
    """

    frequencies: Float[Array, " r"] = eqx.field(converter=checks.floating)
    interleaved: bool = eqx.field(static=True, default=False)

    @staticmethod
    def of_base(size: int, base: float = 10_000.0, *, interleaved: bool = False) -> "Rotary":
        """Frequencies `base^{-2i/size}`, for heads of a size."""
        if size % 2:
            raise ValueError(f"`size` must be even, since coordinates turn in pairs; got {size}.")
        return Rotary(base ** (-jnp.arange(0.0, size, 2) / size), interleaved)

    def __call__(self, heads: Float[Array, "*h n k"], places: Float[Array, " n"]) -> Float[Array, "*h n k"]:
        """Turn the rows of queries or keys, each by its place."""
        n, k = heads.shape[-2:]
        angles = places[:, None] * self.frequencies.astype(heads.dtype)[None]
        lead = (1,) * (heads.ndim - 2)
        cos, sin = (part.reshape(*lead, n, k // 2) for part in (jnp.cos(angles), jnp.sin(angles)))
        if self.interleaved:
            x, y = heads[..., ::2], heads[..., 1::2]
            turned = jnp.stack([x * cos - y * sin, x * sin + y * cos], -1)
            return turned.reshape(heads.shape)
        x, y = heads[..., : k // 2], heads[..., k // 2 :]
        return jnp.concatenate([x * cos - y * sin, x * sin + y * cos], -1)


@final
class FactoredAttention(AbstractField):
    """Attention of several heads as checkpoints hold it: queries and keys by their factors, with biases, positions and a mask.

    `v(x_i) = sum_h O_h sum_j P^h_ij (V_h x_j + c_h) + o`, with `P^h` the softmax over `j` of
    `s <R_i (Q_h x_i + a_h), R_j (K_h x_j + b_h)>`. Heads of queries come in equal groups, one for each head of keys and values.
    Rows of `query` `(H, k, d)`, `key` `(G, k, d)`, `value` `(G, k, d)` and `output` `(H, d, k)` are heads. It is evaluated at the
    tokens, whose order are their places unless `places` are given: those of some tokens of a longer text, in order.

    >>> mu, one = mf.Particles(mf.Euclidean(2), np.eye(2)), np.eye(2)[None]
    >>> mf.fields.FactoredAttention(np.sqrt(2) * one, one, one, one)(0.0, mu.points, mu).round(3).tolist()
    [[0.731, 0.269], [0.269, 0.731]]
    """

    query: Float[Array, "H k d"] = eqx.field(converter=checks.floating)
    key: Float[Array, "G k d"] = eqx.field(converter=checks.floating)
    value: Float[Array, "G k d"] = eqx.field(converter=checks.floating)
    output: Float[Array, "H d k"] = eqx.field(converter=checks.floating)
    query_bias: Float[Array, "H k"] | None = None
    key_bias: Float[Array, "G k"] | None = None
    value_bias: Float[Array, "G k"] | None = None
    output_bias: Float[Array, " d"] | None = None
    query_norm: AbstractNorm | None = None
    key_norm: AbstractNorm | None = None
    rotary: Rotary | None = None
    slopes: Float[Array, " H"] | None = None
    places: Float[Array, " n"] | None = None
    causal: bool = eqx.field(static=True, default=False)

    def __check_init__(self):
        H, k, d = self.query.shape
        checks.shaped("key", self.key, ("G", k, d), "Keys are compared with queries.")
        checks.shaped("value", self.value, (len(self.key), "k", d), "There is one for each head of keys.")
        checks.shaped("output", self.output, (H, "d", self.value.shape[1]), "It maps the heads back.")
        if H % len(self.key):
            raise ValueError(f"`query` has {H} heads, which is no multiple of the {len(self.key)} of `key`.")

    @property
    def scale(self) -> float:
        """The factor of scores: one over the root of the size of a head."""
        return self.query.shape[1] ** -0.5

    def each(self) -> tuple[Float[Array, "H k d"], Float[Array, "H k d"], Float[Array, "H k d"], Float[Array, "H d k"]]:
        """Queries with the factor of scores, keys, values and outputs of every head, those of a group repeated.

        Without biases and positions head `h` has scores `<A x, y>` with `A = key[h]^T query[h]`, and moves tokens by
        `output[h] value[h]`.
        """
        times = len(self.query) // len(self.key)
        key, value = (jnp.repeat(part, times, axis=0) for part in (self.key, self.value))
        return self.scale * self.query, key, value, self.output

    def head(self, h: Int[Array, ""] | int) -> "FactoredAttention":
        """One head alone, without the bias of the output."""
        group = h // (len(self.query) // len(self.key))

        def row(part: Array | None, which: Int[Array, ""] | int) -> Array | None:
            return None if part is None else part[which][None]

        own = {name: row(getattr(self, name), h) for name in ("query", "output", "query_bias", "slopes")}
        shared = {name: row(getattr(self, name), group) for name in ("key", "value", "key_bias", "value_bias")}
        return dataclasses.replace(self, **own, **shared, output_bias=None)

    def scores(self, xs: Float[Array, "n d"]) -> Float[Array, "H n n"]:
        """What softmax is taken of, before the mask."""
        q = _headed(self.query, self.query_bias, self.query_norm, xs)
        k = _headed(self.key, self.key_bias, self.key_norm, xs)
        places = jnp.arange(len(xs), dtype=xs.dtype) if self.places is None else self.places.astype(xs.dtype)
        checks.shaped("places", places, (len(xs),), "There is one for each token.")
        if self.rotary is not None:
            q, k = self.rotary(q, places), self.rotary(k, places)
        grouped = q.reshape(len(k), -1, *q.shape[1:])
        found = self.scale * jnp.einsum("grnk,gmk->grnm", grouped, k).reshape(len(q), len(xs), len(xs))
        if self.slopes is None:
            return found
        return found - self.slopes[:, None, None] * jnp.abs(places[:, None] - places[None])[None]

    def weights(self, xs: Float[Array, "n d"], mu: AbstractMeasure) -> Float[Array, "H n n"]:
        """How much each token looks at each other, by head."""
        tokens = _tokens(mu)
        found = self.scores(xs) + tokens.log_weights.astype(xs.dtype)[None, None]
        if self.causal:
            found = jnp.where(jnp.tril(jnp.ones((len(xs), len(xs)), bool))[None], found, -jnp.inf)
        return jax.nn.softmax(found, -1)

    def by_head(self, xs: Float[Array, "n d"], mu: AbstractMeasure) -> Float[Array, "H n d"]:
        """What each head adds to each token; they and `output_bias` add up to the field."""
        return jnp.einsum("hnk,hdk->hnd", self._seen(xs, mu), self.output)

    def _seen(self, xs: Float[Array, "n d"], mu: AbstractMeasure) -> Float[Array, "H n k"]:
        """The values that each head sees, averaged by its weights."""
        v = _headed(self.value, self.value_bias, None, xs)
        P = self.weights(xs, mu).reshape(len(v), -1, len(xs), len(xs))
        return jnp.einsum("grnm,gmk->grnk", P, v).reshape(len(self.query), len(xs), -1)

    def __call__(self, t: Number, xs: Float[Array, "m d"], mu: AbstractMeasure) -> Float[Array, "m d"]:
        """The sum over the heads."""
        checks.shaped("xs", xs, _tokens(mu).points.shape, "It is evaluated at the tokens, whose places it knows.")
        summed = jnp.einsum("hnk,hdk->nd", self._seen(xs, mu), self.output)
        return summed if self.output_bias is None else summed + self.output_bias[None]


def _headed(matrices: Array, bias: Array | None, norm: AbstractNorm | None, xs: Array) -> Float[Array, "h n k"]:
    found = jnp.einsum("hkd,nd->hnk", matrices, xs)
    if bias is not None:
        found = found + bias[:, None]
    return found if norm is None else jax.vmap(jax.vmap(norm))(found)


def _tokens(mu: AbstractMeasure) -> Particles:
    if not isinstance(mu, Particles):
        raise TypeError(
            f"`FactoredAttention` needs `Particles`, in the order of their places; got {type(mu).__name__}."
        )
    return mu


@final
class FeedForward(AbstractField):
    """The perceptron of a layer, gated or not: `v(x) = D s(U x + b) + c`, or `D (s(G x) * (U x))`."""

    up: Float[Array, "h d"] = eqx.field(converter=checks.floating)
    down: Float[Array, "d h"] = eqx.field(converter=checks.floating)
    gate: Float[Array, "h d"] | None = None
    up_bias: Float[Array, " h"] | None = None
    down_bias: Float[Array, " d"] | None = None
    activation: Callable[[Array], Array] = eqx.field(static=True, default=jax.nn.gelu)

    def __check_init__(self):
        h, d = self.up.shape
        checks.shaped("down", self.down, (d, h), "It maps the hidden units back to tokens.")

    def __call__(self, t: Number, xs: Float[Array, "m d"], mu: AbstractMeasure) -> Float[Array, "m d"]:
        """The velocity of each token alone."""
        hidden = xs @ self.up.T
        if self.up_bias is not None:
            hidden = hidden + self.up_bias[None]
        hidden = self.activation(hidden) if self.gate is None else self.activation(xs @ self.gate.T) * hidden
        found = hidden @ self.down.T
        return found if self.down_bias is None else found + self.down_bias[None]


@final
class Sublayer(AbstractField):
    """A field with its residual and norms, as one step of a layer: `x <- after(x + field(before(x)))`.

    The field sees the measure of the normalised tokens. Without `after` it adds `field(before(x))`.
    """

    field: AbstractField
    before: AbstractNorm | None = None
    after: AbstractNorm | None = None

    def __call__(self, t: Number, xs: Float[Array, "m d"], mu: AbstractMeasure) -> Float[Array, "m d"]:
        """What the step adds."""
        tokens = _tokens(mu)
        seen = xs if self.before is None else jax.vmap(self.before)(xs)
        v = self.field(t, seen, _moved(tokens, seen))
        return v if self.after is None else jax.vmap(self.after)(xs + v) - xs


@final
class Composed(AbstractField):
    """Fields one after the other in one layer: each moves the tokens that the one before it left."""

    steps: tuple[AbstractField, ...]

    def __call__(self, t: Number, xs: Float[Array, "m d"], mu: AbstractMeasure) -> Float[Array, "m d"]:
        """What all of them add."""
        tokens, at = _tokens(mu), xs
        for step in self.steps:
            at = at + step(t, at, _moved(tokens, at))
        return at - xs


def _moved(mu: Particles, points: Float[Array, "n d"]) -> Particles:
    return eqx.tree_at(lambda mu: mu.points, mu, points)

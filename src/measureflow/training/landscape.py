"""Proved best responses: branch and bound over few coordinates, once the best output is taken.

A landscape is `-min Psi` over outputs as a function of the other coordinates, with roofs over boxes. For attention heads, it is
a gauge of `sum_r E_A[v]` over rows `r`, where the softmax `A` has the scores `f p`, linear in the coordinates `p`. From `p` to
`p + d` the scores change by `s`, of mean zero under `A`, and the weights become `A (1 + s + psi) / Z` with `psi = e^s - 1 - s >=
0` and `Z = E e^s = 1 + E psi`. So the mean of `v` moves by `Cov(v, s) + (1 - 1/Z) (c - Cov(v, s))`, with `c` in the hull of the
centred `v`. The second part is of second order, small where attention is sharp, never more than the hull; and `log Z` is convex,
so that it is largest at a corner of a box. Roundings, some 1e-12 of the size of `-Psi`, are met by a margin and not by interval
arithmetic.
"""

import abc
from typing import NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from measureflow.annotations import Numbers
from measureflow.precision import keep_all

HIDDEN = -1e30
"""The score of a token that may not be seen; finite, so that second derivatives have no infinity minus infinity."""

PARAMETERS = 4
"""The most score parameters that are searched exhaustively."""

TURNS = np.array([[[1, 0], [0, 1]], [[0, -1], [1, 0]], [[1, 0], [0, -1]], [[0, 1], [1, 0]]], float)
"""A basis of the plane's matrices, turns and reflections: `z -> w z + w' conj(z)` has the singular values `||w| ± |w'||`."""

FAR = 20.0
"""Changes of scores beyond which all weight counts as moved; four such factors are finite in float32 too."""

Point = Float[Array, " k"]


class AbstractLandscape(eqx.Module):
    """The height `-min Psi` over the outputs of particles, as a function of few other coordinates in balls.

    Coordinates `k` with `member[b, k] = 1` lie in the ball `b`.
    """

    member: eqx.AbstractVar[Float[Array, "b k"]]
    radii: eqx.AbstractVar[Float[Array, " b"]]

    @abc.abstractmethod
    def height(self, p: Point) -> Float[Array, ""]:
        """The value at a point."""

    @abc.abstractmethod
    def project(self, p: Point) -> Point:
        """A point of the set that is near to a given one."""

    @abc.abstractmethod
    def roof(self, p: Point, h: Point) -> Float[Array, ""]:
        """An upper bound of the height in the part of the box `p ± h` in the set, minus infinity if there is none."""

    @abc.abstractmethod
    def margin(self) -> Float[Array, ""]:
        """More than the roundings of a bound: ten thousand units in the last place of the largest height."""

    @property
    @abc.abstractmethod
    def numbers(self) -> int:
        """How many numbers the roof of one box needs."""


@final
class AttentionLandscape(AbstractLandscape):
    """The landscape of heads over their few score coordinates.

    If `tied` there are two balls, and only points whose parts
    are equally long belong to the set: the matrices of rank one.
    """

    member: Float[Array, "b k"]
    radii: Float[Array, " b"]
    features: Float[Array, "r u k"]
    values: Float[Array, "r u m"]
    seen: Bool[Array, "r u"]
    tied: bool = eqx.field(static=True)

    def height(self, p: Point) -> Float[Array, ""]:
        """The value at a point."""
        return _gauge(jnp.einsum("ru,rum->m", self._weights(p), self.values))

    def project(self, p: Point) -> Point:
        """A point of the set that is near to a given one."""
        norms = jnp.sqrt(self.member @ p**2)
        wanted = jnp.minimum(jnp.broadcast_to(norms.min(), norms.shape) if self.tied else norms, self.radii)
        return p * ((wanted / jnp.where(norms > 0, norms, 1.0)) @ self.member)

    def roof(self, p: Point, h: Point) -> Float[Array, ""]:
        """An upper bound of the height in the part of the box `p ± h` in the set, minus infinity if there is none."""
        A = self._weights(p)
        f, v = (self._centred(A, part) for part in (self.features, self.values))
        cov = jnp.sum((A[..., None] * f)[..., None] * v[:, :, None], 1)
        curved = _curved(A, f * h[None, None], _gauge(v).max(-1) + _size(cov) @ h)
        slope, bend = _tangent(jnp.einsum("ru,rum->m", A, self.values), cov.sum(0), h)
        roof = self.height(p) + self._rise(p, h, slope) + bend + curved
        return jnp.where(self._meets(p, h), roof, -jnp.inf)

    def margin(self) -> Float[Array, ""]:
        """More than the roundings of a bound: ten thousand units in the last place of the largest height."""
        return 1e4 * jnp.finfo(self.values.dtype).eps * _size(self.values).max(-1).sum()

    @property
    def numbers(self) -> int:
        """Every pair of positions at every corner of a box."""
        r, u, k = self.features.shape
        return r * u * 2**k

    @classmethod
    def of(
        cls,
        tokens: Float[Array, "S T d"],
        basis: Numbers,
        values: Float[Array, "S T U m"],
        member: np.ndarray,
        radius: Array,
        *,
        tied: bool = False,
    ) -> "AttentionLandscape":
        """That of scores `sum_k p_k x_t^T B_k x_u` and what is averaged with them, in balls of one radius."""
        S, T, _ = tokens.shape
        features = jnp.einsum("sta,kab,sub->stuk", tokens, jnp.asarray(basis, tokens.dtype), tokens)
        return cls(
            features=features.reshape(S * T, T, -1),
            values=values.reshape(S * T, T, -1),
            seen=jnp.asarray(np.tile(np.tri(T, dtype=bool), (S, 1))),
            member=jnp.asarray(member, tokens.dtype),
            radii=jnp.full(len(member), radius, tokens.dtype),
            tied=tied,
        )

    def _weights(self, p: Point) -> Float[Array, "r u"]:
        return jax.nn.softmax(jnp.where(self.seen, self.features @ p, HIDDEN))

    def _centred(self, A: Float[Array, "r u"], part: Float[Array, "r u n"]) -> Float[Array, "r u n"]:
        return jnp.where(self.seen[..., None], part - jnp.einsum("ru,run->rn", A, part)[:, None], 0.0)

    def _rise(self, p: Point, h: Point, slope: Point) -> Float[Array, ""]:
        """A bound of `<slope, d>` over the part of a box in the set, by Lagrange multipliers.

        In the set `<slope, d> <= sum_b (<slope_b, d_b> + m_b (radius_b^2 - |p_b + d_b|^2))` for all `m >= 0`, or of sum `>= 0`
        if tied. Every choice gives a bound; good ones vanish inside a ball and match its normal at the edge.
        """
        normal = (self.member @ (slope * p)) / (2 * self.member @ (p**2 + h**2))

        def bound(multipliers):
            m = multipliers @ self.member
            inner = jnp.clip(jnp.where(m > 0, slope / (2 * jnp.where(m > 0, m, 1.0)) - p, 0.0), -h, h)
            tops = jnp.stack([slope * d - m * (p + d) ** 2 for d in (-h, h, inner)]).max(0)
            return self.member @ tops + multipliers * self.radii**2

        if self.tied:
            balanced = normal - normal.mean()
            choices = (0 * normal, balanced, balanced + jnp.maximum(normal.mean(), 0.0))
            return jnp.stack([bound(choice).sum() for choice in choices]).min()
        return jnp.minimum(bound(0 * normal), bound(jnp.maximum(normal, 0.0))).sum()

    def _meets(self, p: Point, h: Point) -> Bool[Array, ""]:
        low, high = (self.member @ side**2 for side in (jnp.maximum(jnp.abs(p) - h, 0.0), jnp.abs(p) + h))
        inside = (low <= self.radii**2).all()
        return inside & (low.max() <= high.min()) if self.tied else inside


def _gauge(x: Float[Array, "*n m"]) -> Float[Array, "*n"]:
    """The number itself, or the operator norm of a matrix of the plane from its coordinates in `TURNS`."""
    return x[..., 0] if x.shape[-1] == 1 else _lengths(x).sum(-1)


def _size(x: Float[Array, "*n m"]) -> Float[Array, "*n"]:
    return jnp.maximum(_gauge(x), _gauge(-x))


def _lengths(x: Float[Array, "*n 4"]) -> Float[Array, "*n 2"]:
    return jnp.linalg.norm(x.reshape(*x.shape[:-1], 2, 2), axis=-1)


def _curved(A: Float[Array, "r u"], s: Float[Array, "r u k"], reach: Float[Array, " r"]) -> Float[Array, ""]:
    """The largest `sum_r (1 - 1/Z_r) reach_r` over a box with corners `Z = E e^{±s_1 ± ... ± s_k}`.

    Each row is at its own worst corner; or all are at one, because `1 - 1/Z <= log Z`, which is convex.
    """
    steps, Z = jnp.exp(jnp.clip(s, -FAR, FAR)), A[..., None]
    for k in range(s.shape[-1]):
        Z = jnp.concatenate([Z * steps[..., k : k + 1], Z / steps[..., k : k + 1]], -1)
    Z, far = Z.sum(1), jnp.abs(s).sum(-1).max(-1) > FAR
    apart, together = jnp.where(far, 1.0, 1 - 1 / Z.max(-1)) @ reach, (reach @ jnp.log(Z)).max()
    return jnp.where(far.any(), apart, jnp.minimum(apart, together))


def _tangent(at: Float[Array, " m"], step: Float[Array, "k m"], h: Point) -> tuple[Point, Float[Array, ""]]:
    """The slope of the gauge along steps, and how far it can leave its tangent in the box `± h`.

    `|w + z| - |w| - <w, z> / |w|` is at most `|z|^2 / (2 |w|)` for `|z| <= 2 |w|` and `2 (|z| - |w|)` beyond.
    """
    if len(at) == 1:
        return step[:, 0], jnp.zeros((), at.dtype)
    w, z = _lengths(at), h @ _lengths(step)
    safe = jnp.where(w > 0, w, 1.0)
    bend = jnp.where(z <= 2 * w, z**2 / (2 * safe), 2 * (z - w)).sum()
    return step @ (at / jnp.repeat(safe, 2)), bend


class Enclosure(NamedTuple):
    """What branch and bound found: `value <= max height <= upper`, the point of that value if it found one, and its work."""

    point: np.ndarray | None
    value: float
    upper: float
    boxes: int


NUMBERS = 2**19
"""Numbers that the corners of one batch of boxes may hold: 4 MiB in float64, which stay in a cache."""


def enclose(heights: AbstractLandscape, value: float, tolerance: float, limit: int) -> Enclosure:
    """Halve boxes until none can hold a height more than `tolerance` above the best, or `limit` boxes were looked at.

    `value` is a height that is known to be reached. Each round also tries the middle of the most promising box.
    """
    point, settled, boxes = None, -np.inf, 0
    h = np.asarray(heights.radii @ heights.member)[None]
    p, roofs = np.zeros_like(h), np.array([np.inf])
    while len(p):
        roofs, boxes = np.minimum(roofs, _roofs(heights, p, h)), boxes + len(p)
        trial, height = _try(heights, jnp.asarray(p[np.argmax(roofs)]))
        if height > value:
            point, value = np.asarray(trial), float(height)
        live = ~(roofs <= value + tolerance)
        settled = max(settled, roofs[~live].max(initial=-np.inf))
        p, h, roofs = p[live], h[live], roofs[live]
        if boxes + 2 * len(p) > limit:
            break
        p, h, roofs = _halved(p, h, roofs)
    upper = float(max(value, settled, roofs.max(initial=-np.inf)) + heights.margin())
    return Enclosure(point, value, upper, boxes)


def _halved(p: np.ndarray, h: np.ndarray, roofs: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Both halves of each box, cut across its widest side."""
    cut = h * np.eye(h.shape[1])[h.argmax(1)] / 2
    return np.concatenate([p - cut, p + cut]), np.concatenate([h - cut, h - cut]), np.concatenate([roofs, roofs])


def _roofs(heights: AbstractLandscape, p: np.ndarray, h: np.ndarray) -> np.ndarray:
    """The bounds of all boxes, in batches of one size so that they compile once."""
    size, count = max(1, NUMBERS // heights.numbers), len(p)
    p, h = (np.pad(side, ((0, -count % size), (0, 0))) for side in (p, h))
    batches = [slice(start, start + size) for start in range(0, count, size)]
    return np.concatenate([_batch_roofs(heights, jnp.asarray(p[b]), jnp.asarray(h[b])) for b in batches])[:count]


@eqx.filter_jit
def _batch_roofs(heights: AbstractLandscape, p: Float[Array, "n k"], h: Float[Array, "n k"]) -> Float[Array, " n"]:
    return jax.vmap(heights.roof)(p, h)


@eqx.filter_jit
def _try(heights: AbstractLandscape, p: Point) -> tuple[Point, Float[Array, ""]]:
    point = heights.project(p)
    return point, heights.height(point)


keep_all(globals())

"""How the tokens of a transformer are spread at a depth: their overlaps, effective rank, energy, sinks and groups.

Tokens are compared by their directions, as on the sphere of the theory. Sinks, the tokens that heads dump their attention on, are
found first and left out of all averages, since one of them can be a hundred times as long as all others. Arrays have a leading
axis over windows of text, and each window is computed alone.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from measureflow import checks
from measureflow.diagnostics import hemisphere
from measureflow.diagnostics.spread import rank_of
from measureflow.measures import Particles
from measureflow.measures.grouping import linked
from measureflow.models.attention_maps import statistics_by_kind as attention_by_kind
from measureflow.models.quantities import KINDS, InspectedLayer, by_kind, dimension, quantity, text_mean
from measureflow.precision import keep_all
from measureflow.spaces import Euclidean, Sphere

BINS = 40
"""Bins of the law of overlaps, over [-1, 1]."""

RECEIVED = 0.1
"""A token is a sink if it gets more than this part of the attention of those who see it, averaged over heads."""

LONG = 5.0
"""A token is also a sink if it is so many times as long as the median."""


class TokenStatistics(NamedTuple):
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


def sinks(points: Float[Array, "w n d"], received: Float[Array, "w n"] | None) -> Bool[Array, "w n"]:
    """Whether each token is a sink: far longer than the others, or one that gets much attention, where `received` is known."""
    sizes = jnp.linalg.norm(points, axis=-1)
    long = sizes > LONG * jnp.median(sizes, axis=1, keepdims=True)
    return long if received is None else long | (received > RECEIVED)


@eqx.filter_jit
def token_statistics(
    points: Float[Array, "w n d"], kept: Bool[Array, "w n"], beta: Float[Array, ""]
) -> TokenStatistics:
    """How the tokens that are kept are spread, for each window."""
    return jax.lax.map(lambda one: TokenStatistics(*_tokens(one[0], one[1], beta)), (points, kept))


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


dimension("bin", BINS)
BY_WINDOW = ("kind", "window")


def kept_by_kind(layer: InspectedLayer) -> list[Bool[Array, "w n"]]:
    """The tokens of each kind of cloud that are no sinks; behind the last layer there is no attention to tell them by."""
    attention = layer.once(attention_by_kind) if layer.has("attention") else [None] * len(KINDS)
    received = [None if one is None else one.received for one in attention]
    return [~sinks(cloud, got) for cloud, got in zip(layer.clouds, received, strict=True)]


def statistics_by_kind(layer: InspectedLayer) -> list[TokenStatistics]:
    """How the tokens of each kind of cloud are spread."""
    beta = jnp.asarray(layer.inspection.beta, layer.clouds.dtype)
    kept = layer.once(kept_by_kind)
    return [token_statistics(cloud, keep, beta) for cloud, keep in zip(layer.clouds, kept, strict=True)]


def labels_by_kind(layer: InspectedLayer) -> list[np.ndarray]:
    """The groups of the tokens of each kind of cloud."""
    pairs = zip(np.asarray(layer.clouds), layer.once(kept_by_kind), strict=True)
    return [groups(cloud, np.asarray(keep), layer.inspection.tolerance) for cloud, keep in pairs]


quantity("overlap", BY_WINDOW, label="overlap")(by_kind(statistics_by_kind, "overlap"))
quantity("overlap_law", (*BY_WINDOW, "bin"))(by_kind(statistics_by_kind, "histogram"))
quantity("effective_rank", BY_WINDOW, label="effective rank")(by_kind(statistics_by_kind, "rank"))
quantity("size", BY_WINDOW)(by_kind(statistics_by_kind, "size"))


@quantity("groups", BY_WINDOW, label="groups")
def group_counts(layer: InspectedLayer) -> np.ndarray:
    """The number of groups."""
    return np.stack([labels.max(1) + 1 for labels in layer.once(labels_by_kind)])


quantity("energy", BY_WINDOW, label="energy")(by_kind(statistics_by_kind, "energy"))


@quantity("labels", ("window", "place"))
def text_labels(layer: InspectedLayer) -> np.ndarray:
    """The group of each token of the text."""
    return layer.once(labels_by_kind)[0]


@quantity("sink", ("window", "place"))
def text_sinks(layer: InspectedLayer) -> np.ndarray:
    """Whether each token of the text is a sink."""
    return ~np.asarray(layer.once(kept_by_kind)[0])


@quantity("between", ("window",))
def overlap_between_groups(layer: InspectedLayer) -> np.ndarray:
    """The largest overlap of two tokens of the text in different groups."""
    return between(np.asarray(layer.clouds[0]), layer.once(labels_by_kind)[0])


@quantity("hemisphere", ("window",))
def hemisphere_margins(layer: InspectedLayer) -> list[float]:
    """The margin by which a half space holds the tokens of the text that are no sinks; not above zero where none does."""
    rows = zip(np.asarray(layer.clouds[0]), np.asarray(layer.once(kept_by_kind)[0]), strict=True)
    return [_margin(cloud[keep]) if keep.any() else np.nan for cloud, keep in rows]


def _margin(points: np.ndarray) -> float:
    return hemisphere(Particles(Euclidean(points.shape[1]), points)).margin


def _watched(name: str, of: str, label: str, telling: bool = False) -> None:
    """Declare the mean of a quantity over the windows of the text as a series."""
    quantity(name, label=label, format=".4g", watched=True, telling=telling)(text_mean(of))


_watched("mean_overlap", "overlap", "mean overlap", telling=True)
_watched("mean_effective_rank", "effective_rank", "effective rank")
_watched("mean_groups", "groups", "groups within {tolerance:g} rad")
_watched("mean_energy", "energy", "energy, part of its largest")


keep_all(globals())

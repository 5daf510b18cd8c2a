"""The matrices of the heads of a checkpoint: their norms, spectra and angles, which do not depend on the basis of a head.

A head acts by `A = K^T Q` (with the factor of scores) and `U = O V` alone; rotations between these factors change neither. Both
are `d x d` of rank `k`, and are never formed: inner products, spectra and norms come from matrices of the size of a head.
Everything is computed on the host, in float64 but for the cosines between all heads of a model.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from measureflow.fields import FactoredAttention
from measureflow.models.quantities import InspectedLayer, quantity
from measureflow.precision import keep_all

SIMPLE = 1e-6
"""An eigenvalue leads if all others are smaller by more than this part of it."""


class Factors(NamedTuple):
    """The factors of several heads: `A = key^T query` and `U = output value`."""

    query: np.ndarray
    key: np.ndarray
    value: np.ndarray
    output: np.ndarray

    @classmethod
    def of(cls, attention: FactoredAttention) -> "Factors":
        """Those of a layer, without biases and positions."""
        return cls(*(np.asarray(part, np.float64) for part in attention.each()))

    def products(self) -> "tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]":
        """`A` and `U` as pairs of factors `(h, d, k)` and `(h, k, d)`."""
        return (self.key.swapaxes(1, 2), self.query), (self.output, self.value)


class HeadStatistics(NamedTuple):
    """What theory asks of heads, one number each."""

    score_norm: np.ndarray
    """The spectral norm of `A`."""
    value_norm: np.ndarray
    """The spectral norm of `U`."""
    symmetric: np.ndarray
    """The part of `A` that is symmetric: 1 for symmetric, 1/2 for random and 0 for antisymmetric matrices."""
    lowest: np.ndarray
    """The least real eigenvalue of `A`, not above zero, which it has beside those of its factors."""
    highest: np.ndarray
    """The largest real one, not below zero."""
    lead: np.ndarray
    """The eigenvalue of `U` of largest modulus, if it is real, simple and positive; else NaN."""
    lead_score: np.ndarray
    """`<A phi, phi>` for its eigenvector of norm one; NaN without one."""
    aligned: np.ndarray
    """The cosine between `U` and `A`: 1 where velocities are those of an energy (with `A` symmetric)."""
    like_identity: np.ndarray
    """The cosine between `U` and the identity."""
    query_defect: np.ndarray
    """`|Q Q^T - K K^T| / (|Q Q^T| + |K K^T|)`, conserved by gradient flow; a group shares its keys."""
    value_defect: np.ndarray
    """The same of `V V^T` and `O^T O`."""

    @property
    def good_triple(self) -> np.ndarray:
        """Whether the value has a leading eigenvalue that is real, simple and positive, with a positive score of its vector."""
        return np.nan_to_num(self.lead_score) > 0


def head_statistics(attention: FactoredAttention) -> HeadStatistics:
    """What theory asks of the heads of a layer."""
    heads = Factors.of(attention)
    score, value = heads.products()
    small = [_small(*score), _small(*value)]
    real = [np.where(e.imag == 0, e.real, 0.0) for e in np.linalg.eigvals(small[0])]
    square, trace = _inner(score, score), np.einsum("hij,hji->h", small[0], small[0])
    lead, direction = _leading(small[1], heads.output)
    sizes = np.sqrt(square * _inner(value, value))
    return HeadStatistics(
        score_norm=norms(*score),
        value_norm=norms(*value),
        symmetric=(1 + trace / square) / 2,
        lowest=np.array([min(row.min(), 0.0) for row in real]),
        highest=np.array([max(row.max(), 0.0) for row in real]),
        lead=lead,
        lead_score=np.einsum("hd,hdk,hke,he->h", direction, *score, direction),
        aligned=_inner(score, value) / sizes,
        like_identity=np.trace(small[1], axis1=1, axis2=2) / np.sqrt(heads.query.shape[2] * _inner(value, value)),
        query_defect=_defects(*_grouped(attention)),
        value_defect=_value_defects(attention),
    )


def tempting_vectors(attention: FactoredAttention) -> tuple[np.ndarray, np.ndarray]:
    """For each head the real eigenvalue `l` of `A` with the largest `max(-l, l/8)`, and its vector of norm one."""
    heads = Factors.of(attention)
    score, _ = heads.products()
    values, vectors = np.linalg.eig(_small(*score))
    real = np.where(np.imag(values) == 0, np.real(values), 0.0)  # complex ones come in exact pairs
    best = np.argmax(np.maximum(-real, real / 8), axis=1)
    along = np.einsum("hdk,hk->hd", score[0], np.take_along_axis(np.real(vectors), best[:, None, None], 2)[..., 0])
    return np.take_along_axis(real, best[:, None], 1)[:, 0], along / np.linalg.norm(along, axis=1, keepdims=True)


def temptations(attention: FactoredAttention) -> np.ndarray:
    """`gamma = max(-l, l/8)` over the real eigenvalues `l` of `A`, for each head: how strongly scores draw all tokens to one."""
    eigenvalues, _ = tempting_vectors(attention)
    return np.maximum(-eigenvalues, eigenvalues / 8)


def head_cosines(attentions: list[FactoredAttention]) -> np.ndarray:
    """The cosines between all heads of several layers: the mean of those of their `A` and of their `U`.

    Heads that do the same have the cosine 1, heads that have nothing to do with each other about 0.
    """
    parts = [Factors(*(np.asarray(part, np.float32) for part in one.each())) for one in attentions]
    return (_cosines([one.products()[0] for one in parts]) + _cosines([one.products()[1] for one in parts])) / 2


def effective_head_count(cosines: np.ndarray) -> float:
    """The effective number of different heads: the exponential of the entropy of the spectrum of their cosines.

    Heads at right angles count one each, and copies of one head count as one.
    """
    values = np.maximum(np.linalg.eigvalsh(cosines), 0.0)
    parts = values[values > 0] / values.sum()
    return float(np.exp(-(parts * np.log(parts)).sum()))


def _small(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """`R L` of the size of a head, with the eigenvalues of `L R` but for zeros."""
    return np.einsum("hkd,hdl->hkl", right, left)


def norms(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The spectral norms of `L R`, from the triangular parts of both."""
    upper: list[Any] = [np.linalg.qr(part, mode="r") for part in (left, right.swapaxes(1, 2))]
    return np.linalg.norm(upper[0] @ upper[1].swapaxes(1, 2), 2, axis=(1, 2))


def _inner(one: tuple[np.ndarray, np.ndarray], other: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """The inner products of products of factors, head by head: `<L R, L' R'> = <L^T L', R R'^T>`."""
    return np.einsum("hkl,hkl->h", one[0].swapaxes(1, 2) @ other[0], one[1] @ other[1].swapaxes(1, 2))


def _leading(small: np.ndarray, left: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The leading eigenvalue of `L R` where it is real, simple and positive, and its vector; else NaN."""
    values, vectors = np.linalg.eig(small)
    order = np.argsort(-np.abs(values), axis=1)
    first = np.take_along_axis(values, order[:, :1], 1)[:, 0]
    size = np.take_along_axis(np.abs(values), order[:, 1:2], 1)[:, 0] if small.shape[1] > 1 else np.zeros(len(small))
    good = (np.imag(first) == 0) & (np.real(first) > 0) & (size < (1 - SIMPLE) * np.abs(first))
    vector = np.take_along_axis(np.real(vectors), order[:, :1, None].swapaxes(1, 2), 2)[..., 0]
    along = np.einsum("hdk,hk->hd", left, vector)
    along = along / np.linalg.norm(along, axis=1, keepdims=True)
    return np.where(good, np.real(first), np.nan), np.where(good[:, None], along, np.nan)


def _cosines(products: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """The cosines between products of factors of all layers, one layer of rows at a time."""
    left = np.concatenate([one[0] for one in products])
    right = np.concatenate([one[1] for one in products])
    rows = [_against(*one, left, right) for one in products]
    inner = np.concatenate(rows).astype(np.float64)
    size = np.sqrt(np.diagonal(inner))
    return inner / (size[:, None] * size[None])


def _against(first: np.ndarray, second: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The inner products of the products of a layer with those of all layers."""
    (h, d, k), n = first.shape, len(left)
    one = first.swapaxes(1, 2).reshape(h * k, d) @ left.transpose(1, 0, 2).reshape(d, n * k)
    other = second.reshape(h * k, d) @ right.reshape(n * k, d).T
    return (one * other).reshape(h, k, n, k).sum((1, 3))


def _grouped(attention: FactoredAttention) -> tuple[np.ndarray, np.ndarray]:
    """`sum Q Q^T` over the heads of a group, and `K K^T`, for each group."""
    query, key = (np.asarray(part, np.float64) for part in (attention.query, attention.key))
    each = (query @ query.swapaxes(1, 2)).reshape(len(key), -1, *query.shape[1:2] * 2).sum(1)
    return each, key @ key.swapaxes(1, 2)


def _value_defects(attention: FactoredAttention) -> np.ndarray:
    value, output = (np.asarray(part, np.float64) for part in (attention.value, attention.output))
    each = (output.swapaxes(1, 2) @ output).reshape(len(value), -1, *output.shape[2:] * 2).sum(1)
    return _defects(each, value @ value.swapaxes(1, 2))


def _defects(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    sizes = [np.linalg.norm(part, axis=(1, 2)) for part in (one, other)]
    return np.linalg.norm(one - other, axis=(1, 2)) / (sizes[0] + sizes[1])


def statistics_of_layer(layer: InspectedLayer) -> dict[str, np.ndarray]:
    """What theory asks of the heads of a layer, by name."""
    return head_statistics(layer.attention)._asdict()


BY_GROUP = ("query_defect", "value_defect")
"""Those that are numbers of groups of heads that share keys and values, rather than of heads."""

for _name in HeadStatistics._fields:
    quantity(_name, ("group",) if _name in BY_GROUP else ("head",), needs="attention")(statistics_of_layer)


@quantity("temptation_by_chance", ("head",), needs="attention")
def temptations_by_chance(layer: InspectedLayer) -> np.ndarray:
    """`R^2 gamma` of the heads of the model with random weights, on its own tokens."""
    radius = float(jnp.linalg.norm(layer.seen[3], axis=-1).max())
    return temptations(layer.inspection.null.attention(layer.k)) * radius**2


keep_all(globals())

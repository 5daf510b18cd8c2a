"""Graph networks through depth, and how fast their features become the same at all vertices.

Without residuals a linear layer is `x <- P x W`, with residuals `x <- x + alpha P x W`. The similarity `mu = |x - Pi x| / |x|`
is the part of the features outside of the dominant eigenspace of `P`, and `lim mu^{1/t}` the rate of oversmoothing: in the
eigenbasis of `P` the rows do not mix, so it compares the growths of rows (lin:25). As `P` keeps the dominant eigenspace
and its complement, both are followed apart, each with the logarithm of its norm, and no depth is too great.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Inexact, PRNGKeyArray
from scipy.optimize import root_scalar
from scipy.stats import t as student

from measureflow import checks
from measureflow.annotations import Number, Numbers, RandomKey
from measureflow.fields.graphs import Graph, Spectrum
from measureflow.networks.weights import AbstractWeights
from measureflow.precision import keep_all

FLOOR = 1e-12
"""Similarities below it are rounding, where both parts are not followed apart."""
CONFIDENCE = 0.99


@dataclass(frozen=True)
class Rate:
    """The factor by which the similarity shrinks in a layer, and what is known of it.

    `exact` is a formula, `at least` a lower bound, and `measured` a mean over runs, with `error` on either side for 99% of such
    means.
    """

    value: float
    kind: Literal["exact", "at least", "measured"]
    error: float = 0.0

    def __str__(self) -> str:
        if self.kind == "measured":
            return f"{self.value:.5g} ± {self.error:.2g} (measured)"
        return f"at least {self.value:.5g}" if self.kind == "at least" else f"{self.value:.5g} (exact)"

    def depth(self, similarity: float = 1e-3) -> float:
        """The layers after which a similarity of 1 has fallen to a given one; infinite if it does not fall."""
        return float(np.log(similarity) / np.log(self.value)) if 0 < self.value < 1 else (np.inf if self.value else 1.0)


def similarity(graph: Graph, x: Inexact[Array, "n d"]) -> Float[Array, ""]:
    """The part of features outside of the dominant eigenspace, `|x - Pi x| / |x|`.

    >>> float(mf.networks.similarity(mf.Graph.of_edges([[0, 1]]), jnp.array([[1.0], [0.0]]))) ** 2
    0.5000000000000001
    """
    return graph.norm(x - graph.project(x)) / graph.norm(x)


def smoothing_rate(spectrum: Spectrum, weights: AbstractWeights, alpha: float | None = None) -> Rate:
    """The rate `lim mu^{1/t}`, from the spectrum and the law of the weights.

    Without residuals it is `|lambda_2| / |lambda_1|` for all independent or fixed weights that are not singular, since all rows
    see one product of weights. With residuals it is `min(1, exp(max_{i >= 2} g(lambda_i) - g(lambda_1)))`, where `g` is the
    growth under `I + alpha lambda W`.

    >>> spectrum = mf.Graph.of_edges([[0, 1], [1, 2]]).spectrum()
    >>> print(mf.networks.smoothing_rate(spectrum, mf.networks.FixedWeights([[1.0]]), alpha=1.0))
    0.75 (exact)
    """
    rest = spectrum.rest
    if not len(rest):  # no vertex has a neighbour
        return Rate(0.0, "exact")
    if alpha is None:
        return Rate(float(np.abs(rest).max()), "exact")
    if weights.at_ends:
        rest = rest[[0, -1]]
    growths, lead = weights.growth(alpha * rest), weights.growth(np.array([alpha]))
    known = np.array_equal(growths.low, growths.high) and (spectrum.complete or weights.at_ends)
    return Rate(float(np.exp(min(0.0, growths.low.max() - lead.high[0]))), "exact" if known else "at least")


def strongest_residual(spectrum: Spectrum, weights: AbstractWeights, rate: float = 1.0, most: float = 10.0) -> float:
    """The largest `alpha` up to which all residual strengths keep the rate at least at a given value, at most `most`.

    It is zero where none does: random weights reach a rate of 1 only as `alpha` goes to zero.
    """

    def spare(alpha: float) -> float:
        return smoothing_rate(spectrum, weights, alpha).value - rate + 1e-12

    alphas = np.geomspace(1e-5 * most, most, 121)
    failed = next((i for i, alpha in enumerate(alphas) if spare(alpha) < 0), None)
    if failed is None:
        return most
    return root_scalar(spare, bracket=alphas[failed - 1 : failed + 1]).root if failed else 0.0


def log_similarities(
    graph: Graph,
    weights: AbstractWeights,
    depth: int,
    *,
    alpha: Number | None = None,
    activation: Callable[[Array], Array] | None = None,
    key: RandomKey,
) -> Float[Array, " frames"]:
    """The logarithm of the similarity after each layer of a network with normal features and weights drawn anew.

    Linear networks are exact to any depth. With an activation, which must be homogeneous like ReLU, both parts mix, and
    below `FLOOR` there is only rounding; NaN says that all features have become zero.
    """
    checks.count("depth", depth, 1)
    key = jax.random.key(key) if isinstance(key, int) else key
    strength = None if alpha is None else checks.floating(alpha)
    run = _apart if activation is None else _mixed
    return run(graph, weights, depth, strength, activation, key)


def log_modes(
    values: Numbers, weights: AbstractWeights, depth: int, *, alpha: Number | None = None, key: RandomKey
) -> Float[Array, "frames k"]:
    """The logarithms of the norms of eigencoordinates after each layer, for given eigenvalues of `P`.

    Row `i` follows `y <- y + alpha lambda_i y W`, or `y <- lambda_i y W`; all rows see the same weights.
    """
    checks.count("depth", depth, 1)
    key = jax.random.key(key) if isinstance(key, int) else key
    return _modes(checks.floating(values), weights, depth, None if alpha is None else checks.floating(alpha), key)


def mode_similarities(logs: Numbers, components: int = 1) -> np.ndarray:
    """Logarithms of similarities from those of the norms of eigencoordinates, `(..., k)`, of which the first are dominant."""
    squares = 2 * np.asarray(logs)
    return (np.logaddexp.reduce(squares[..., components:], -1) - np.logaddexp.reduce(squares, -1)) / 2


def measured_rate(log_similarities: Numbers, floor: float = 0.0) -> Rate:
    """The rate from runs, `(runs, depth + 1)`: the mean slope over the second half of what is above a floor.

    The first half is left to other eigenvalues, and to a similarity that cannot exceed 1.
    """
    slopes = np.array([_slope(curve, floor) for curve in np.atleast_2d(np.asarray(log_similarities))])
    slopes = slopes[np.isfinite(slopes)]
    if len(slopes) < 2:
        return Rate(float(np.exp(slopes.mean())) if len(slopes) else np.nan, "measured", np.inf)
    error = student.ppf((1 + CONFIDENCE) / 2, len(slopes) - 1) * slopes.std(ddof=1) / np.sqrt(len(slopes))
    value = float(np.exp(slopes.mean()))
    return Rate(value, "measured", float(value * error))


def _slope(curve: np.ndarray, floor: float) -> float:
    with np.errstate(divide="ignore"):
        good = np.isfinite(curve) & (curve > np.log(floor))
    last = len(curve) - 1 if good.all() else int(np.argmin(good)) - 1
    first = last // 2
    return float((curve[last] - curve[first]) / (last - first)) if last > first else np.nan


def _features(graph: Graph, weights: AbstractWeights, key: PRNGKeyArray) -> Inexact[Array, "n d"]:
    kind = jax.eval_shape(weights.draw, key).dtype
    return jax.random.normal(key, (graph.n, weights.dim), kind)


def _unit(x: Inexact[Array, "..."], norm: Float[Array, "..."]) -> tuple[Inexact[Array, "..."], Float[Array, "..."]]:
    """A vector over its norm and the logarithm of that; zero stays zero."""
    norm = norm.astype(x.real.dtype)
    return x / jnp.where(norm > 0, norm, 1.0).astype(x.dtype), jnp.log(norm)


@eqx.filter_jit
def _apart(graph, weights, depth: int, alpha, activation, key) -> Float[Array, " frames"]:
    """Both parts of a linear network, the dominant one by its coordinates."""
    volumes = jax.ops.segment_sum(graph.masses * graph.dominant**2, graph.component, graph.components)
    first, rest = jax.random.split(key)
    x = _features(graph, weights, first)

    def residual(x, moved):
        return moved if alpha is None else x + alpha.astype(x.dtype) * moved

    def units(u, a, v, b):
        u, da = _unit(u, jnp.sqrt(jnp.sum(volumes[:, None] * jnp.abs(u) ** 2)))
        v, db = _unit(v, graph.norm(v))
        a, b = a + da, b + db
        return (u, a, v, b), b - jnp.logaddexp(2 * a, 2 * b) / 2

    def layer(state, key):
        u, a, v, b = state
        W = weights.draw(key)
        u, v = residual(u, u @ W), residual(v, graph(v) @ W)
        return units(u, a, v - graph.project(v), b)

    zero = jnp.zeros((), x.real.dtype)
    state, start = units(graph.coordinates(x), zero, x - graph.project(x), zero)
    curve = jax.lax.scan(layer, state, jax.random.split(rest, depth))[1]
    return jnp.concatenate([start[None], curve])


@eqx.filter_jit
def _mixed(graph, weights, depth: int, alpha, activation, key) -> Float[Array, " frames"]:
    """Features as a whole, divided by their norm in each layer."""
    first, rest = jax.random.split(key)
    x = _features(graph, weights, first)

    def layer(x, key):
        moved = activation(graph(x) @ weights.draw(key))
        x = moved if alpha is None else x + alpha.astype(x.dtype) * moved
        x = x / graph.norm(x).astype(x.dtype)
        return x, jnp.log(similarity(graph, x))

    curve = jax.lax.scan(layer, x, jax.random.split(rest, depth))[1]
    return jnp.concatenate([jnp.log(similarity(graph, x))[None], curve])


@eqx.filter_jit
def _modes(values, weights, depth: int, alpha, key) -> Float[Array, "frames k"]:
    first, rest = jax.random.split(key)
    y = jax.random.normal(first, (len(values), weights.dim), jax.eval_shape(weights.draw, key).dtype)

    def rows(y):
        y, logs = _unit(y, jnp.linalg.norm(y, axis=1, keepdims=True))
        return y, logs[:, 0]

    def layer(state, key):
        y, logs = state
        moved = values[:, None].astype(y.dtype) * (y @ weights.draw(key))
        y, grown = rows(moved if alpha is None else y + alpha.astype(y.dtype) * moved)
        return (y, logs + grown), logs + grown

    y, logs = rows(y)
    curves = jax.lax.scan(layer, (y, logs), jax.random.split(rest, depth))[1]
    return jnp.concatenate([logs[None], curves])


keep_all(globals())

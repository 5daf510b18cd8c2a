"""Local Lipschitz constants of the attention of a checkpoint: on the tokens of a text, on few of them, and on adversarial clouds.

A local Lipschitz constant, in short a slope, is the spectral norm of a Jacobian, by Lanczos steps on products with it. The number
of tokens may grow in two ways: as the text grows, where places grow with it, or as more tokens are taken of the same window, each
at its place, so that nothing but the number changes. The bounds of the theory are about heads without biases and places; a head
with biases is one without them for tokens `(x, 1)`.
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
from measureflow.models.head_matrices import Factors, norms, temptations, tempting_vectors
from measureflow.models.quantities import KINDS, InspectedLayer, dimension, quantity
from measureflow.models.synthetic_clouds import SYNTHETIC_CLOUDS
from measureflow.precision import keep_all
from measureflow.spaces import Euclidean

TOLERANCE = 1e-3
"""The residual of Lanczos steps, relative to the slope."""

WINDOWS = 8
"""Slopes are measured on the first windows, at most so many."""

DRAWS = 4
"""So many clouds are drawn of each kind of synthetic cloud."""


def slope(attention: FactoredAttention, tokens: Float[Array, "n d"]) -> Lipschitz:
    """The largest factor by which attention enlarges a small change of tokens, with its residual."""
    return lipschitz(attention, Particles(Euclidean(tokens.shape[1]), tokens), tolerance=TOLERANCE)


def slopes(cases: Iterable[tuple[FactoredAttention, Float[Array, "n d"]]]) -> list[Lipschitz]:
    """Slopes of several attentions at several clouds, as many at a time as there are cores.

    Each is a chain of small products, for which more than one core is of little use.
    """
    wide = jax.config.read("jax_enable_x64")

    def found(case: tuple[FactoredAttention, Float[Array, "n d"]]) -> Lipschitz:
        with jax.enable_x64(wide):  # a thread does not inherit what a `with` has set
            return jax.block_until_ready(slope(*case))

    pool = ThreadPoolExecutor(os.cpu_count())
    try:
        return list(pool.map(found, cases))
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def with_mask(attention: FactoredAttention, causal: bool) -> FactoredAttention:
    """The same attention on the past alone, or on all tokens."""
    return dataclasses.replace(attention, causal=causal)


def at_places(attention: FactoredAttention, places: np.ndarray) -> FactoredAttention:
    """The same attention for tokens at given places of a text."""
    held = dataclasses.replace(attention, places=jnp.zeros(len(places), attention.query.dtype))
    return eqx.tree_at(lambda one: one.places, held, jnp.asarray(places, attention.query.dtype))


def spread_places(n: int, of: int) -> np.ndarray:
    """Places of `n` tokens that are spread evenly over a window, with its first and last."""
    return np.linspace(0, of - 1, n).round().astype(int)


class AdversarialCloud(NamedTuple):
    """A cloud on which one head has about the largest slope that it can have, and what bounds that slope from below."""

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


def adversarial_cloud(attention: FactoredAttention) -> AdversarialCloud:
    """The head that can be tempted most, with the cloud that does it.

    For an eigenvalue `l < 0` of `A` one token at `-R` outweighs all others at `R`, for `l > 0` one at `R` all others at `R/2`.
    All tokens look at it, and follow every move of it across the line with `U` (castin:24).
    """
    (eigenvalues, vectors), each = tempting_vectors(attention), temptations(attention)
    h = int(np.argmax(each))
    heads, u = Factors.of(attention), vectors[h]
    across = heads.value[h] - np.outer(heads.value[h] @ u, u)
    gain = float(np.linalg.norm(np.linalg.qr(heads.output[h], mode="r") @ across, 2))
    return AdversarialCloud(h, float(each[h]), gain, u, (-1.0, 1.0) if eigenvalues[h] < 0 else (1.0, 0.5))


def bilinear_head(attention: FactoredAttention, h: int) -> FactoredAttention:
    """One head without biases and positions, which sees all tokens."""
    one = attention.head(h)
    return FactoredAttention(one.query, one.key, one.value, one.output)


class BoundTerms(NamedTuple):
    """The numbers that upper bounds on slopes are made of, for each head."""

    score: np.ndarray
    """A bound on the norm of `A` for tokens `(x, 1)`, whatever their places."""
    value: np.ndarray
    """The norm of `U`."""
    radius: float
    """The largest norm of a token `(x, 1)`, or of `x` where there are no biases."""


def bound_terms(attention: FactoredAttention, tokens: Float[Array, "*w n d"]) -> BoundTerms | None:
    """The numbers with which bounds hold for attention with its biases and places; None where heads normalise queries or keys."""
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
    return BoundTerms(score, norms(output, value), radius)


def _with_bias(matrices: np.ndarray, bias: Array | np.ndarray | None, scale: float) -> np.ndarray:
    column = np.zeros(matrices.shape[:2]) if bias is None else scale * np.asarray(bias, np.float64)
    return np.concatenate([matrices, column[..., None]], -1)


def lengths_of(n: int) -> np.ndarray:
    """Numbers of tokens at which slopes are measured: powers of two from 8, and all."""
    return np.unique([2**p for p in range(3, 32) if 2**p < n] + [n])


dimension("steep", lambda inspection: min(inspection.windows, WINDOWS))
dimension("length", lambda inspection: len(lengths_of(inspection.length)))
dimension("imitation", len(SYNTHETIC_CLOUDS))
dimension("draw", DRAWS)


def steep_text(layer: InspectedLayer) -> Float[Array, "w n d"]:
    """The windows of the text on which slopes are measured."""
    return layer.seen[0][: layer.inspection.sizes["steep"]]


def slope_values(cases: Iterable[tuple[FactoredAttention, Float[Array, "n d"]]]) -> np.ndarray:
    """Slopes without their residuals."""
    return np.array([one.value for one in slopes(cases)])


def _growing(attention: FactoredAttention, clouds: Float[Array, "w n d"], places: list[np.ndarray]) -> np.ndarray:
    """Slopes of the tokens of each cloud at several sets of places."""
    cases = ((at_places(attention, where), xs[where]) for xs in clouds for where in places)
    return slope_values(cases).reshape(len(clouds), len(places))


@quantity("slope", ("kind", "steep"), needs="chosen layer")
@quantity("slope_residual", ("kind", "steep"), needs="chosen layer")
def slopes_by_kind(layer: InspectedLayer) -> dict[str, np.ndarray]:
    """Slopes on the text and on the null models, with the residuals of Lanczos steps."""
    shape = len(KINDS), layer.inspection.sizes["steep"]
    pairs = zip(layer.models, layer.seen, strict=True)
    found = slopes((model.attention(layer.k), xs) for model, cloud in pairs for xs in cloud[: shape[1]])
    return {
        "slope": np.reshape([one.value for one in found], shape),
        "slope_residual": np.reshape([one.residual for one in found], shape),
    }


@quantity("slope_other_mask", ("steep",), needs="chosen layer")
def slopes_with_other_mask(layer: InspectedLayer) -> np.ndarray:
    """Slopes on the text with a causal mask where the model has none, and without one where it has."""
    other = with_mask(layer.attention, not layer.attention.causal)
    return slope_values((other, xs) for xs in steep_text(layer))


@quantity("slope_of_head", ("head",), needs="chosen layer")
def slopes_of_heads(layer: InspectedLayer) -> np.ndarray:
    """Slopes of single heads on the first window of the text."""
    text, attention = steep_text(layer), layer.attention
    return slope_values((attention.head(h), text[0]) for h in range(len(attention.query)))


@quantity("slope_growing", ("steep", "length"), needs="chosen layer")
def slopes_as_the_text_grows(layer: InspectedLayer) -> np.ndarray:
    """Slopes on the first tokens of the windows of the text, for several numbers of them."""
    places = [np.arange(n) for n in lengths_of(layer.inspection.length)]
    return _growing(layer.attention, steep_text(layer), places)


@quantity("slope_placed", ("steep", "length"), needs="chosen layer")
def slopes_at_fixed_places(layer: InspectedLayer) -> np.ndarray:
    """Slopes on tokens that are spread evenly over the windows of the text, each at its place, for several numbers of them."""
    n = layer.inspection.length
    return _growing(layer.attention, steep_text(layer), [spread_places(int(some), n) for some in lengths_of(n)])


@quantity("slope_imitation", ("imitation", "draw", "length"), needs="chosen layer")
def slopes_on_synthetic_clouds(layer: InspectedLayer) -> np.ndarray:
    """Slopes on synthetic clouds, whose tokens are as long as the median token of the text."""
    n, d = layer.inspection.length, layer.inspection.model.dim
    size = float(jnp.median(jnp.linalg.norm(steep_text(layer), axis=-1)))
    clouds = [
        cloud(np.random.default_rng((layer.inspection.seed, layer.k, i, draw)), n, d) * size / np.sqrt(d)
        for i, cloud in enumerate(SYNTHETIC_CLOUDS.values())
        for draw in range(DRAWS)
    ]
    found = _growing(layer.attention, jnp.asarray(clouds, jnp.float32), [np.arange(some) for some in lengths_of(n)])
    return found.reshape(len(SYNTHETIC_CLOUDS), DRAWS, -1)


def adversarial_cloud_of(layer: InspectedLayer) -> AdversarialCloud:
    """The adversarial cloud of the layer."""
    return adversarial_cloud(layer.attention)


def steep_radius(layer: InspectedLayer) -> float:
    """The largest norm of a token on which slopes are measured."""
    return float(jnp.linalg.norm(steep_text(layer), axis=-1).max())


@quantity("worst_head", needs="chosen layer")
def adversarial_head(layer: InspectedLayer) -> int:
    """The head to which the adversarial cloud belongs."""
    return layer.once(adversarial_cloud_of).head


@quantity("slope_worst", ("length",), needs="chosen layer")
def slopes_on_adversarial_clouds(layer: InspectedLayer) -> np.ndarray:
    """Slopes of that head on its adversarial cloud, which is as large as the text, for several numbers of tokens."""
    cloud, radius = layer.once(adversarial_cloud_of), layer.once(steep_radius)
    head = bilinear_head(layer.attention, cloud.head)
    tokens = [cloud.tokens(n, radius) for n in lengths_of(layer.inspection.length).tolist()]
    return slope_values((head, jnp.asarray(xs, jnp.float32)) for xs in tokens)


@quantity("slope_of_worst_head", ("steep", "length"), needs="chosen layer")
def slopes_of_the_same_head(layer: InspectedLayer) -> np.ndarray:
    """Slopes of that head, the same map, on the first tokens of the windows of the text, for several numbers of them."""
    head = bilinear_head(layer.attention, layer.once(adversarial_cloud_of).head)
    return _growing(head, steep_text(layer), [np.arange(n) for n in lengths_of(layer.inspection.length)])


keep_all(globals())

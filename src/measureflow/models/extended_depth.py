"""One layer beyond the depth of its model: its attention is repeated, as layers or as a flow, from the tokens of a text."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from measureflow.flows import Adaptive, evolve, layers
from measureflow.models.model import Model
from measureflow.models.quantities import InspectedLayer, dimension, quantity
from measureflow.models.token_geometry import groups, sinks, token_statistics
from measureflow.precision import keep_all

RELATIVE = 1e-3
"""The relative tolerance of the flow."""

ABSOLUTE = 1e-3
"""The absolute tolerance of the flow, as a part of the size of tokens."""

TOKENS = 64
"""The flow is that of the first tokens of a window, so many at most."""

BEYOND = 4
"""A layer is repeated up to so many times the depth of its model."""


class RepeatedLayer(NamedTuple):
    """How tokens crowd under one layer, repeated, at given depths."""

    overlap: np.ndarray
    """The mean cosine between two tokens, in continuous depth."""
    overlap_by_layers: np.ndarray
    """The same where the layer itself is repeated."""
    groups: np.ndarray
    """The number of groups in continuous depth."""
    error: float
    """The estimate of the error of the final tokens, relative to their size."""


def repeated_layer(
    model: Model, k: int, points: Float[Array, "n d"], depths: np.ndarray, tolerance: float
) -> RepeatedLayer:
    """Run the attention of a layer from tokens of a text; one unit of time is one layer, whole depths are those of layers."""
    mu, field = model.particles(points), model.sublayer(k)
    size = float(jnp.median(jnp.linalg.norm(points, axis=1)))
    solver = Adaptive(rtol=RELATIVE, atol=ABSOLUTE * size)
    path = evolve(field, mu, depths, solver, verify=True)
    discrete = layers(field, mu, int(depths[-1])).measures.points[depths.astype(int)]
    found = [_overlaps(part) for part in (path.measures.points, discrete)]
    frames = np.asarray(path.measures.points)
    kept = ~np.asarray(sinks(path.measures.points, None))
    counts = groups(frames, kept, tolerance).max(1) + 1
    final = float(jnp.median(jnp.linalg.norm(path.final.points, axis=1)))
    return RepeatedLayer(found[0], found[1], counts, float(path.stats["error"]) / final)


def _overlaps(frames: Float[Array, "t n d"]) -> np.ndarray:
    return np.asarray(token_statistics(frames, ~sinks(frames, None), jnp.ones((), frames.dtype)).overlap)


def settling_depth(depths: np.ndarray, overlaps: np.ndarray, level: float) -> float:
    """The first depth from which on an overlap stays at or above a level, interpolated; infinite where it does not."""
    above = overlaps >= level
    if not above[-1]:
        return float("inf")
    last = np.flatnonzero(~above)
    if not len(last):
        return float(depths[0])
    i = int(last[-1])
    part = (level - overlaps[i]) / (overlaps[i + 1] - overlaps[i])
    return float(depths[i] + part * (depths[i + 1] - depths[i]))


def depths_of(layers: int) -> np.ndarray:
    """Depths at which the tokens of a repeated layer are measured, for a model of so many layers."""
    return np.unique(np.linspace(0, BEYOND * layers, 25).round())


dimension("depth", lambda inspection: len(depths_of(inspection.model.depth)))


@quantity("continued", ("depth",), needs="chosen layer")
@quantity("continued_layers", ("depth",), needs="chosen layer")
@quantity("continued_groups", ("depth",), needs="chosen layer")
@quantity("continued_error", needs="chosen layer")
def repeated(layer: InspectedLayer) -> dict[str, np.ndarray | float]:
    """The overlaps and groups of the first window of the text under the layer, repeated, and the error of the flow."""
    model, tokens = layer.inspection.model, layer.clouds[0, 0, :TOKENS]
    found = repeated_layer(model, layer.k, tokens, depths_of(model.depth), layer.inspection.tolerance)
    return {
        "continued": found.overlap,
        "continued_layers": found.overlap_by_layers,
        "continued_groups": found.groups,
        "continued_error": found.error,
    }


keep_all(globals())

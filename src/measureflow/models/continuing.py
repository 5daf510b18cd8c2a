"""One layer for ever: its attention, repeated as layers or as a flow in continuous depth, from the tokens of a text."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from measureflow.flows import Adaptive, evolve, layers
from measureflow.models.looking import groups, look_at_tokens, sinks
from measureflow.models.model import Model
from measureflow.precision import keep_all

RELATIVE, ABSOLUTE = 1e-3, 1e-3
"""Tolerances of the flow: the second is that part of the size of tokens."""


class Continued(NamedTuple):
    """How tokens crowd under one layer, repeated, at given depths."""

    flow: np.ndarray
    """The mean cosine between two tokens, in continuous depth."""
    repeated: np.ndarray
    """The same where the layer itself is repeated."""
    groups: np.ndarray
    """The number of groups in continuous depth."""
    error: float
    """The estimate of the error of the final tokens, relative to their size."""


def continued(model: Model, k: int, points: Float[Array, "n d"], depths: np.ndarray, tolerance: float) -> Continued:
    """Run the attention of a layer from tokens of a text; one unit of time is one layer, whole depths are those of layers."""
    mu, field = model.particles(points), model.sublayer(k)
    size = float(jnp.median(jnp.linalg.norm(points, axis=1)))
    solver = Adaptive(rtol=RELATIVE, atol=ABSOLUTE * size)
    path = evolve(field, mu, depths, solver, verify=True)
    discrete = layers(field, mu, int(depths[-1])).measures.points[depths.astype(int)]
    found = [_looked(part) for part in (path.measures.points, discrete)]
    frames = np.asarray(path.measures.points)
    kept = ~np.asarray(sinks(path.measures.points, None))
    counts = groups(frames, kept, tolerance).max(1) + 1
    final = float(jnp.median(jnp.linalg.norm(path.final.points, axis=1)))
    return Continued(found[0], found[1], counts, float(path.stats["error"]) / final)


def _looked(frames: Float[Array, "t n d"]) -> np.ndarray:
    return np.asarray(look_at_tokens(frames, ~sinks(frames, None), jnp.ones((), frames.dtype)).overlap)


def arrived(depths: np.ndarray, overlaps: np.ndarray, level: float) -> float:
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


keep_all(globals())

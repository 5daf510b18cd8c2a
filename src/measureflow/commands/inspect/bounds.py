"""Bounds of the theory on the slopes of a layer, declared as quantities beside the slopes that `models.lipschitz` measures."""

from collections.abc import Callable
from typing import Any

import numpy as np

from measureflow.models.lipschitz import adversarial_cloud_of, bound_terms, lengths_of, steep_radius, steep_text
from measureflow.models.quantities import InspectedLayer, quantity
from measureflow.theory.bounds import adversarial_lipschitz, finite_lipschitz, published_finite_lipschitz


@quantity("slope_sure", ("length",), needs="chosen layer")
def lower_bounds(layer: InspectedLayer) -> np.ndarray:
    """Lower bounds on the slopes of the adversarial cloud, for several numbers of tokens."""
    cloud, lengths = layer.once(adversarial_cloud_of), lengths_of(layer.inspection.length)
    return cloud.gain * np.asarray(adversarial_lipschitz(lengths, cloud.temptation, layer.once(steep_radius)))


@quantity("bound", ("length",), needs="chosen layer")
def upper_bounds(layer: InspectedLayer) -> dict[str, list[float]]:
    """Upper bounds on all slopes within the radius of the text; none where heads normalise their queries or keys."""
    return _of_all_heads(layer, "bound", finite_lipschitz)


@quantity("bound_published", ("length",), needs="chosen layer")
def published_upper_bounds(layer: InspectedLayer) -> dict[str, list[float]]:
    """The same with the larger constant that was published."""
    return _of_all_heads(layer, "bound_published", published_finite_lipschitz)


def _of_all_heads(layer: InspectedLayer, name: str, bound: Callable[..., Any]) -> dict[str, list[float]]:
    terms = bound_terms(layer.attention, steep_text(layer))
    if terms is None:
        return {}
    lengths = lengths_of(layer.inspection.length).tolist()
    return {name: [float(np.sum(bound(n, terms.value, terms.score, terms.radius))) for n in lengths]}

"""Quantities of a layer: the arrays that `measureflow inspect` stores of a model at every depth.

A quantity is declared once, beside the function that computes it: its name, the names of its dimensions, what it needs, and the
label and format of its row in the table. From the declaration follow the layout of the store, where numbers are NaN, the rows
and the series. Several declarations above one function are several arrays of one computation; it then gives them by name.

A function gets an `InspectedLayer`, and may ask it for other quantities by name: `layer["overlap"]`. Each is computed once.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
from jaxtyping import Array, Float

from measureflow.fields import FactoredAttention
from measureflow.models.model import Model
from measureflow.precision import exactly, keep_all

KINDS = ("text", "shuffled", "random tokens", "random weights")
"""The clouds of tokens that are inspected: the text, and three null models, which show what a number is by chance."""

Needs = Literal["tokens", "attention", "chosen layer"]
"""What a quantity is computed from: the tokens at a depth, also behind the last layer; the attention of a layer; or the same, but
only at the layers that were chosen, because it is costly."""

Of = Callable[["InspectedLayer"], Any]
"""From a layer to an array, or to several by name."""


@dataclass(frozen=True)
class Inspection:
    """A model under inspection: what is the same at all of its layers."""

    model: Model
    null: Model
    """The model with random weights of the same spectrum."""
    windows: int
    length: int
    """The number of tokens of a window."""
    chosen: tuple[int, ...]
    """The layers at which costly quantities are measured."""
    beta: float = 1.0
    """The inverse temperature of the energy."""
    tolerance: float = 0.45
    """The angle up to which tokens are linked to one group."""
    seed: int = 0

    @cached_property
    def sizes(self) -> dict[str, int]:
        """The sizes of all dimensions."""
        return {dimension: size(self) for dimension, size in DIMENSIONS.items()}

    def layout(self, name: str) -> dict[str, int]:
        """The dimensions of a quantity, each with its size."""
        return {dimension: self.sizes[dimension] for dimension in QUANTITIES[name].dimensions}

    def label(self, name: str) -> str:
        """The label of a quantity, which may name a setting, such as `{tolerance:g}`."""
        return QUANTITIES[name].label.format_map(vars(self))


class InspectedLayer:
    """A layer of an inspected model, with the tokens of all windows before it; behind the last one there are tokens alone."""

    def __init__(self, inspection: Inspection, k: int, points: Float[Array, "m d"]):
        self.inspection = inspection
        self.k = k
        self.clouds: Float[Array, "kind w n d"] = points.reshape(
            len(KINDS), inspection.windows, inspection.length, points.shape[1]
        )
        self._found: dict[Any, Any] = {}

    def has(self, needs: Needs) -> bool:
        """Whether there is what a quantity needs."""
        inside = self.k < self.inspection.model.depth
        return {"tokens": True, "attention": inside, "chosen layer": inside and self.k in self.inspection.chosen}[needs]

    @cached_property
    def models(self) -> list[Model]:
        """The model that moves each kind of cloud."""
        return [self.inspection.model] * (len(KINDS) - 1) + [self.inspection.null]

    @cached_property
    def attention(self) -> FactoredAttention:
        """The attention of the layer."""
        return self.inspection.model.attention(self.k)

    @cached_property
    def seen(self) -> list[Float[Array, "w n d"]]:
        """The clouds as attention sees them: normalised, where the model is normalised before."""
        return [model.seen(self.k, cloud) for model, cloud in zip(self.models, self.clouds, strict=True)]

    def once(self, function: Of) -> Any:
        """What a function gives of this layer, computed when it is first asked for."""
        if function not in self._found:
            self._found[function] = exactly(function)(self)
        return self._found[function]

    def __getitem__(self, name: str) -> np.ndarray:
        """The array of a quantity; NaN where it cannot be measured."""
        one, shape = QUANTITIES[name], tuple(self.inspection.layout(name).values())
        found = self.once(one.of) if self.has(one.needs) else {}
        values = np.asarray(found.get(name, np.full(shape, np.nan)) if isinstance(found, Mapping) else found)
        if values.shape != shape:
            raise ValueError(f"The quantity {name!r} was declared with the shape {shape}; got {values.shape}.")
        return values


@dataclass(frozen=True)
class Quantity:
    """The declaration of an array of a layer; see `quantity`."""

    name: str
    of: Of
    dimensions: tuple[str, ...] = ()
    needs: Needs = "tokens"
    label: str = ""
    format: str = ".3g"
    watched: bool = False
    telling: bool = False

    def attributes(self) -> dict[str, Any]:
        """What a store keeps of the declaration."""
        return {"label": self.label, "format": self.format} if self.label else {}


QUANTITIES: dict[str, Quantity] = {}
"""All quantities, in the order of their declarations."""

DIMENSIONS: dict[str, Callable[[Inspection], int]] = {
    "kind": lambda inspection: len(KINDS),
    "window": lambda inspection: inspection.windows,
    "place": lambda inspection: inspection.length,
    "head": lambda inspection: inspection.model.heads,
    "other": lambda inspection: inspection.model.heads,
    "group": lambda inspection: len(inspection.model.attention(0).key),
}
"""The sizes of dimensions by name. `place` is a place of a window, and heads of a `group` share their keys and values."""


def dimension(name: str, size: int | Callable[[Inspection], int]) -> None:
    """Declare a dimension of quantities with its size: a number, or a function of the inspection."""
    if name in DIMENSIONS:
        raise ValueError(f"The dimension {name!r} is declared already; choose another name.")
    DIMENSIONS[name] = (lambda inspection: size) if isinstance(size, int) else size


def quantity(
    name: str,
    dimensions: tuple[str, ...] = (),
    *,
    needs: Needs = "tokens",
    label: str = "",
    format: str = ".3g",
    watched: bool = False,
    telling: bool = False,
) -> Callable[[Of], Of]:
    """Declare an array that `measureflow inspect` stores of every layer, above the function of a layer that computes it.

    - `dimensions`: names such as `kind`, `window`, `place`, `head`, or others that `dimension` declares.
    - `needs`: `tokens`, `attention` or `chosen layer`; elsewhere the numbers are NaN.
    - `label` and `format`: how the row of the table names the quantity and writes its numbers; there is no row without a label.
    - `watched`: the quantity, a number without dimensions, is a series of the run; the progress line shows it if it is `telling`.
    """
    if name in QUANTITIES:
        raise ValueError(f"The quantity {name!r} is declared already; choose another name.")
    if unknown := [one for one in dimensions if one not in DIMENSIONS]:
        raise ValueError(f"`dimensions`: {unknown[0]!r} is not declared; known are {', '.join(DIMENSIONS)}.")
    if needs not in get_args(Needs):
        raise ValueError(f"`needs` must be one of {', '.join(get_args(Needs))}; got {needs!r}.")

    def declared(of: Of) -> Of:
        QUANTITIES[name] = Quantity(name, of, dimensions, needs, label, format, watched, telling)
        return of

    return declared


def by_kind(function: Of, part: str) -> Of:
    """An array over all kinds of clouds, given a function that computes a tuple of named arrays for each of them."""
    return lambda layer: np.stack([getattr(one, part) for one in layer.once(function)])


def text_mean(name: str) -> Of:
    """The mean of a quantity over the windows of the text."""
    return lambda layer: layer[name][0].mean()


keep_all(globals())

"""Series: numbers watched along a run.

A series is declared once: its name, what it is of a measure, its label and its format. From that follow what is stored, the
progress line, the row of the table and the curve in the figure. Its declaration is stored beside its values, so that reports
need the folder alone.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from measureflow.wording import number


@dataclass(frozen=True)
class Series:
    """A number of one measure, along a run.

    `of` is a function of a measure; it is traced, unless it is a `host` function that looks at numbers, and that also gets the
    time if it is `timed`. `counts` says that the values are whole numbers, `telling` that the progress line shows them, `drawn`
    that the figure does. Tables show values not above `rounding` as zero. `where` says of which measures it makes sense; of all
    unless given.
    """

    name: str
    of: Callable[..., Any]
    label: str = ""
    format: str = ".6g"
    host: bool = False
    timed: bool = False
    counts: bool = False
    telling: bool = False
    drawn: bool = True
    rounding: float = 0.0
    where: Callable[[Any], bool] = lambda mu: True

    def attributes(self) -> dict[str, Any]:
        """The part of the declaration that is stored beside the values."""
        facts = {"format": self.format, "counts": self.counts, "telling": self.telling, "drawn": self.drawn}
        facts |= {"rounding": self.rounding} if self.rounding else {}
        return {"label": self.label or self.name.replace("_", " ")} | facts


@dataclass(frozen=True)
class Watched:
    """The values of a series, with its declaration as it was stored."""

    name: str
    values: np.ndarray
    label: str
    format: str = ".6g"
    counts: bool = False
    telling: bool = False
    drawn: bool = True
    rounding: float = 0.0

    @property
    def last(self) -> str:
        """The last value in words."""
        return self.text(-1)

    def text(self, i: int) -> str:
        """A value in words."""
        value = self.values[i]
        whole = self.counts and np.isfinite(value)
        return str(int(value)) if whole else number(float(value), self.rounding, self.format)


def watch(series: Iterable[Series], times: np.ndarray, measures: Any) -> dict[str, np.ndarray]:
    """The values of several series on measures with a leading axis over frames; those that are traced in one program."""
    series = tuple(series)
    traced = tuple(one for one in series if not one.host)
    values = _mapped(tuple(one.of for one in traced), measures) if traced else ()
    found = {one.name: np.asarray(value) for one, value in zip(traced, values, strict=True)}
    found |= {one.name: _on_host(one, times, measures) for one in series if one.host}
    return {one.name: found[one.name] for one in series}


def _on_host(one: Series, times: np.ndarray, measures: Any) -> np.ndarray:
    held = jax.tree.map(np.asarray, measures)  # rows are taken on the host, where they are no programs
    frames = [jax.tree.map(lambda leaf, i=i: jnp.asarray(leaf[i], leaf.dtype), held) for i in range(len(times))]
    values = (one.of(mu, t) if one.timed else one.of(mu) for mu, t in zip(frames, times.tolist(), strict=True))
    return np.array([np.asarray(value) for value in values])


def observed(tree: Any) -> dict[str, Any]:
    """What was observed, by name: `observed` if it is one array, else with its place in the tree, `observed.mean`."""
    places = jax.tree_util.tree_flatten_with_path(tree)[0]
    return {".".join(["observed", *(str(_key(part)) for part in place)]): leaf for place, leaf in places}


def unnamed(found: dict[str, Any]) -> Any:
    """What was observed, given its parts by name: one array, or several by their places; None where there is nothing."""
    return found.get("observed", {name.removeprefix("observed."): of for name, of in found.items()}) if found else None


def observed_series(found: dict[str, Any]) -> dict[str, Watched]:
    """What was observed and is one number, as series."""
    numbers = {name: np.asarray(of) for name, of in found.items() if np.ndim(of) == 1}
    label = lambda name: name.removeprefix("observed.")  # noqa: E731
    return {name: Watched(name, of, label(name), counts=of.dtype.kind in "iu") for name, of in numbers.items()}


def _key(part: Any) -> Any:
    return jax.tree_util.keystr((part,), simple=True)


@eqx.filter_jit
def _mapped(functions: tuple[Callable[[Any], Any], ...], measures: Any) -> tuple[Any, ...]:
    # One frame after the other: under `vmap` the choice between fast and plain sums would compute both.
    return jax.lax.map(lambda mu: tuple(of(mu) for of in functions), measures)

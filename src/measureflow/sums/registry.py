"""All engines there are, by name: what choice, costs, calibration, benchmark and command line are derived from.

An engine of a user joins those of the package by one line above its class:

    @mf.sums.register
    class Mine(mf.sums.AbstractEngine): ...

`choose` then considers it wherever it declares, or a calibration found, what it costs.
"""

import difflib
import inspect
from typing import Any, TypeVar

from measureflow.sums.base import AbstractEngine

_KNOWN: dict[str, type[AbstractEngine]] = {}
Kind = TypeVar("Kind", bound=type[AbstractEngine])


def register(kind: Kind) -> Kind:
    """Add a class to the engines; a decorator."""
    if _KNOWN.setdefault(kind.name, kind) is not kind:
        raise ValueError(f"There is an engine {kind.name!r} already; `mf.sums.forget({kind.name!r})` removes it.")
    return kind


def forget(name: str) -> type[AbstractEngine]:
    """Remove the engine of a name, and return its class."""
    return _KNOWN.pop(_known(name).name)


def engines() -> tuple[type[AbstractEngine], ...]:
    """The classes of all engines, in the order in which they joined."""
    return tuple(_KNOWN.values())


def names() -> tuple[str, ...]:
    """The names of all engines: the words of the command line."""
    return tuple(_KNOWN)


def engine(name: str, **options: Any) -> AbstractEngine:
    """The engine of a name, with options of its class: `engine("native", threads=1)`."""
    kind = _known(name)
    try:
        inspect.signature(kind).bind(**options)
    except TypeError as problem:
        raise ValueError(f"The engine {name!r} cannot be made with these options: {problem}.") from None
    return kind(**options)


def _known(name: str) -> type[AbstractEngine]:
    if name not in _KNOWN:
        close = difflib.get_close_matches(name, _KNOWN, n=1, cutoff=0.5)
        hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(_KNOWN)}."
        raise ValueError(f"`engine` {name!r} is not known; {hint}")
    return _KNOWN[name]

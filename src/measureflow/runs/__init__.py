"""Runs: what is computed, how it is kept in a folder, and how it is read, resumed and compared.

Names load when first used; `__init__.pyi` lists them. `sweep` and `open_sweep` are words of this package for users, though
`measureflow.sweeps`, which has them, is built on this package.
"""

import importlib
from typing import Any

from measureflow import lazy

_load, _names, __all__ = lazy.attach(__name__, __file__)
_OF_SWEEPS = ("sweep", "open_sweep")


def __getattr__(name: str) -> Any:
    return getattr(importlib.import_module("measureflow.sweeps"), name) if name in _OF_SWEEPS else _load(name)


def __dir__() -> list[str]:
    return [*_names(), *_OF_SWEEPS]

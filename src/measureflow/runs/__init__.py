"""Runs: configurations, run folders and what is in them. Names load when first used; `__init__.pyi` lists them."""

from types import FunctionType
from typing import Any

import lazy_loader

_load, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    value = globals()[name] = _load(name)
    if isinstance(value, FunctionType | type):
        from measureflow.signatures import shorten

        shorten({name: value})
    return value

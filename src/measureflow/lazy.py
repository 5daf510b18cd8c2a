"""Packages whose names load when they are first used, so that the command line answers before JAX is there."""

from collections.abc import Callable
from types import FunctionType
from typing import Any

import lazy_loader


def attach(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """`__getattr__`, `__dir__` and `__all__` of a package whose `__init__.pyi` lists its names; `help` shows short types."""
    load, names, public = lazy_loader.attach_stub(package, file)

    def attribute(name: str) -> Any:
        value = load(name)
        if isinstance(value, FunctionType | type):
            from measureflow.signatures import shorten

            shorten({name: value})
        return value

    return attribute, names, public

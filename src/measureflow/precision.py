"""Matrix products in the precision of their numbers, on every device.

By default a GPU rounds the factors of float32 products to ten bits, a thousandth of the accuracy promised. What a user calls,
the methods of fields, energies and measures and the functions of a floor, asks for full precision here and nowhere else, so
that formulas keep their shape. Who wants it otherwise says so with `jax.default_matmul_precision` or its configuration.
"""

import functools
from collections.abc import Callable
from types import FunctionType
from typing import Any

import jax


def exactly(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with full precision of its products, unless another was asked for."""

    @functools.wraps(function)
    def exact(*args, **options):
        asked = jax.config.jax_default_matmul_precision  # pyright: ignore[reportAttributeAccessIssue]
        with jax.default_matmul_precision("highest" if asked is None else asked):
            return function(*args, **options)

    return exact


def keep(kind: type, *methods: str, around: Callable[[Any], Any] = lambda method: method) -> None:
    """Give full precision to the methods of a class that it defines itself, and put something `around` them."""
    for name in set(methods) & set(vars(kind)):
        setattr(kind, name, around(exactly(vars(kind)[name])))


def keep_all(names: dict[str, Any]) -> None:
    """Give full precision to every function of a floor, by its names."""
    names |= {name: exactly(value) for name, value in names.items() if isinstance(value, FunctionType)}

"""Matrix products in the precision of their numbers, on every device.

By default a GPU rounds the factors of float32 products to ten bits, a thousandth of the accuracy promised. What a user calls
asks for full precision where it is defined: the methods of fields, energies and measures when their class is made, functions by
the last line of their module. Formulas keep their shape. Who wants another precision says so with
`jax.default_matmul_precision` or its configuration.
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
        if jax.config.jax_default_matmul_precision is not None:  # pyright: ignore[reportAttributeAccessIssue]
            return function(*args, **options)
        with jax.default_matmul_precision("highest"):
            return function(*args, **options)

    return exact


def keep(kind: type, *methods: str, around: Callable[[Any], Any] = lambda method: method) -> None:
    """Give full precision to the methods of a class that it defines itself, and put something `around` them."""
    for name in set(methods) & set(vars(kind)):
        setattr(kind, name, around(exactly(vars(kind)[name])))


def keep_all(names: dict[str, Any]) -> None:
    """Give full precision to the public functions that a module defines, compiled ones too.

    This is the last line of every module whose functions are called by themselves, so that whoever imports one of them, from
    the module or from its package, gets it exact.
    """
    names |= {name: exactly(value) for name, value in names.items() if name[0] != "_" and _defined(value, names)}


def _defined(value: Any, names: dict[str, Any]) -> bool:
    """Whether a value is a function of this module: a plain one, or what a decorator such as `eqx.filter_jit` made of one."""
    function = isinstance(value, FunctionType) or (callable(value) and hasattr(value, "__wrapped__"))
    return function and value.__module__ == names["__name__"]

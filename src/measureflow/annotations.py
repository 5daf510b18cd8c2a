"""How the types of arguments read: by the same short names in the source, in `help` and in messages."""

import inspect
import re
from collections.abc import Iterable
from types import FunctionType
from typing import Any, Union

import numpy.typing as npt
from jax.typing import ArrayLike
from jaxtyping import Array, PRNGKeyArray, Real
from typing_extensions import TypeAliasType

Number = TypeAliasType("Number", Real[ArrayLike, ""])
"""One real number, in Python or in an array."""
Numbers = TypeAliasType("Numbers", Union[npt.ArrayLike, Array])  # noqa: UP007
"""An array, or lists of numbers that make one."""
RandomKey = TypeAliasType("RandomKey", Union[PRNGKeyArray, int])  # noqa: UP007
"""A key of `jax.random`, or the seed of one."""

PATHS = re.compile(r"~|(?:\b\w+\.)+(?=\w)")
"""What stands before the name of a type: its modules, and the sign of a type variable."""


class _Name(str):
    """A text that is shown as it is."""

    __slots__ = ()
    __repr__ = str.__str__


def shorten(names: dict[str, Any]) -> None:
    """Show the functions of a floor, and the methods of its classes, with types by their names alone."""
    for value in [*names.values()]:
        for function in _functions(value):
            signature = inspect.signature(function)
            parameters = [p.replace(annotation=_named(p.annotation)) for p in signature.parameters.values()]
            function.__signature__ = signature.replace(  # pyright: ignore[reportFunctionMemberAccess]
                parameters=parameters, return_annotation=_named(signature.return_annotation)
            )


def _functions(value: Any) -> Iterable[FunctionType]:
    """A function of ours, or those of a class of ours with the one that Python wrote to make it."""
    ours = lambda value: value.__module__.startswith("measureflow")  # noqa: E731
    inside = vars(value) if isinstance(value, type) and ours(value) else {}
    for name, candidate in {"": value, **inside}.items():
        function = inspect.unwrap(getattr(candidate, "__func__", candidate))
        if isinstance(function, FunctionType) and (ours(function) or name in ("__init__", "__new__")):
            yield function


def _named(annotation: Any) -> Any:
    if annotation is inspect.Parameter.empty or isinstance(annotation, _Name):
        return annotation
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return _Name(re.sub(r"Optional\[(.*)\]$", r"\1 | None", PATHS.sub("", text)))

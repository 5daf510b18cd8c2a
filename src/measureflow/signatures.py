"""How signatures read: `help` shows the types of arguments by their names, as the source does."""

import functools
import inspect
import re
from collections.abc import Iterable
from types import FunctionType, NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

PATHS = re.compile(r"~|(?:\b\w+\.)+(?=\w)")
"""What stands before the name of a type: its modules, and the sign of a type variable."""

WRITTEN_OUT = {
    r"Key\[Array, ''\] \| UInt32\[Array, '2'\] \| UInt32\[Array, '4'\]": "PRNGKeyArray",
    r"(\w+)\[Array, ('[^']*')\] \| \1\[ndarray, \2\](?: \| number \| int \| float)?": r"\1[ArrayLike, \2]",
    r"Array \| ndarray \| bool \| number \| bool \| int \| float \| complex": "ArrayLike",
}
"""Names of JAX and jaxtyping that Python forgets: the types they stand for, and the name."""


class _Name(str):
    """A text that is shown as it is."""

    __slots__ = ()
    __repr__ = str.__str__


class _Parameter(inspect.Parameter):
    """A parameter that shows the function it defaults to by its name."""

    __slots__ = ()

    def __str__(self) -> str:
        return super().__str__().replace(repr(self.default), getattr(self.default, "__name__", repr(self.default)))


def shorten(names: dict[str, Any]) -> None:
    """Show the functions of a floor, and the methods of its classes, with types by their names alone."""
    for value in [*names.values()]:
        for function in _functions(value):
            signature = inspect.signature(function)
            parameters = [
                _Parameter(p.name, p.kind, default=p.default, annotation=_named(p.annotation))
                for p in signature.parameters.values()
            ]
            function.__signature__ = signature.replace(  # pyright: ignore[reportFunctionMemberAccess]
                parameters=parameters, return_annotation=_named(signature.return_annotation)
            )


def _functions(value: Any) -> Iterable[FunctionType]:
    """A function of ours, or those of a class of ours and its bases with the one that Python wrote to make it."""
    ours = lambda value: value.__module__.startswith("measureflow")  # noqa: E731
    kinds = filter(ours, reversed(value.__mro__)) if isinstance(value, type) else ()
    inside = {name: member for kind in kinds for name, member in vars(kind).items()}
    for name, candidate in {"": value, **inside}.items():
        function = inspect.unwrap(getattr(candidate, "__func__", candidate))
        known = hasattr(function, "__signature__") or not isinstance(function, FunctionType)
        if not known and (ours(function) or name in ("__init__", "__new__")):
            yield function


def _named(annotation: Any) -> Any:
    return annotation if annotation is inspect.Parameter.empty else _Name(_written(annotation))


def _written(annotation: Any) -> str:
    """The text of a type: parts of a union beside each other, names without their modules."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, UnionType):
        alternatives = " | ".join(map(_written, arguments))
        return functools.reduce(lambda text, long: re.sub(long, WRITTEN_OUT[long], text), WRITTEN_OUT, alternatives)
    if annotation is Ellipsis:
        return "..."
    if isinstance(annotation, list):
        return f"[{', '.join(map(_written, annotation))}]"
    if arguments and origin not in (Literal, Annotated):
        return f"{_written(origin)}[{', '.join(map(_written, arguments))}]"
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return "None" if annotation is NoneType else PATHS.sub("", text)

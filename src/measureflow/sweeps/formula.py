"""Formulas in sweep files: arithmetic of the other values of a cell, and nothing else.

A formula is an expression of numbers and names with `+ - * / ** // %` and a few functions, such as `gamma * log(n)`. It is
parsed, never evaluated as a program.
"""

import ast
import math
import operator
from collections.abc import Mapping
from typing import Any, final

from measureflow.words.settings import InputError
from measureflow.words.table import nearest

OPERATORS: dict[type, Any] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
}
FUNCTIONS: dict[str, Any] = {
    "log": math.log, "exp": math.exp, "sqrt": math.sqrt, "sin": math.sin, "cos": math.cos, "floor": math.floor,
    "ceil": math.ceil, "round": round, "abs": abs, "min": min, "max": max,
}  # fmt: skip
LARGEST = 1000
"""Bits of a whole number, about those of the largest float, so that a formula ends."""


@final
class Formula:
    """An expression of named numbers: `Formula("beta", "gamma * log(n)")({"gamma": 2.0, "n": 1})` is 0."""

    def __init__(self, name: str, text: str):
        self.name, self.text = name, text
        try:
            self.tree = ast.parse(text, mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):  # MemoryError is what is nested too deeply
            raise InputError(f"`sweep.{name}` is no formula: {text!r}. Write one such as 'gamma * log(n)'.") from None

    @property
    def names(self) -> set[str]:
        """The names that the formula uses."""
        return {node.id for node in ast.walk(self.tree) if isinstance(node, ast.Name)} - set(FUNCTIONS)

    def __call__(self, values: Mapping[str, Any]) -> Any:
        """The value, given those of its names."""
        try:
            return _finite(self._value(self.tree, values))
        except (ArithmeticError, ValueError, TypeError, RecursionError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"`sweep.{self.name}`: {self.text!r} has no value here: {error}.") from None

    def _value(self, node: ast.expr, values: Mapping[str, Any]) -> Any:
        match node:
            case ast.Constant(value=int() | float() as number):
                return number
            case ast.Name(id=name) if name in values:
                if not isinstance(values[name], int | float):
                    raise ValueError(f"{name!r} is {values[name]!r}, no number")
                return values[name]
            case ast.Name(id=name):
                raise InputError(f"`sweep.{self.name}`: {name!r} has no value here{nearest(name, list(values))}.")
            case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
                one, other = self._value(left, values), self._value(right, values)
                if isinstance(one, int) and isinstance(other, int) and _bits(op, one, other) > LARGEST:
                    raise ValueError(f"it has a whole number of more than {LARGEST} bits, which is too large")
                return OPERATORS[type(op)](one, other)
            case ast.UnaryOp(op=op, operand=operand) if type(op) in OPERATORS:
                return OPERATORS[type(op)](self._value(operand, values))
            case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in FUNCTIONS:
                return FUNCTIONS[name](*(self._value(arg, values) for arg in args))
        known = ", ".join(FUNCTIONS)
        raise InputError(f"`sweep.{self.name}`: {self.text!r} may have numbers, names, + - * / // % ** and {known}.")


def _bits(op: ast.operator, one: int, other: int) -> int | float:
    """How many bits a power or a product has at most."""
    match op:
        case ast.Pow():
            return max(0.0, other * math.log2(max(1, abs(one))))
        case ast.Mult():
            return one.bit_length() + other.bit_length()
    return 0


def _finite(value: Any) -> Any:
    """A value, if it is a finite real number."""
    if isinstance(value, complex) or not math.isfinite(value):
        raise ValueError(f"it is {value}")
    return value

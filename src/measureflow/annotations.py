"""Short names for the types of arguments, the same in the source, in `help` and in messages."""

from typing import Union

import numpy.typing as npt
from jax.typing import ArrayLike
from jaxtyping import Array, Float, PRNGKeyArray, Real
from typing_extensions import TypeAliasType

Number = TypeAliasType("Number", Real[ArrayLike, ""])
"""One real number, in Python or in an array."""
Numbers = TypeAliasType("Numbers", Union[npt.ArrayLike, Array, float, int])  # noqa: UP007
"""An array, or a number or lists of numbers that make one."""
Values = TypeAliasType("Values", Float[Array, "..."])
"""An array of real numbers: one for each of the `Numbers` asked about, broadcast."""
RandomKey = TypeAliasType("RandomKey", Union[PRNGKeyArray, int])  # noqa: UP007
"""A key of `jax.random`, or the seed of one."""

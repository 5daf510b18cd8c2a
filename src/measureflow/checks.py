"""Checks of what a user passes: each failure is a sentence that names the argument and the remedy.

Shapes are known while JAX traces and are always checked; values are checked only when they are there to look at.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, PyTree


def concrete(*values: PyTree) -> bool:
    """Whether the arrays hold numbers that are there to look at, rather than being traced or spread over processes."""
    return not any(isinstance(leaf, Tracer) or _elsewhere(leaf) for leaf in jax.tree.leaves(values))


def _elsewhere(leaf) -> bool:
    return isinstance(leaf, jax.Array) and not (leaf.is_fully_addressable or leaf.is_fully_replicated)


def floating(value) -> Array:
    """A floating point array from what a user passes: lists and integers become default floats, floats stay."""
    array = _numbers(value)
    if jnp.issubdtype(array.dtype, jnp.complexfloating):
        raise ValueError(
            f"Complex numbers would lose their imaginary part; pass real ones. Got {array.dtype}{array.shape}."
        )
    dtype = jax.dtypes.canonicalize_dtype(array.dtype if jnp.issubdtype(array.dtype, jnp.inexact) else float)
    # The cast settles the type of Python scalars, which otherwise would compile a second time; done before the numbers go to
    # the device, it compiles nothing.
    return jnp.asarray(array.astype(dtype), dtype)


def cast(value, dtype) -> Array:
    """A value in a precision; cast on the host where it is there to look at, so that it is no program of its own."""
    return jnp.asarray(np.asarray(value, dtype), dtype) if concrete(value) else jnp.asarray(value, dtype)


def _numbers(value) -> Array | np.ndarray:
    if isinstance(value, jax.Array):
        return value
    try:
        return np.asarray(value)
    except jax.errors.TracerArrayConversionError:  # a list of traced numbers
        return jnp.asarray(value)


def finite(name: str, value) -> None:
    """Refuse NaN and infinite entries; of a multiple of the identity its factor alone is looked at."""
    if not concrete(value):
        return
    good = [np.isfinite(np.asarray(leaf)) for leaf in jax.tree.leaves(value)]
    if bad := sum(int((~part).sum()) for part in good):
        raise ValueError(
            f"`{name}` has {bad} NaN or infinite entries out of {sum(part.size for part in good)}; all must be finite."
        )


def positive(name: str, value) -> None:
    """Refuse zero and negative entries."""
    if concrete(value) and not (np.asarray(value) > 0).all():
        raise ValueError(f"`{name}` must be positive; got the value {np.asarray(value).min():g}.")


def count(name: str, value, least: int, remedy: str = "") -> None:
    """Refuse what is not a whole number of at least so many."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
        raise ValueError(
            f"`{name}` must be a whole number, at least {least}; got {value!r}.{' ' + remedy if remedy else ''}"
        )


def shaped(name: str, value, shape: Sequence[int | str], remedy: str = "") -> None:
    """Refuse an array of another shape; a string in `shape` stands for any size."""
    got = np.shape(value)
    if len(got) != len(shape) or any(isinstance(want, int) and want != g for want, g in zip(shape, got, strict=True)):
        wanted = "(" + ", ".join(map(str, shape)) + ("," if len(shape) == 1 else "") + ")"
        raise ValueError(f"`{name}` must have shape {wanted}; got {got}.{' ' + remedy if remedy else ''}")


def rows(values: Array, n: int) -> Array:
    """Values of a function of a batch of points, refused if there is not one for each point."""
    if jnp.ndim(values) == 0 or values.shape[0] != n:
        raise ValueError(
            f"`integrand` is given all {n} points as rows, and must give a value for each; got shape {jnp.shape(values)}. "
            "`expect` takes functions of one point."
        )
    return values


class SizeError(ValueError):
    """Something was given points with another number of coordinates than it has matrices for."""


def sized(call: Callable[..., Any]) -> Callable[..., Any]:
    """A method that says whose sizes do not agree, where JAX would speak of contracting dimensions."""

    @functools.wraps(call)
    def speaking(self, *arguments, **options):
        try:
            return call(self, *arguments, **options)
        except TypeError as error:
            if "contracting dimensions" not in str(error):
                raise
            given = next((np.shape(one) for one in jax.tree.leaves(arguments) if np.ndim(one) == 2), ())
            own = [np.shape(one) for one in jax.tree.leaves(self, is_leaf=lambda part: hasattr(part, "shape"))]
            shapes = ", ".join(str(shape) for shape in own if len(shape) >= 2)
            raise SizeError(
                f"`{type(self).__name__}` has matrices of shape {shapes}, which do not fit points of shape {given}."
            ) from None

    return speaking


def symmetric(name: str, value) -> None:
    """Refuse a matrix that is not symmetric up to rounding."""
    if concrete(value):
        value = np.asarray(value)
        if (off := np.abs(value - value.T).max()) > 1e-12 * (1 + np.abs(value).max()):
            raise ValueError(
                f"`{name}` must be symmetric to have an energy; it is off by {off:.3g}. Use (A + A^T) / 2."
            )


def increasing(name: str, value) -> None:
    """Refuse times that do not increase strictly."""
    if concrete(value):
        value = np.asarray(value, np.float64)
        stuck = np.diff(value) <= 0
        if stuck.any():
            i = int(np.argmax(stuck))
            raise ValueError(
                f"`{name}` must increase strictly; entry {i + 1} is {value[i + 1]:g} after {value[i]:g}. "
                "A flow runs forward in time: for the reverse flow negate the field."
            )

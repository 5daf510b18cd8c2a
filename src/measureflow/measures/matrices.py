"""Multiples of the identity, which most papers take for their matrices, at the price of a scalar."""

from typing import Any, ClassVar, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jaxtyping import Array, Float, PyTree
from wadler_lindig import TextDoc

from measureflow import checks


@final
class Multiple(eqx.Module):
    """The matrix `factor I`: products with it are products with a number, `np.asarray` shows all of it."""

    __array_ufunc__: ClassVar[None] = None  # so that numpy leaves products to this class

    factor: Float[Array, "*stack"]
    dim: int = eqx.field(static=True)

    @property
    def T(self) -> "Multiple":
        """Its transpose is itself."""
        return self

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the matrix, or of a stack of them."""
        return (*self.factor.shape, self.dim, self.dim)

    @property
    def full(self) -> Float[Array, "*stack d d"]:
        """The matrix with all its entries."""
        return self.factor[..., None, None] * jnp.eye(self.dim, dtype=self.factor.dtype)

    def __rmatmul__(self, other: Any) -> Any:
        self._check(other.shape[-1])
        return self.factor * other

    def __matmul__(self, other: Any) -> Any:
        self._check(other.shape[0])
        return self.factor * other

    def _check(self, size: int) -> None:
        if size != self.dim:
            raise TypeError(f"contracting dimensions differ: {self.dim} and {size}")  # as products of arrays say it

    def __mul__(self, number: Any) -> "Multiple":
        return Multiple(self.factor * number, self.dim)

    __rmul__ = __mul__

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(np.asarray(self.factor)[..., None, None] * np.eye(self.dim), dtype)

    def __repr__(self) -> str:
        known = checks.concrete(self.factor) and not np.ndim(self.factor)
        return f"{float(self.factor):g} I" if known else f"c I, {self.shape}"

    def __pdoc__(self, **_: Any) -> TextDoc:
        """What shows inside the repr of a field."""
        return TextDoc(repr(self))


Matrix = Float[Array, "d d"] | Multiple
"""A square matrix, or what stands for one."""
Map = Float[Array, "k d"] | Multiple
"""A matrix of any shape, or what stands for one."""


def matrix(value: Any) -> Any:
    """A matrix from what a user passes; a multiple of the identity stays one."""
    return value if isinstance(value, Multiple) else checks.floating(value)


def full(tree: PyTree) -> PyTree:
    """A tree with every multiple of the identity written out."""
    is_multiple = lambda part: isinstance(part, Multiple)  # noqa: E731
    return jax.tree.map(lambda part: part.full if is_multiple(part) else part, tree, is_leaf=is_multiple)

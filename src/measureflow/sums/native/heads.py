"""Many attention heads on the same sequences, by the C++ kernel."""

from typing import final

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array

from measureflow.sums.kernels import AbstractHeadKernel

LARGEST = 2**13
"""Heads have at most that many parameters, so that one for each lane fits into the cache."""


@final
class NativeHeadKernel(AbstractHeadKernel):
    """The C++ kernel for heads with matrices of given widths.

    `threads` 0 uses every core, and results do not depend on it; `level` limits the instruction set, -1 takes the best.
    """

    key_dim: int = eqx.field(static=True)
    value_dim: int = eqx.field(static=True)
    threads: int = eqx.field(static=True, default=0)
    level: int = eqx.field(static=True, default=-1)

    def suits(self, points: Array) -> bool:
        """Whether the kernel takes such heads."""
        return points.dtype in (np.float32, np.float64) and points.shape[1] <= LARGEST

    def total(self, points: Array, weights: Array, tokens: Array) -> Array:
        """What weighted heads add to each position together."""
        return self._call("measureflow_heads", tokens, points, weights, tokens)

    def gradient(self, points: Array, tokens: Array, cotangents: Array) -> Array:
        """The gradient of every head."""
        return self._call("measureflow_heads_gradient", points, points, tokens, cotangents)

    def _call(self, name: str, like: Array, *arguments: Array) -> Array:
        call = jax.ffi.ffi_call(name, jax.ShapeDtypeStruct(like.shape, like.dtype), vmap_method="sequential")
        names = ("key_dim", "value_dim", "threads", "level")
        return call(*arguments, **{name: np.int32(getattr(self, name)) for name in names})

"""The GPU engine: Pallas kernels for NVIDIA cards.

Few coordinates, float32 or float64, go through lanes (`lanes.py`), many in float32 through products on the tensor cores
(`products.py`). Derivatives are sums by the same kernels, and a batch of sums is one launch.
"""

import functools
from typing import ClassVar, NamedTuple, final

import equinox as eqx
import jax
from jaxtyping import Array, Float, PyTree

from measureflow.sums import averages
from measureflow.sums.base import AbstractEngine, Attended, KernelSum
from measureflow.sums.blockwise import Blockwise
from measureflow.sums.costs import Cost
from measureflow.sums.pallas import lanes, products, slopes
from measureflow.sums.registry import register
from measureflow.sums.tangent import FEW_COORDINATES, attend_tangent

MOST = {"float32": 128, "float64": FEW_COORDINATES}
"""Coordinates that each precision can have; more do not fit the memory of a tile."""


def available() -> bool:
    """Whether the default device is a GPU."""
    return jax.default_backend() == "gpu"


@register
@final
class Pallas(AbstractEngine):
    """All pairs on an NVIDIA GPU: up to 8 coordinates in float32 and float64, up to 128 in float32; others go through blocks.

    `tolerance` decides how products of many coordinates are made: below 1e-6 in full, which is slower than the blocks of a
    small cloud. `interpret` runs the kernels step by step on any device, for tests.
    """

    exact: ClassVar[bool] = True
    batches: ClassVar[bool] = True
    costs: ClassVar[dict[str, Cost]] = {
        "gpu float32": Cost(3e-5, 2e-13, 6e-14),
        "gpu float64": Cost(3e-5, 1.3e-12, 1e-13),
    }
    tolerance: float = eqx.field(static=True, default=1e-5)
    interpret: bool = eqx.field(static=True, default=False)

    @classmethod
    def available(cls) -> bool:
        """On a GPU."""
        return available()

    @classmethod
    def serving(cls, sum: KernelSum) -> "Pallas | None":
        """Sums of as many coordinates as a tile has room for."""
        return cls() if sum.d <= MOST.get(sum.dtype, 0) else None

    def __check_init__(self):
        if not (self.interpret or available()):
            raise RuntimeError(
                "`Pallas` needs an NVIDIA GPU; the default device is a "
                f"{jax.default_backend()}. `Native` (if built), `Dense` and `Blockwise` work here."
            )

    def attend(
        self, covectors: Float[Array, "m d"], sources: Float[Array, "n d"], log_weights: Float[Array, " n"]
    ) -> Attended:
        """The log mass and tilted mean, by the kernel that applies."""
        d, dtype = covectors.shape[1], covectors.dtype.name
        if d > MOST.get(dtype, 0):
            return Blockwise().attend(covectors, sources, log_weights)
        if d > FEW_COORDINATES:
            return Attended(*_attend_many(slopes.Way(self.interpret, self.tolerance), covectors, sources, log_weights))
        return Attended(*_attend(self.interpret, covectors, sources, log_weights))

    def average(
        self,
        covectors: Float[Array, "m d"],
        offsets: Float[Array, " m"],
        sources: Float[Array, "n d"],
        log_weights: Float[Array, " n"],
        values: Float[Array, "n e"],
    ) -> Float[Array, "m e"]:
        """Averages of other values, by lanes for few coordinates."""
        arrays = covectors, offsets, sources, log_weights, values
        if covectors.shape[1] > FEW_COORDINATES or covectors.dtype.name not in MOST:
            return super().average(*arrays)
        return averages.average(*arrays, kernel=AverageKernel(self.interpret))

    def rows(self, row, sources: int, *queries: PyTree[Array]) -> PyTree[Array]:
        """Other functions of a row go through the blocks of the JAX engine."""
        return Blockwise().rows(row, sources, *queries)


class AverageKernel(NamedTuple):
    """The lanes behind averages."""

    interpret: bool

    def __call__(self, a: Array, b: Array, y: Array, w: Array, z: Array) -> Array:
        """The sums, all members of a batch in one launch."""
        return lanes.average(self.interpret, a, b, y, w, z)

    def exchanged(self) -> "AverageKernel":
        """Itself: it knows nothing of either side."""
        return self


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _attend(interpret: bool, a: Array, y: Array, w: Array) -> tuple[Array, Array]:
    return lanes.attend(interpret, a, y, w)


def _attend_jvp(interpret: bool, primals, tangents):
    a, y, w = primals
    log_mass, mean = _attend(interpret, *primals)

    def average(z):
        return averages.average(a, -log_mass, y, w, z, kernel=AverageKernel(interpret))

    return (log_mass, mean), attend_tangent(average, a, y, log_mass, mean, tangents)


_attend.defjvp(_attend_jvp, symbolic_zeros=True)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _attend_many(way: slopes.Way, a: Array, y: Array, w: Array) -> tuple[Array, Array]:
    return products.attend(*way, a, y, w)


@_attend_many.defjvp
def _attend_many_jvp(way: slopes.Way, primals, tangents):
    log_mass, mean = _attend_many(way, *primals)
    a, y, w = primals
    shift, moved = slopes.push(way, a, -log_mass, y, w, *tangents)
    return (log_mass, mean), (shift, moved - mean * shift[:, None])

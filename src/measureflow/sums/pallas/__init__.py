"""The GPU engine: Pallas kernels for NVIDIA cards.

Few coordinates, float32 or float64, go through lanes (`lanes.py`), many in float32 through products on the tensor cores
(`products.py`). Derivatives are sums by the same kernels, and a batch of sums is one launch.
"""

import functools
from typing import ClassVar, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero
from jaxtyping import Array, Float

from measureflow.sums import averages
from measureflow.sums.base import AbstractEngine, Attended, KernelSum
from measureflow.sums.blockwise import Blockwise
from measureflow.sums.costs import Cost
from measureflow.sums.pallas import lanes, products, slopes
from measureflow.sums.registry import register
from measureflow.sums.tangent import FEW_COORDINATES, second_moment, symmetric

MOST_COORDINATES = {"float32": 128, "float64": FEW_COORDINATES}
"""Coordinates that each precision can have; more do not fit the memory of a tile."""
KNOWN_SECOND = 4
"""Up to this many coordinates second moments are summed along with the means that are to be differentiated."""


def available() -> bool:
    """Whether the default device is a GPU."""
    return jax.default_backend() == "gpu"


@register
@final
class Pallas(AbstractEngine):
    """All pairs on an NVIDIA GPU: up to 8 coordinates in float32 and float64, up to 128 in float32; others go through blocks.

    `tolerance` decides how products of many coordinates are made: below 1e-6 in full float32, which is the slowest; from 1e-3 on
    with factors of eleven bits, twice as fast, whose scores have an error of their size times 5e-4. `interpret` runs the
    kernels step by step on any device, for tests.
    """

    exact: ClassVar[bool] = True
    batches: ClassVar[bool] = True
    costs: ClassVar[dict[str, Cost]] = {
        "gpu float32": Cost(2e-5, 3.3e-13, 1.8e-14),
        "gpu float64": Cost(2e-5, 1.3e-12, 1e-13),
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
        return cls() if sum.d <= MOST_COORDINATES.get(sum.dtype, 0) else None

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
        if d > MOST_COORDINATES.get(dtype, 0):
            return Blockwise().attend(covectors, sources, log_weights)
        way = slopes.Way(self.interpret, None if d <= FEW_COORDINATES else self.tolerance)
        return Attended(*_attend(way, covectors, sources, log_weights))

    def averaging(self, sum: KernelSum) -> slopes.AverageKernel | None:
        """The lanes, for few coordinates."""
        few = sum.d <= FEW_COORDINATES and sum.dtype in MOST_COORDINATES
        return slopes.AverageKernel(self.interpret) if few else None


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _attend(way: slopes.Way, a: Array, y: Array, w: Array) -> tuple[Array, Array]:
    if way.tolerance is None:
        return lanes.attend(way.interpret, a, y, w)
    return products.attend(way.interpret, way.tolerance, a, y, w)


def _attend_jvp(way: slopes.Way, primals, tangents):
    a, y, w = primals
    da, zeros = tangents[0], [isinstance(t, SymbolicZero) for t in tangents]
    known = way.tolerance is None and a.shape[1] <= KNOWN_SECOND and not zeros[0]
    log_mass, mean, *second = (_attend_second if known else _attend)(way, *primals)
    shift, moved = jnp.zeros_like(log_mass), jnp.zeros_like(mean)
    if known:
        covariance = second[0] - mean[:, :, None] * mean[:, None, :]
        shift, moved = jnp.sum(da * mean, 1), jnp.sum(covariance * da[:, None, :], 2)
    if not all(zeros[known:]):
        whole = [
            jnp.zeros_like(x) if zero else t
            for x, t, zero in zip(primals, tangents, [zeros[0] or known, *zeros[1:]], strict=True)
        ]
        along, out = slopes.push(way, a, -log_mass, y, w, *whole)
        shift, moved = shift + along, moved + out - mean * along[:, None]
    return (log_mass, mean), (shift, moved)


_attend.defjvp(_attend_jvp, symbolic_zeros=True)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _attend_second(way: slopes.Way, a: Array, y: Array, w: Array) -> tuple[Array, Array, Array]:
    """Log mass, mean and second moment."""
    log_mass, mean, second = lanes.attend_second(way.interpret, a, y, w)
    return log_mass, mean, second[:, symmetric(a.shape[1])]


@_attend_second.defjvp
def _attend_second_jvp(way: slopes.Way, primals, tangents):
    def apart(a, y, w):
        log_mass, mean = _attend(way, a, y, w)
        average = functools.partial(averages.average, a, -log_mass, y, w, kernel=slopes.AverageKernel(way.interpret))
        return log_mass, mean, second_moment(average, y)

    return _attend_second(way, *primals), jax.jvp(apart, primals, tangents)[1]

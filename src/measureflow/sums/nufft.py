"""Kernel sums in up to three coordinates through nonuniform Fourier transforms: a fast Gauss transform.

With `R = max |y|`, `b = max |a| R`, `x = R a / b` and `z = y / R`, all in the unit ball, the square is completed:

    e^{<a, y>} = e^{b |x|^2 / 2} e^{b |z|^2 / 2} e^{-b |x - z|^2 / 2}.

The second factor joins the weights and the third is a Gaussian, whose Fourier series is short. Box and numbers of modes follow
from `reach`, a bound on `|a| |y|` that the engine holds: they are known when compiling. Any covectors and sources are allowed.
The error is relative to the total weight; covectors that see too little of it, or exceed `reach`, are summed exactly.
"""

import functools
import importlib.util
import math
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array

from measureflow.sums.base import KernelSum
from measureflow.sums.devices import Devices
from measureflow.sums.fast import AbstractFast
from measureflow.sums.native.constants import SCORE_ROUNDINGS
from measureflow.sums.registry import register

MOST_COORDINATES = 3
"""Transforms are known for up to this many coordinates."""
MARGIN = 3
"""The error in units of the precision asked of each transform: two transforms and the cut-off series."""


def available() -> bool:
    """Whether jax-finufft is installed."""
    return importlib.util.find_spec("jax_finufft") is not None


@register
@final
class Nufft(AbstractFast):
    """Sums over tokens with up to three coordinates, in time nearly linear in the tokens.

    `reach` bounds `|a| |y|` (on the sphere it is beta). Log mass and mean are within `tolerance` of the exact ones, in units
    of `max |y|`, or within ten roundings of the largest score where that is more. Needs the extra `nufft`.
    """

    reach: float = eqx.field(static=True)
    tolerance: float = eqx.field(static=True, default=1e-6)

    @classmethod
    def available(cls) -> bool:
        """Where jax-finufft is installed."""
        return available()

    @classmethod
    def serving(cls, sum: KernelSum) -> "Nufft | None":
        """Sums of few coordinates whose scores have a known bound, where an error is allowed."""
        if sum.reach is None or sum.tolerance is None:
            return None
        few = sum.d <= MOST_COORDINATES and sum.dtype in ("float32", "float64")
        return cls(sum.reach, sum.tolerance) if few else None

    def __check_init__(self):
        if not available():
            raise ImportError(
                "`Nufft` needs jax-finufft: install `measureflow[nufft]`. `Fourier` sums over the circle without it, "
                "`Native`, `Blockwise` and `Dense` over anything."
            )
        if not 1e-12 <= self.tolerance < 1:
            raise ValueError(f"`tolerance` must lie between 1e-12 and 1; got {self.tolerance:g}.")
        if not 0 <= self.reach < math.inf:
            raise ValueError(f"`reach` must be a bound on the scores |a| |y|; got {self.reach:g}.")

    def check(self, sources: Array) -> None:
        """Refuse many coordinates and other precisions."""
        if sources.shape[1] > MOST_COORDINATES:
            raise ValueError(
                f"`Nufft` sums over up to {MOST_COORDINATES} coordinates; got {sources.shape[1]}. "
                "`Native`, `Blockwise` and `Dense` take any number."
            )
        if sources.dtype not in (np.float32, np.float64):
            raise TypeError(f"`Nufft` takes float32 or float64; got {sources.dtype}. `Blockwise` takes any.")

    def approximate(self, devices: Devices, a: Array, y: Array, w: Array) -> tuple[Array, Array, Array]:
        """By transforms, which the devices add up."""
        return _by_gaussians(self.reach, self.tolerance, devices, a, y, w)


def _precision(reach: float, tolerance: float, dim: int) -> float:
    """A small part of the tolerance for a covector that sees its share of a uniform sphere, `(2 b)^{-(d-1)/2}` of all."""
    least = 50 * float(jnp.finfo(jax.dtypes.canonicalize_dtype(np.float64)).eps)
    return max(least, 0.003 * tolerance * (1 + 2 * reach) ** (-(dim - 1) / 2))


def _modes(reach: float, precision: float) -> int:
    """Modes on each side: frequencies up to `sqrt(2 b l)` in steps of `2 pi / (2 + sqrt(2 l / b))`, with `l = -log precision`."""
    left = -math.log(precision)
    return math.ceil((2 * math.sqrt(2 * max(reach, 1.0) * left) + 2 * left) / (2 * math.pi))


def _by_gaussians(
    reach: float, tolerance: float, devices: Devices, a: Array, y: Array, w: Array
) -> tuple[Array, Array, Array]:
    """Log mass, mean and which covectors miss the tolerance."""
    wide = jax.dtypes.canonicalize_dtype(np.float64)
    kind, dim = a.dtype, a.shape[1]
    a, y, w = (x.astype(wide) for x in (a, y, w))
    precision = _precision(reach, tolerance, dim)
    farthest = devices.largest(jnp.sqrt(jnp.sum(y**2, 1).max()))
    radius = jnp.maximum(farthest, float(jnp.finfo(wide).tiny) ** 0.5)
    scores = lax.stop_gradient(jnp.sqrt(jnp.sum(a**2, 1))) * radius
    b = jnp.clip(devices.largest(scores.max()), 1.0, max(reach, 1.0))
    x = a * (radius / jnp.maximum(b, scores))[:, None]  # beyond reach: on the unit sphere, and summed exactly later
    z = y / radius
    w = w + 0.5 * b * jnp.sum(z**2, 1)
    top = devices.largest(w.max())
    weights = jnp.exp(w - top)
    mass, slope = _gauss(_modes(reach, precision), precision, devices, b, weights, x, z)
    log_mass = top + 0.5 * b * jnp.sum(x**2, 1) + jnp.log(mass)
    mean = radius * (x + slope / (b * mass)[:, None])
    allowed = jnp.maximum(tolerance, SCORE_ROUNDINGS * float(jnp.finfo(kind).eps) * (1 + scores))
    # The nearest periodic image lies sqrt(2 l / b) beyond the ball and pulls the mean by its distance.
    error = MARGIN * precision * (1 + jnp.sqrt(-2 * math.log(precision) / b)) * devices.total(weights.sum())
    missed = (mass * allowed < error) | (scores > b * (1 + 4 * float(jnp.finfo(wide).eps)))
    return log_mass.astype(kind), mean.astype(kind), missed


def _gauss(
    modes: int, precision: float, devices: Devices, b: Array, weights: Array, x: Array, z: Array
) -> tuple[Array, Array]:
    """The sum `sum_j u_j e^{-b |x - z_j|^2 / 2}` over points of the unit ball, and its gradient.

    Each mode has the factor `prod h / sqrt(2 pi b) e^{-h^2 k^2 / (2 b)}`; real fields travel in pairs, as one complex field.
    """
    import jax_finufft

    dim = x.shape[1]
    step = 2 * jnp.pi / (2 + jnp.sqrt(-2 * math.log(precision) / b))
    k = step * jnp.arange(-modes, modes + 1, dtype=b.dtype)
    axes = [k.reshape([-1 if i == j else 1 for j in range(dim)]) for i in range(dim)]
    one = step / jnp.sqrt(2 * jnp.pi * b) * jnp.exp(-(k**2) / (2 * b))
    kernel = functools.reduce(jnp.multiply.outer, [one] * dim)
    kinds = jax.dtypes.canonicalize_dtype(np.complex128)
    # The derivative rules of the library mix real and complex numbers, which a strict configuration would refuse.
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        moments = jax_finufft.nufft1(kernel.shape, weights.astype(kinds), *(step * z).T, iflag=-1, eps=precision)
    moments = devices.total(moments) * kernel.astype(kinds)
    fields = [moments, *(1j * jnp.broadcast_to(axis, kernel.shape).astype(kinds) * moments for axis in axes)]
    pairs = jnp.stack([f + 1j * g for f, g in zip(fields[::2], [*fields[1::2], 0 * fields[0]], strict=False)])
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        out = jax_finufft.nufft2(pairs, *(step * x).T, iflag=1, eps=precision)
    real = jnp.stack([out.real, out.imag], 1).reshape(-1, len(x))[: dim + 1]
    return real[0], real[1:].T

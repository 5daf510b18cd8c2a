"""Kernel sums on the circle through Fourier modes: work linear in the tokens.

For a covector of length `r` at the angle `s` and a source at the angle `t`

    e^{r cos(s - t)} = sum_k I_k(r) e^{ik(t - s)},

so sources enter through their moments `m_k = sum_j w_j e^{ik t_j}` alone, and about `9 sqrt(r)` of them count. All is scaled by
`e^{-r}`: nothing overflows. The error is some roundings of the total weight, so a covector that sees a tiny part of that weight
would lose digits; its bound is checked, and where it exceeds the tolerance the sum is made exactly.
"""

import functools
import math
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, PyTree

from measureflow import checks
from measureflow.spaces import AbstractSpace, Sphere
from measureflow.sums import native
from measureflow.sums.base import AbstractEngine, Attended
from measureflow.sums.blockwise import Blockwise
from measureflow.sums.isolated import resummed

LONGEST = 1e4
"""Covectors beyond this length need more than a thousand modes; they are summed exactly."""
MODES = (48, 200, 960)
"""Numbers of modes that are compiled for; the smallest that suffices is taken when running."""
ROUNDINGS = 10
"""Digits that no engine can give: scores of size `r` carry `r` roundings into the exponent."""


def applies(space: AbstractSpace, dim: int) -> bool:
    """Whether the engine serves tokens of this space: only those of the circle."""
    return isinstance(space, Sphere) and dim == 2


def modes(beta: float, tolerance: float = 1e-10) -> int:
    """About how many modes covectors of length `beta` need: the tail of a Gaussian of variance `beta`, and of `beta^k / k!`."""
    left = -math.log(max(1e-5 * tolerance, 2e-16))
    return math.ceil(math.sqrt(2 * left * abs(beta)) + left / 3)


def cost(m: int, n: int, beta: float, tolerance: float = 1e-10) -> float:
    """Seconds for `m` covectors of length `beta` and `n` sources where no covector is isolated, on two cores."""
    per_source, per_covector = (6e-11, 12e-11) if native.available() else (1.2e-8, 1.2e-8)
    return 3e-5 + modes(beta, tolerance) * (per_source * n + per_covector * m) + 3e-9 * (m + n)


@final
class Fourier(AbstractEngine):
    """Sums over tokens on the unit circle by Fourier modes, in time linear in the tokens.

    Log mass and mean are within `tolerance`, or within ten roundings of scores of their size where that is more (so float32
    gives about 1e-6 times `1 + |a|`). Covectors whose error bound is larger are summed exactly, as are all of them if sources
    are off the circle by more than the tolerance allows. `threads` 0 uses every core; results do not depend on it.
    """

    tolerance: float = eqx.field(static=True, default=1e-10)
    threads: int = eqx.field(static=True, default=0)
    level: int = eqx.field(static=True, default=-1)

    def __check_init__(self):
        if not 1e-14 <= self.tolerance < 1:
            raise ValueError(f"`tolerance` must lie between 1e-14 and 1; got {self.tolerance:g}.")

    def attend(
        self, covectors: Float[Array, "m d"], sources: Float[Array, "n d"], log_weights: Float[Array, " n"]
    ) -> Attended:
        """The log mass and tilted mean, by modes and exactly where these do not suffice."""
        _check(sources)
        if jax.default_backend() == "cpu" and native.available():
            seen = _natively(self.tolerance, self.threads, self.level, covectors, sources, log_weights)
        else:
            seen = _by_modes(self.tolerance, covectors, sources, log_weights)
        log_mass, mean, missed = seen
        return resummed(missed, Attended(log_mass, mean), covectors, sources, log_weights)

    def rows(self, row, sources: int, *queries: PyTree[Array]) -> PyTree[Array]:
        """Other functions of a row go through the blocks of the JAX engine."""
        return Blockwise().rows(row, sources, *queries)


def _check(sources: Array) -> None:
    if sources.shape[1] != 2:
        raise ValueError(
            f"`Fourier` sums over the circle, that is over two coordinates; got {sources.shape[1]}. `Nufft` takes up to 3, "
            "`Native`, `Blockwise` and `Dense` any number."
        )
    if sources.dtype not in (np.float32, np.float64):
        raise TypeError(f"`Fourier` takes float32 or float64; got {sources.dtype}. `Blockwise` takes any.")
    if checks.concrete(sources) and (off := np.abs(np.linalg.norm(np.asarray(sources), axis=1) - 1).max()) > 1e-6:
        raise ValueError(
            f"`Fourier` needs sources on the unit circle; a norm is off by {off:.3g}. "
            "`Nufft`, `Native`, `Blockwise` and `Dense` take any points."
        )


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1, 2))
def _natively(tolerance: float, threads: int, level: int, a: Array, y: Array, w: Array) -> tuple[Array, Array, Array]:
    kinds = ((a.shape[:1], a.dtype), (a.shape, a.dtype), (a.shape[:1], bool))
    shapes = [jax.ShapeDtypeStruct(*kind) for kind in kinds]
    call = jax.ffi.ffi_call("measureflow_modes", shapes, vmap_method="sequential")
    attributes = {"tolerance": np.float64(tolerance), "threads": np.int32(threads), "level": np.int32(level)}
    log_mass, mean, missed = call(a, y, w, **attributes)
    return log_mass, mean, missed


@_natively.defjvp
def _natively_jvp(tolerance: float, threads: int, level: int, primals, tangents):
    _, moved = jax.jvp(lambda *arrays: _by_modes(tolerance, *arrays), primals, tangents)
    return _natively(tolerance, threads, level, *primals), moved


def _by_modes(tolerance: float, a: Array, y: Array, w: Array) -> tuple[Array, Array, Array]:
    """Log mass, mean and which covectors miss the tolerance, in JAX."""
    wide = jax.dtypes.canonicalize_dtype(np.float64)
    kind, eps = a.dtype, float(jnp.finfo(wide).eps)
    a, y, w = (x.astype(wide) for x in (a, y, w))
    r = lax.stop_gradient(jnp.sqrt(jnp.sum(a**2, 1)))
    top = lax.stop_gradient(w.max())
    weights = jnp.exp(w - top)
    sums = _sums(((0, 0), (1, 0)), lax.complex(weights, jnp.zeros_like(weights))[:, None], _complex(a), _complex(y))[
        ..., 0
    ]
    mass = sums[:, 0].real
    mean = jnp.stack([sums[:, 1].real, sums[:, 1].imag], 1) / mass[:, None]
    allowed = jnp.maximum(tolerance, ROUNDINGS * float(jnp.finfo(kind).eps) * (1 + r))
    error = weights.sum() * (max(eps, 1e-5 * tolerance) + eps * (2 + jnp.sqrt(r)))
    off = jnp.abs(jnp.sqrt(jnp.sum(y**2, 1)) - 1).max()
    missed = (mass * allowed < error) | (r * off > allowed) | (r > LONGEST)
    return (top + r + jnp.log(mass)).astype(kind), mean.astype(kind), missed


def _complex(points: Array) -> Array:
    return lax.complex(points[:, 0], points[:, 1])


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _sums(powers: tuple[tuple[int, int], ...], u: Array, a: Array, y: Array) -> Array:
    """The sums `sum_j u_j y_j^p conj(y_j)^q e^{Re(conj(a) y_j) - r}` for each `(p, q)`, at `|y_j| = 1` and `r = |a|`.

    Points are complex numbers, `u` has a column for each sum. The scale `r` counts as a constant. Derivatives are sums of
    the same kind, and so right in all directions, also those that leave the circle.
    """
    r = jnp.abs(a)
    shifts = tuple(p - q for p, q in powers)
    needed = jnp.sqrt(2 * 37.0 * r.max()) + 12  # the tail is below 1e-16, as in `modes`
    level = jnp.searchsorted(jnp.array(MODES, needed.dtype), needed)
    branches = [functools.partial(_series, top, shifts) for top in MODES]
    return lax.switch(level, branches, u, a, y)


@_sums.defjvp
def _sums_jvp(powers: tuple[tuple[int, int], ...], primals, tangents):
    (u, a, y), (du, da, dy) = primals, tangents
    more = tuple(dict.fromkeys([*powers, *((p + 1, q) for p, q in powers), *((p, q + 1) for p, q in powers)]))
    fewer = tuple(
        dict.fromkeys([*powers, *((p - 1, q) for p, q in powers if p), *((p, q - 1) for p, q in powers if q)])
    )
    c, da = u.shape[1], da[:, None]
    still = dict(zip(more, jnp.moveaxis(_sums(more, u, a, y), 1, 0), strict=True))
    channels = jnp.concatenate([du, u * dy[:, None], u * jnp.conj(dy)[:, None]], 1)
    moved = dict(zip(fewer, jnp.moveaxis(_sums(fewer, channels, a, y), 1, 0), strict=True))

    def rate(p, q):
        by_weight, by_source, by_conjugate = jnp.split(moved[p, q], 3, 1)
        out = by_weight + 0.5 * (jnp.conj(da) * still[p + 1, q] + da * still[p, q + 1])
        out = out + 0.5 * (jnp.conj(a)[:, None] * by_source + a[:, None] * by_conjugate)
        out = out + p * moved[p - 1, q][:, c : 2 * c] if p else out
        return out + q * moved[p, q - 1][:, 2 * c :] if q else out

    return jnp.stack([still[power] for power in powers], 1), jnp.stack([rate(*power) for power in powers], 1)


def _series(top: int, shifts: tuple[int, ...], u: Array, a: Array, y: Array) -> Array:
    """The sums by modes `-top .. top`, in blocks of tokens that the backward pass computes again."""
    far = top + max(map(abs, shifts))
    size = 2**18 // far

    @jax.checkpoint
    def moments(block):
        u, y = block
        return jnp.matmul(_waves(far, jnp.angle(y)).T, u, precision=lax.Precision.HIGHEST)

    blocks = (_blocks(u, size), _blocks(y, size))
    total = lax.scan(
        lambda sum, block: (sum + moments(block), None), jnp.zeros((2 * far + 1, u.shape[1]), u.dtype), blocks
    )[0]
    coefficients = jnp.stack([lax.dynamic_slice_in_dim(total, far - top + s, 2 * top + 1) for s in shifts], 1)
    flat = coefficients.reshape(2 * top + 1, -1)

    @jax.checkpoint
    def values(a):
        r = jnp.abs(a)
        # Backward passes forget the rule above; with the scale constant here too, second derivatives along the circle hold.
        bessel = (_bessel(top, r) * jnp.exp(r - lax.stop_gradient(r))[None]).T
        waves = _waves(top, -jnp.angle(a)) * jnp.concatenate([bessel[:, :0:-1], bessel], 1).astype(a.dtype)
        return jnp.matmul(waves, flat, precision=lax.Precision.HIGHEST)

    rows = lax.map(values, _blocks(a, size))
    return rows.reshape(-1, len(shifts), u.shape[1])[: len(a)]


def _waves(top: int, angles: Array) -> Array:
    phase = angles[:, None] * jnp.arange(-top, top + 1, dtype=angles.dtype)[None]
    return lax.complex(jnp.cos(phase), jnp.sin(phase))


def _blocks(rows: Array, size: int) -> Array:
    """Rows in blocks of at most `size`, the last filled up with zeros."""
    size = min(size, len(rows))
    pad = -len(rows) % size
    return jnp.pad(rows, ((0, pad), *((0, 0),) * (rows.ndim - 1))).reshape(-1, size, *rows.shape[1:])


def _bessel(top: int, r: Array) -> Array:
    """The scaled Bessel numbers `e^{-r} I_k(r)` for `k = 0 .. top`, by ratios of neighbours from above."""

    def down(carry, k):
        ratio, total = carry
        ratio = r / (2 * k + r * ratio)
        return (ratio, ratio * (1 + total)), ratio

    first = r / (top + 0.5 + jnp.sqrt((top + 1.5) ** 2 + r**2))  # I_{top+1} / I_top to some percent
    (_, total), ratios = lax.scan(down, (first, jnp.zeros_like(r)), jnp.arange(1, top + 1, dtype=r.dtype), reverse=True)
    return jnp.cumprod(jnp.concatenate([1 / (1 + 2 * total)[None], ratios]), 0)

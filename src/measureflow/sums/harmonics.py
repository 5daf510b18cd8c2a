"""Kernel sums on the sphere of three coordinates through spherical harmonics.

For a covector of length `r` and a source at the angle `g` from it

    e^{r cos g} = sum_l (2l + 1) i_l(r) P_l(cos g),    P_l(<x, y>) = sum_m S_lm(x) S_lm(y),

with spherical Bessel numbers `i_l` and harmonics `S_lm` of degree `l`. Degree 16 gives six digits at `r = 4`, degree 55 at
`r = 64`; the work for each token grows with the square of the degree.
"""

from typing import ClassVar, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array

from measureflow.sums import series as sums
from measureflow.sums.costs import Cost
from measureflow.sums.native import constants
from measureflow.sums.pallas.modes import Walk
from measureflow.sums.registry import register


def _steps(top: int) -> np.ndarray:
    """The two factors of each step, and the start `Q_mm` on the diagonal, for all `l, m <= top`:

    `sqrt(l^2 - m^2) Q_l = (2l - 1) z Q_{l-1} - sqrt((l-1)^2 - m^2) Q_{l-2}`.
    """
    degree, order = np.ogrid[: top + 1, : top + 1]
    root = np.sqrt(np.where(order < degree, degree**2 - order**2, 1))
    ahead = np.where(order < degree, (2 * degree - 1) / root, 0)
    behind = np.where(order < degree, np.sqrt(np.maximum((degree - 1) ** 2 - order**2, 0)) / root, 0)
    start = np.diag(np.cumprod(np.sqrt(np.maximum(2 * order[0] - 1, 1) / np.maximum(2 * order[0], 1))))
    return np.stack([ahead, behind, start])


def _harmonics(top: int, points: Array) -> Array:
    """The functions `Q_lm(z) Re (x + iy)^m` and `Q_lm(z) Im (x + iy)^m` for all `l, m <= top`; zero where `m > l`."""
    x, y, z = points.T

    def up(carry, factors):
        last, before = carry
        ahead, behind, start = (row[None] for row in factors)
        here = ahead * z[:, None] * last - behind * before + start
        return (here, last), here

    none = jnp.zeros((len(z), top + 1), z.dtype)
    factors = tuple(jnp.asarray(table, z.dtype) for table in _steps(top))
    q = jnp.moveaxis(lax.scan(up, (none, none), factors)[1], 0, 1)
    orders = jnp.arange(top + 1, dtype=z.dtype)
    phase = jnp.arctan2(y, x)[:, None] * orders[None]
    length = jnp.sqrt(x**2 + y**2)[:, None] ** orders[None]
    waves = jnp.stack([length * jnp.cos(phase), length * jnp.sin(phase)], 1)
    return (waves[:, :, None, :] * q[:, None]).reshape(len(z), -1)


def _over(fma, degree: Array, steps, points: list[Array], visit, state):
    """Harmonics `Q_lm(z) (x + iy)^m`, order by order."""
    x, y, z = points

    def order(m, carry):
        c, s, state = carry
        first = jnp.zeros_like(z) + steps[2, m, m]
        state = visit((m, m), m, first * c, first * s, state)

        def rise(k, carry):
            last, before, state = carry
            here = fma(before, -steps[1, k, m], steps[0, k, m] * z * last)
            return here, last, visit((k, m), k, here * c, here * s, state)

        state = jax.lax.fori_loop(m + 1, degree + 1, rise, (first, jnp.zeros_like(z), state))[2]
        return fma(c, x, -(s * y)), fma(s, x, c * y), state

    return jax.lax.fori_loop(0, degree + 1, order, (jnp.ones_like(x), jnp.zeros_like(x), state))[2]


def _bessel(top: int, r: Array) -> Array:
    """The numbers `(2l + 1) e^{-r} i_l(r)`."""
    first = r / (top + 1 + jnp.sqrt((top + 2) ** 2 + r**2))  # i_{top+1} / i_top to some percent
    return sums.ratios_down(top, r, first, lambda k, next: r / (2 * k + 1 + r * next), lambda k: 2 * k + 1)


def _tail(k: Array, r: Array) -> Array:
    """The sum telescopes, since `(2l + 1) i_l = r (i_{l-1} - i_{l+1})`: it is `r (i_k + i_{k+1})`."""
    return jnp.sqrt(jnp.pi * r / 2) * sums.debye(k + 0.5, r) * (1 + sums.ratio_bound(k + 0.5, r))


def _degrees(top: int) -> np.ndarray:
    return np.tile(np.repeat(np.arange(top + 1), top + 1), 2)


def _shares(top: int) -> np.ndarray:
    """An order above zero counts twice, for both signs."""
    return np.tile(np.where(np.arange(top + 1) == 0, 1.0, 2.0), (top + 1, 1))


SPHERE = sums.Series(
    space="sphere",
    dim=3,
    beside="`Fourier` sums over the circle",
    features=_harmonics,
    bessel=_bessel,
    degrees=_degrees,
    shares=lambda top: np.tile(_shares(top).ravel(), 2),
    tops=(16, 40, 160),
    tail=_tail,
    walk=Walk(4, lambda top: (top + 1, top + 1), _steps, _shares, _over, 1, lambda k: 2 * k + 1),
    target="measureflow_sphere",
    width=lambda top: (top + 2) * (top + 3),
    longest=constants.SPHERE_LONGEST,
    part=constants.SPHERE_PART,
    roundings=constants.SPHERE_ROUNDINGS,
)


@register
@final
class Harmonics(sums.AbstractSeries):
    """Sums over tokens on the unit sphere of three coordinates by spherical harmonics, in time linear in the tokens.

    Log mass and mean are within `tolerance`, or within ten roundings of scores of their size where that is more. Covectors
    whose error bound is larger are summed exactly, as are all longer than 256, and all if sources are off the sphere by more
    than the tolerance allows. `threads` 0 uses every core; results do not depend on it.
    """

    series: ClassVar[sums.Series] = SPHERE
    costs: ClassVar[dict[str, Cost]] = {
        **dict.fromkeys(("cpu float32", "cpu float64"), Cost(1e-5, token=6e-8)),
        **dict.fromkeys(("gpu float32", "gpu float64"), Cost(5e-4, token=2.5e-9)),
    }
    sizes: ClassVar[tuple[int, ...]] = (2000, 20000)
    tolerance: float = eqx.field(static=True, default=1e-6)
    threads: int = eqx.field(static=True, default=0)
    level: int = eqx.field(static=True, default=-1)

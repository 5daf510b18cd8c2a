"""The exponential integral Ei, with its logarithm kept apart.

Laws of overlaps need Ei(b share) for a share in (0, 1) known by its logarithm, and only its changes with the share.
Kept apart, the logarithm stays exact however small the share is, and b = 0 is an ordinary point. For the rest jax's
`expi` would do, but it is slow to compile and, left of zero, slow to run: its loops wait for the slowest element.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array

from measureflow.annotations import Values

# Depths for float64: of the power series up to 40, of the asymptotic series from 40 on, of the fraction up to -2.
_POWERS = 110
_INVERSE_POWERS = 40
_FLOORS = 50


def ei_of_share(b: Values, log_share: Values) -> Values:
    """Exponential integral of a share of b, up to a constant in the share when b is small.

    Ei(b share) for |b| >= 1, and Ei(b share) - log|b| - EulerGamma below, which is log(share) at b = 0.
    """
    x = b * jnp.exp(log_share)
    near, small = (x > -2) & (x < 40), jnp.abs(b) < 1
    constant = jnp.where(small, 0.0, jnp.euler_gamma + jnp.log(jnp.abs(jnp.where(small, 1.0, b))))
    return jnp.where(near, log_share + constant + _entire(jnp.where(near, x, 0.0)), _far(jnp.where(near, -2.0, x)))


def _entire(x: Values) -> Values:
    """Ei(x) - log|x| - EulerGamma = x/1 + x^2/(2 2!) + x^3/(3 3!) + ..."""
    return x * _nested(lambda k, rest: 1 / k + x / (k + 1) * rest, jnp.zeros_like(x), _POWERS)


@jax.custom_jvp
def _far(x: Values) -> Values:
    """Ei(x) far from zero.

    e^x (1 + 1!/x + 2!/x^2 + ...) / x for x >= 40, and -e^x / (v + 1 - 1/(v + 3 - 4/(v + 5 - ...))) for v = -x >= 2.
    """
    v, w = jnp.where(x < 0, -x, 2.0), jnp.where(x < 0, 40.0, x)
    fraction = _nested(lambda k, rest: v + 2 * k - 1 - k**2 / rest, v + 2 * _FLOORS + 1, _FLOORS)
    series = _nested(lambda k, rest: 1 + k / w * rest, jnp.ones_like(w), _INVERSE_POWERS)
    return jnp.exp(x) * jnp.where(x < 0, -1 / fraction, series / w)


_far.defjvps(lambda dx, ei, x: jnp.exp(x) / x * dx)


def _nested(step: Callable[..., Array], innermost: Values, depth: int) -> Values:
    """Evaluates a nested expression from the inside out: step(1, step(2, ... step(depth, innermost)))."""
    levels = jnp.arange(depth, 0, -1, dtype=innermost.dtype)
    return lax.scan(lambda rest, k: (step(k, rest), None), innermost, levels)[0]

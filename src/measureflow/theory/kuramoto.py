"""Tokens on the circle under uniform attention (beta = 0): Kuramoto's identical oscillators with unit coupling.

The flow x' = P_x(mean) moves tokens by Moebius maps of the disc. A cloud that starts as such an image of the uniform
measure, a Poisson kernel, stays one, and its order parameter r = |mean| tells all of it (ott:08, Ott and Antonsen).
With n tokens this holds up to about r^(n-1).
"""

import jax.numpy as jnp
from jaxtyping import Array, Float

from measureflow.annotations import Number, Numbers, Values


def rate(r: Numbers) -> Values:
    """Speed of the order parameter.

    r' = r (1 - r^2) / 2: 3/16 at r = 1/2, zero for uniform and for equal tokens. For Poisson kernels (ott:08).
    """
    r = jnp.asarray(r, dtype=float)
    return r * (1 - r**2) / 2


def order_parameter(t: Numbers, start: Numbers) -> Values:
    """Length of the mean token at a given time.

    r^2 / (1 - r^2) grows like e^t, so r = r0 / sqrt(r0^2 + (1 - r0^2) e^{-t}). From r0 = 1/2, where the odds are 1/3,
    r^2 = 1/2 is reached at t = log 3. For Poisson kernels with 0 <= r0 <= 1 (ott:08).
    """
    t, start = jnp.asarray(t, dtype=float), jnp.asarray(start, dtype=float)
    return start / jnp.sqrt(start**2 + (1 - start**2) * jnp.exp(-t))


def time_to(r: Numbers, start: Numbers) -> Values:
    """Time at which the mean token reaches a given length, the inverse of `order_parameter`.

    t = log(r^2 / (1 - r^2)) - log(r0^2 / (1 - r0^2)): log 3 from r0 = 1/2 to r^2 = 1/2. For 0 < r, r0 < 1 (ott:08).
    """
    r, start = jnp.asarray(r, dtype=float), jnp.asarray(start, dtype=float)
    return 2 * jnp.log(r / start) + jnp.log1p(-(start**2)) - jnp.log1p(-(r**2))


def poisson_angles(n: int, r: Number) -> Float[Array, " {n}"]:
    """Angles of tokens that sample a Poisson kernel about angle zero with a given order parameter.

    tan(theta/2) = (1 - r)/(1 + r) tan(phi/2) with phi the n midpoints of an equal division of the circle. Their mean is
    r + (1 - r^2) r^(n-1) / (1 + r^n) exactly: 2r/(1 + r^2) for two tokens, and r to rounding once r^(n-1) is small.
    For 0 <= r < 1; at r = 0 the tokens are equally spaced.
    """
    r = jnp.asarray(r, dtype=float)
    half = jnp.pi * ((jnp.arange(n, dtype=float) + 0.5) / n - 0.5)
    return 2 * jnp.arctan2((1 - r) * jnp.sin(half), (1 + r) * jnp.cos(half))

"""What causal attention with a linear bias remembers: the response of the last token to each position, near the uniform state.

Positions run over (0, 1]. With the slope l of the bias, a query at s looks at u < s with the weight e^{lu} / E(s), where
E(s) = (e^{ls} - 1)/l, which is s for l = 0. A small disturbance of one mode of the uniform law on the circle obeys
dh/dt(s) = a ∫_0^s e^{lu} h(u) du / E(s), with the growth rate a of the mode. In the variable log E this is an integral over the
past, so its powers are known. Time comes in the unit of the rates: k^2 I_k(beta)/(beta I_0(beta)) for softmax attention here
(`circle.softmax_growth`), k^2 I_k(beta)/beta unnormalised (`noise.growth`), and k^2 I_k(beta) in middle:26 (`published_rates`).
"""

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import i1e
from jax.typing import ArrayLike
from jaxtyping import Float

from measureflow.annotations import Numbers, Values
from measureflow.theory.noise import growth


def published_rates(beta: Numbers, modes: int) -> Values:
    """Growth rates of the modes 1, 2, ... in the time unit of the paper: k^2 I_k(beta) (middle:26)."""
    beta, k = _floats(jnp.asarray(beta, float)[..., None], jnp.arange(1.0, modes + 1))
    return beta * growth(k, 0.0, beta)


def weight(s: Numbers, u: Numbers, slope: Numbers) -> Values:
    """How much a query at s looks at u, as a density over the past: e^{lu} / E(s), and 1/s without a bias."""
    s, u, slope = _floats(s, u, slope)
    return jnp.exp(slope * u) / _past(s, slope)


def response(t: Numbers, s: Numbers, u: Numbers, rate: Numbers, slope: Numbers) -> Values:
    """How much a mode at s answers after a time to a disturbance at u < s, beside its own that stays.

    e^{lu}/E(s) psi_{at}(log(E(s)/E(u))), psi_c(y) = sum_k c^{k+1} y^k / (k! (k+1)!) = sqrt(c/y) I_1(2 sqrt(cy)): for short times
    the `weight` times at, and without a bias it diverges like e^{2 sqrt(at log(1/u))} at the first positions (middle:26).
    """
    t, s, u, rate, slope = _floats(t, s, u, rate, slope)
    c, y = rate * t, jnp.log(_past(s, slope) / _past(u, slope))
    return weight(s, u, slope) * _chains(c, y)


def profile(t: Numbers, u: Numbers, rates: Float[ArrayLike, " k"], slope: Numbers, width: Numbers) -> Values:
    """What the last token retrieves of each position: responses of the modes 1, 2, ... with weights e^{-pi^2 k^2/(2 width^2)}.

    Rises towards both ends, like the letter U, up to the `critical_time`; then it falls all the way (middle:26).
    """
    t, u, slope, width = (x[..., None] for x in _floats(t, u, slope, width))
    rates, w, t, u, slope = _floats(*_modes(rates, width), t, u, slope)
    return (w * response(t, 1.0, u, rates, slope)).sum(-1)


def critical_time(rates: Float[ArrayLike, " k"], slope: Numbers, width: Numbers) -> Values:
    """Time at which the `profile` stops rising towards the last position.

    2 (1 - e^{-l}) sum w_k a_k / sum w_k a_k^2, where its slope at u = 1 is zero, from psi_c = c + c^2 y/2 + ...: 0.600716 at
    l = 1, width 8 and beta = 2 in the unit of the paper. Zero without a bias, l = 0 (middle:26).
    """
    slope, width = _floats(slope, width)
    rates, w = _modes(rates, width[..., None])
    return -2 * jnp.expm1(-slope) * (w * rates).sum(-1) / (w * rates**2).sum(-1)


def _past(s: Values, slope: Values) -> Values:
    """E(s) = (e^{ls} - 1)/l."""
    flat = slope == 0
    return jnp.where(flat, s, jnp.expm1(slope * s) / jnp.where(flat, 1.0, slope))


def _chains(c: Values, y: Values) -> Values:
    """psi_c(y), the sum over chains of tokens that pass a disturbance on."""
    z = 2 * jnp.sqrt(c * y)
    safe = jnp.where(z > 0, z, 1.0)
    return c * jnp.where(z > 0, 2 * i1e(safe) * jnp.exp(safe) / safe, 1.0)


def _modes(rates: Float[ArrayLike, " k"], width: Values) -> list[Values]:
    """The rates of the modes and their weights."""
    rates = jnp.asarray(rates, float)
    if rates.ndim != 1 or rates.size == 0:
        raise ValueError(f"`rates` must list the growth rates of the modes 1, 2, ...; got shape {rates.shape}.")
    if not (np.asarray(width) > 0).all():
        raise ValueError(f"`width` must be positive; got {np.asarray(width).min():g}.")
    rates, k, width = _floats(rates, jnp.arange(1.0, rates.size + 1), width)
    return [rates, jnp.exp(-((jnp.pi * k / width) ** 2) / 2)]


def _floats(*numbers: Numbers) -> list[Values]:
    """Floating-point arrays of one shape."""
    return jnp.broadcast_arrays(*(jnp.asarray(x, dtype=float) for x in numbers))

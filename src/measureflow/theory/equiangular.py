"""Tokens on the sphere that all meet at the same angle, and keep doing so.

The common overlap gamma lives between the simplex, -1/(n-1), and consensus, 1. Its logit s, with odds
e^s = (gamma + 1/(n-1)) / (1 - gamma), runs over the whole line at a bounded pace: laws are solved in s.
A model of attention is two weights, (steady, waiting): a unit of logit takes (steady + waiting e^{beta (1-gamma)}) / 2.
Pass `model=softmax` (SA, the default) or `model=unnormalised` (USA). Functions broadcast, and beta may have any sign.
Reference: geshkovski:25 (arXiv 2312.10794); the closed form of the time and the logit coordinate are ours.
"""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax
from jax.nn import log_sigmoid, sigmoid
from typing_extensions import TypeAliasType

from measureflow.annotations import Numbers, Values
from measureflow.theory._exponential_integral import ei_of_share

Model = TypeAliasType("Model", Callable[[Values, Values], tuple[Values, Values]])

# The log of the mean pace lies in an interval of length |b|; 20 halvings bring Newton's start within 1e-6 |b| (s - s0).
_HALVINGS = 20
_POLISHINGS = 5


def softmax(n: Values, beta: Values) -> tuple[Values, Values]:
    """Weights (steady, waiting) of softmax attention: (n - 1)/n and 1/n."""
    return 1 - 1 / n, jnp.ones_like(beta) / n


def unnormalised(n: Values, beta: Values) -> tuple[Values, Values]:
    """Weights (steady, waiting) of attention with the kernel e^{beta <x, y>} / n: 0 and e^{-beta}."""
    return jnp.zeros_like(n), jnp.exp(-beta)


def pace(gamma: Numbers, n: Numbers, beta: Numbers, *, model: Model = softmax) -> Values:
    """Speed of the logit of the overlap.

    s' = 2n / (e^{beta (1 - gamma)} + n - 1) for softmax, s' = 2 e^{beta gamma} unnormalised: 2 for both at beta = 0.
    It is monotone in gamma, so its values at the simplex and at consensus bound it (from geshkovski:25).
    """
    gamma, n, beta = _floats(gamma, n, beta)
    steady, waiting = model(n, beta)
    return 2 / (steady + waiting * jnp.exp(beta * (1 - gamma)))


def rate(gamma: Numbers, n: Numbers, beta: Numbers, *, model: Model = softmax) -> Values:
    """Speed of the overlap itself.

    gamma' = (1 - gamma) ((n - 1) gamma + 1) / n times the pace of the logit: 2/n for orthogonal tokens at beta = 0, and
    zero at consensus and at the simplex gamma = -1/(n-1). For n >= 2 tokens in any dimension that holds them
    (geshkovski:25, which states it for orthogonal starts).
    """
    gamma, n, beta = _floats(gamma, n, beta)
    return (1 - gamma) * ((n - 1) * gamma + 1) / n * pace(gamma, n, beta, model=model)


def time_to(gamma: Numbers, n: Numbers, beta: Numbers, start: Numbers = 0.0, *, model: Model = softmax) -> Values:
    """Time at which the overlap has gone from its start to the given value; negative when that lies behind.

    2t = steady (s - s0) + waiting (F(s) - F(s0)) with F = e^b Ei(-v) - Ei(u), where u = beta (1 - gamma),
    v = beta (gamma + 1/(n-1)) and b = u + v. At beta = 0, F is s: orthogonal tokens reach gamma at the time
    log((1 + (n-1) gamma) / (1 - gamma)) / 2, two of them reach 1/2 at log(3)/2. For gamma and start strictly between
    -1/(n-1) and 1, and |b| < 700 in float64 (from geshkovski:25).
    """
    gamma, n, beta, start = _floats(gamma, n, beta, start)
    return _age(_logit(gamma, n), n, beta, model) - _age(_logit(start, n), n, beta, model)


def overlap(t: Numbers, n: Numbers, beta: Numbers, start: Numbers = 0.0, *, model: Model = softmax) -> Values:
    """Common overlap at a given time, which may be negative.

    gamma(t) = 1 - gap(t), the inverse of `time_to`. From orthogonal tokens at beta = 0 it is
    (e^{2t} - 1) / (e^{2t} + n - 1): two tokens reach 1/2 at t = log(3)/2. Holds where `time_to` does (geshkovski:25).
    The error is a few roundings of t times gamma': above 1e-12 only if |t gamma'| > 100, after a metastable wait.
    """
    return 1 - gap(t, n, beta, start, model=model)


def gap(t: Numbers, n: Numbers, beta: Numbers, start: Numbers = 0.0, *, model: Model = softmax) -> Values:
    """Distance of the overlap from one, with relative accuracy however close consensus is.

    1 - gamma = n/(n-1) / (1 + e^s), with s the logit whose time is t. At beta = 0, s = s0 + 2t, and from orthogonal
    tokens the gap is n / (e^{2t} + n - 1): two tokens have 1/2 left at t = log(3)/2. Holds where `time_to` does.
    """
    t, n, beta, start = _floats(t, n, beta, start)
    return n / (n - 1) * sigmoid(-_logit_at(t, n, beta, _logit(start, n), model))


def _floats(*numbers: Numbers) -> list[Values]:
    """Floating-point arrays of one shape."""
    return jnp.broadcast_arrays(*(jnp.asarray(x, dtype=float) for x in numbers))


def _logit(gamma: Values, n: Values) -> Values:
    return jnp.log(((n - 1) * gamma + 1) / (n - 1)) - jnp.log(1 - gamma)


@partial(jax.jit, static_argnames="model")
def _age(s: Values, n: Values, beta: Values, model: Model) -> Values:
    """Time at logit s, up to a constant; e^b Ei(-v) and -Ei(u) both increase, so their changes do not cancel."""
    steady, waiting = model(n, beta)
    b = beta * n / (n - 1)
    near, far = ei_of_share(jnp.stack([-b, b]), log_sigmoid(jnp.stack([s, -s])))
    return (steady * s + waiting * (jnp.exp(b) * near - far)) / 2


@partial(jax.jit, static_argnames="model")
def _logit_at(t: Values, n: Values, beta: Values, s0: Values, model: Model) -> Values:
    """Logit at time t, the root of age(s) = age(s0) + t.

    Bisection finds the log of the mean pace (s - s0) / t, which lies between those of the two equilibria; Newton
    does the rest.
    """
    target = _age(s0, n, beta, model) + t
    paces = [jnp.log(pace(gamma, n, beta, model=model)) for gamma in (jnp.ones_like(n), -1 / (n - 1))]

    def solve(residual, _):
        def halve(_, bracket):
            middle = (bracket[0] + bracket[1]) / 2
            late = jnp.sign(t) * residual(s0 + t * jnp.exp(middle)) > 0
            return jnp.where(late, bracket[0], middle), jnp.where(late, middle, bracket[1])

        def polish(_, s):
            return s - residual(s) * pace(1 - n / (n - 1) * sigmoid(-s), n, beta, model=model)

        slow, _ = lax.fori_loop(0, _HALVINGS, halve, (jnp.minimum(*paces), jnp.maximum(*paces)))
        return lax.fori_loop(0, _POLISHINGS, polish, s0 + t * jnp.exp(slow))

    # The equation is differentiated, not the iterations.
    return lax.custom_root(lambda s: _age(s, n, beta, model) - target, s0, solve, lambda g, y: y / g(jnp.ones_like(y)))

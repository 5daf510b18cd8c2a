"""How many modes a Gaussian density estimate of normal tokens has on the line.

With n independent standard normal tokens and the bandwidth h = beta^{-1/2}, the estimate is sum_i e^{-beta (t - x_i)^2/2}. Where
many tokens share a bandwidth its slope is a Gaussian process, whose zeros Kac and Rice count; where few do, it is Poisson shot
noise, and single tokens are modes. Modes fill two belts, in which noise exceeds the slope of the normal density and tokens are
not yet alone: their number is of order sqrt(beta log beta) (geshkovski:24). The constant and the other formulas are derived.
Functions broadcast.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jax.scipy.stats import norm

from measureflow.annotations import Numbers, Values

DENSE = (3 / 2) ** 0.5 / (2 * jnp.pi)
"""Modes per bandwidth of stationary noise with a Gaussian kernel: by Rice, sqrt(-r''''/r'') / 2π with r = e^{-u²/4}."""

SHOT = {
    0.05: 0.0450, 0.1: 0.0808, 0.2: 0.1321, 0.3: 0.1598, 0.4: 0.1766, 0.55: 0.1888, 0.7: 0.1912, 0.85: 0.1930, 1.0: 0.1941,
    1.5: 0.1949,
}  # fmt: skip
"""Modes per bandwidth of Poisson shot noise by its tokens per bandwidth, from simulations with a standard error of .001."""

_POINTS = 4001
_PROCESS = 0.3
_MOST = 1.5


def edge(n: Numbers, beta: Numbers) -> Values:
    """The place beyond which tokens are alone in their bandwidth, up to constants: T = sqrt(2 log n - log beta), NaN beyond n^2.

    Almost all modes lie within it (geshkovski:24).
    """
    n, beta = _floats(n, beta)
    return jnp.sqrt(2 * jnp.log(n) - jnp.log(beta))


def kac_rice(t: Numbers, n: Numbers, beta: Numbers) -> Values:
    """The density of modes at a place, as if the slope were a Gaussian process there.

    The mean of (g'')_- at g' = 0, times the density of g' at zero, with all moments in closed form. It may be integrated only
    up to `edge`: beyond, tokens are few and the slope is far from Gaussian. Far out this density hardly falls, so that its
    integral grows with the reach. Where tokens are many it is small beside zero, since the normal density has a slope there.
    """
    t, n, beta = _floats(t, n, beta)
    one, two = partial(_moment, t, beta, 1), partial(_moment, t, beta, 2)
    mean, bend = one(1), one(0) - beta * one(2)
    var = (two(2) - mean**2) / n
    cross = (two(1) - beta * two(3) - mean * bend) / n
    spread = (two(0) - 2 * beta * two(2) + beta**2 * two(4) - bend**2) / n
    middle = bend - cross / var * mean
    s = jnp.sqrt(spread - cross**2 / var)
    return norm.pdf(mean / jnp.sqrt(var)) / jnp.sqrt(var) * (middle * norm.cdf(middle / s) + s * norm.pdf(middle / s))


def kac_rice_count(n: Numbers, beta: Numbers, reach: Numbers | None = None) -> Values:
    """The integral of `kac_rice` up to a reach on either side, `edge` unless given: 31.8 modes of 1000 tokens at beta = 1000."""
    reach = edge(n, beta) if reach is None else reach
    n, beta, reach = _floats(n, beta, reach)
    return _integral(kac_rice, n, beta, reach)


def shot_noise(tokens: Numbers) -> Values:
    """Modes per bandwidth of Poisson shot noise with so many tokens per bandwidth.

    L e^{-2L} for few, because two tokens have one mode when they are closer than two bandwidths; sqrt(3/2)/2π = 0.195 for many;
    simulated in between.
    """
    tokens = jnp.asarray(tokens, float)
    table = jnp.interp(tokens, jnp.array(list(SHOT)), jnp.array(list(SHOT.values())), right=DENSE)
    return jnp.where(tokens < min(SHOT), tokens * jnp.exp(-2 * tokens), table)


def count(n: Numbers, beta: Numbers) -> Values:
    """The expected number of modes of n tokens: `shot_noise` at the local number of tokens, where noise exceeds the slope.

    ∫ sqrt(beta) m(L) S dt with L = n φ(t)/sqrt(beta): S compares `kac_rice` with stationary noise where tokens are many, and is
    e^{-mean²/2 var} of the slope where they are few. The switch at L = 0.3 is ad hoc. From beta about n^{2/5}, below which there
    are one or two modes, up to any beta; 37 modes of 1000 tokens at beta = 1000.
    """
    n, beta = _floats(n, beta)
    return _integral(_mixed, n, beta, jnp.sqrt(2 * jnp.log(n)) + 3.0)


def constant(exponent: Numbers) -> Values:
    """The limit of the number of modes over sqrt(beta log beta) when beta = n^a: two belts of density sqrt(3 beta/2)/2π.

    C(a) = (sqrt(3)/π) (sqrt(1 - a/2) - sqrt((1 - 3a/2)_+)) / sqrt(a): sqrt(3)/(π sqrt(2)) = 0.39 at a = 1, zero at a = 2. For
    0 < a < 2 (derived); the limit is reached only like 1/log n.
    """
    a = jnp.asarray(exponent, float)
    return jnp.sqrt(3.0) / jnp.pi * (jnp.sqrt(1 - a / 2) - jnp.sqrt(jnp.maximum(1 - 1.5 * a, 0.0))) / jnp.sqrt(a)


def law(n: Numbers, beta: Numbers) -> Values:
    """The number of modes to leading order, C(a) sqrt(beta log beta) with a = log beta / log n (geshkovski:24 for the order)."""
    n, beta = _floats(n, beta)
    return constant(jnp.log(beta) / jnp.log(n)) * jnp.sqrt(beta * jnp.log(beta))


def _moment(t: Values, beta: Values, power: int, k: int) -> Values:
    """E[u^k e^{-power beta u^2/2}] for u = t - X: a normal moment about t/A with the variance 1/A, A = 1 + power beta."""
    A = power * beta + 1
    m, v = t / A, 1 / A
    moments = (1.0, m, m**2 + v, m**3 + 3 * m * v, m**4 + 6 * m**2 * v + 3 * v**2)
    return A**-0.5 * jnp.exp(-(t**2) / 2 * (1 - 1 / A)) * moments[k]


def _mixed(t: Values, n: Values, beta: Values) -> Values:
    L = n * norm.pdf(t) / jnp.sqrt(beta)
    mean = _moment(t, beta, 1, 1)
    var = (_moment(t, beta, 2, 2) - mean**2) / n
    process = jnp.minimum(kac_rice(t, n, beta) / (DENSE * jnp.sqrt(beta)), _MOST)
    share = jnp.where(L >= _PROCESS, process, jnp.exp(-(mean**2) / (2 * var)))
    return jnp.sqrt(beta) * shot_noise(L) * share


@partial(jax.jit, static_argnames="density")
def _integral(density, n: Values, beta: Values, reach: Values) -> Values:
    """Twice the integral from zero to the reach, by the trapezoid rule."""
    share = jnp.linspace(0.0, 1.0, _POINTS).reshape(-1, *[1] * n.ndim)
    values = density(share * reach[None], n[None], beta[None])
    return 2 * reach * ((values[1:] + values[:-1]) / 2).mean(0)


def _floats(*numbers: Numbers) -> list[Values]:
    """Floating-point arrays of one shape."""
    return jnp.broadcast_arrays(*(jnp.asarray(x, dtype=float) for x in numbers))

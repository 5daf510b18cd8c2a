"""Noisy tokens on the sphere: when the uniform state gives way to order, and how.

Tokens obey dX = coupling P_X ∫ e^{beta <X, y>} y dmu(y) dt + sqrt(2 temperature) dB, so the law diffuses with
`temperature` times the Laplacian of the sphere. Harmonics of degree k are eigenfunctions of both parts: the Laplacian
multiplies them by -k(k + d - 2), and the kernel by its Funk-Hecke coefficient, a Bessel function I_{k + d/2 - 1}(beta).
Papers differ in convention. noisy:26 has the generator Δ/2, that is temperature 1/2, and a coupling (`threshold`);
survey:25 has coupling 1 and temperature 1/kappa (`kuramoto_growth`, `kuramoto_order`, at beta = 0 on the circle).
`dim` counts ambient coordinates, 2 for the circle. Functions broadcast; beta >= 0 up to about 200.
"""

from collections.abc import Callable

import jax.numpy as jnp
from jax import lax
from jax.scipy.special import gammaln, i0e, i1e

from measureflow.annotations import Numbers, Values

# Terms of the Bessel series: they peak at beta/2 with a width of sqrt(beta)/2, so 200 do up to beta = 200.
_TERMS = 200
_HALVINGS = 55


def growth(
    k: Numbers, temperature: Numbers, beta: Numbers = 0.0, coupling: Numbers = 1.0, dim: Numbers = 2.0
) -> Values:
    """Exponential rate at which a small disturbance of the uniform state grows.

    k(k + d - 2) (coupling b_k - temperature) for harmonics of degree k, with b_k = Γ(d/2) (2/beta)^{d/2-1}
    I_{k+d/2-1}(beta) / beta: on the circle k^2 (coupling I_k(beta)/beta - temperature). At beta = 0 only degree one is
    driven, b_1 = 1/d. For unnormalised attention on the sphere (derived; survey:25 and noisy:26 for degree one).
    """
    k, temperature, beta, coupling, dim = _floats(k, temperature, beta, coupling, dim)
    return k * (k + dim - 2) * (coupling * _pull(k, beta, dim) - temperature)


def threshold(beta: Numbers, dim: Numbers = 2.0, temperature: Numbers = 0.5) -> Values:
    """Coupling at which the uniform state loses its stability, to disturbances of degree one before all others.

    beta^{d/2} / (2^{d/2} Γ(d/2) I_{d/2}(beta)) at the temperature 1/2 of noisy:26, and proportional to the temperature. On
    the circle beta / (2 I_1(beta)), which is 1 at beta = 0; there it is d/2 in general.
    """
    beta, dim, temperature = _floats(beta, dim, temperature)
    return temperature / _pull(jnp.ones_like(beta), beta, dim)


def type_change(dim: Numbers = 2.0) -> Values:
    """Beta at which the transition turns from continuous to a jump.

    The root of I_{d/2+1}(beta) / I_{d/2}(beta) = 1/d: 2.446918 on the circle. There the cubic term of degree one changes sign,
    which is proportional to d times this ratio minus one (noisy:26). For d >= 2.
    """
    (dim,) = _floats(dim)

    def late(beta):
        return dim * _pull(2 * jnp.ones_like(beta), beta, dim) > _pull(jnp.ones_like(beta), beta, dim)

    # The ratio I_{m+1}/I_m lies between x / (m + 1 + sqrt((m + 1)^2 + x^2)) and x / (2m + 2).
    return _first(late, (dim + 2) / dim, dim * (dim + 2) / (dim**2 - 1))


def cubic(beta: Numbers, coupling: Numbers = 1.0) -> Values:
    """Coefficient of the cubic term of the first Fourier mode at its threshold, on the circle.

    c_1' = growth c_1 + cubic |c_1|^2 c_1, cubic = coupling/beta I_1 (2 I_2 - I_1) / (2 (I_1 - I_2)), once the second mode
    follows the first, c_2 = I_1 / (2 (I_1 - I_2)) c_1^2. At beta = 0 it is -coupling/4. Negative means that the order
    grows continuously from zero, as the root of the distance to threshold (derived; the sign is that of noisy:26).
    """
    beta, coupling = _floats(beta, coupling)
    first, second = (_pull(jnp.full_like(beta, k), beta, jnp.full_like(beta, 2.0)) for k in (1.0, 2.0))
    return coupling * first * (2 * second - first) / (2 * (first - second))


def bessel_ratio(k: Numbers, beta: Numbers, dim: Numbers = 2.0) -> Values:
    """How much of a disturbance of degree k softmax attention sees at the uniform state, over beta.

    I_{k+d/2-1}(beta) / (beta I_{d/2-1}(beta)), on the circle I_k(beta) / (beta I_0(beta)); 1/d for degree one at beta = 0.
    """
    k, beta, dim = _floats(k, beta, dim)
    return _pull(k, beta, dim) / _limit_function(dim / 2, (beta / 2) ** 2)


def kuramoto_growth(kappa: Numbers) -> Values:
    """Exponential rate at which uniform noisy oscillators start to order.

    1/2 - 1/kappa at the inverse temperature kappa, so the uniform state is stable up to kappa = 2. For the first mode at
    beta = 0; mode k >= 2 decays at the rate k^2/kappa (survey:25).
    """
    (kappa,) = _floats(kappa)
    return growth(1, 1 / kappa)


def kuramoto_order(kappa: Numbers) -> Values:
    """Length of the mean token of noisy oscillators at rest.

    The largest root of r = I_1(kappa r) / I_0(kappa r), for the density e^{kappa r cos}: 0 up to kappa = 2, beyond it about
    sqrt(kappa - 2) and tending to 1 (survey:25).
    """
    (kappa,) = _floats(kappa)
    r = _first(lambda r: i1e(kappa * r) < r * i0e(kappa * r), jnp.zeros_like(kappa), jnp.ones_like(kappa))
    return jnp.where(kappa <= 2, 0.0, r)


def _pull(k: Values, beta: Values, dim: Values) -> Values:
    """The Funk-Hecke coefficient of the kernel on harmonics of degree k, over beta: 1/d for degree one at beta = 0."""
    gammas = jnp.exp(gammaln(dim / 2) - gammaln(k + dim / 2))
    return (beta / 2) ** (k - 1) / 2 * gammas * _limit_function(k + dim / 2, (beta / 2) ** 2)


def _limit_function(b: Values, z: Values) -> Values:
    """The confluent limit function 1 + z/b + z^2/(2 b (b + 1)) + ...: a Bessel function without its leading power."""
    levels = jnp.arange(_TERMS, 0, -1, dtype=z.dtype)
    return lax.scan(lambda rest, m: (1 + z / (m * (b + m - 1)) * rest, None), jnp.ones_like(z), levels)[0]


def _first(late: Callable[[Values], Values], low: Values, high: Values) -> Values:
    """The point at which a condition begins to hold, by halving a bracket until it is as short as rounding."""

    def halve(_, bracket):
        low, high = bracket
        middle = (low + high) / 2
        over = late(middle)
        return jnp.where(over, low, middle), jnp.where(over, middle, high)

    return lax.fori_loop(0, _HALVINGS, halve, (low, high))[1]


def _floats(*numbers: Numbers) -> list[Values]:
    """Floating-point arrays of one shape."""
    return jnp.broadcast_arrays(*(jnp.asarray(x, dtype=float) for x in numbers))

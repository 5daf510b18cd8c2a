"""How far attention can move tokens, how steep it is, and how long its flow is sure to exist.

Everything is said with three numbers: the spectral norms of `value` (V) and `interaction` (A, with scores <Ax, y>), and the
`radius` (R) of a ball about the origin that holds the tokens. Softmax, Sinkhorn and masked attention obey all bounds
here; L2 attention has its own slope; sigmoid attention keeps the radius, while unnormalised, linear and ReLU attention can
leave every ball in finite time. Times are depths. Functions broadcast.
References: castin:25 and castin:24 for the estimates; the constants of the third one and the times of existence are ours.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from measureflow.annotations import Numbers, Values
from measureflow.theory._exponential_integral import ei_of_share


def output(value: Numbers, radius: Numbers) -> Values:
    """Largest velocity that attention can give to any query, however far away.

    |Gamma(x)| <= ‖V‖ R, because the output is V times an average of tokens: one token of norm R moves with ‖V‖ R. For
    softmax, L2, Sinkhorn, masked and sigmoid attention, and with the sum of ‖W_h V_h‖ for several heads (castin:25).
    """
    value, radius = _floats(value, radius)
    return value * radius


def support_radius(exposure: Numbers, start: Numbers) -> Values:
    """Radius of a ball that tokens cannot leave, given how much value they have met on their way.

    R = R_0 e^{exposure} with the exposure ∫‖V(s)‖ ds: a token under V = I doubles its norm in the time log 2. For the
    attentions of `output`, whose bound ‖V‖ R is the speed of this radius (castin:25).
    """
    exposure, start = _floats(exposure, start)
    return start * jnp.exp(exposure)


def slope(value: Numbers, interaction: Numbers, radius: Numbers) -> Values:
    """Largest derivative of the output with respect to the query.

    ‖V Cov A‖ <= ‖V‖ ‖A‖ R^2, with the covariance of the tokens that the query sees: reached by two tokens at distance R
    on either side of the origin and the query 0. For softmax, Sinkhorn and masked attention (castin:25).
    """
    value, interaction, radius = _floats(value, interaction, radius)
    return value * interaction * radius**2


def l2_slope(value: Numbers, interaction: Numbers, radius: Numbers) -> Values:
    """Largest derivative of the output of attention by distance with respect to the query.

    2 ‖V‖ ‖A‖ R^2 with A = K^T Q: twice `slope`, since |Qx - Ky|^2 has the scores in it twice (from castin:25).
    """
    return 2 * slope(value, interaction, radius)


def sensitivity(value: Numbers, interaction: Numbers, query: Numbers, radius: Numbers) -> Values:
    """How much the output at a query of given norm can change per distance between two clouds.

    |Gamma_mu(x) - Gamma_nu(x)| <= c W_1(mu, nu), c = ‖V‖ (1 + 2 ‖A‖ |x| R) e^{2 ‖A‖ |x| R}: at x = 0 the output is V times
    the mean, which moves no faster than the cloud, and c = ‖V‖. Every W_p is at least W_1. For softmax attention
    (castin:25 leaves the constant open).
    """
    value, interaction, query, radius = _floats(value, interaction, query, radius)
    u = 2 * interaction * query * radius
    return value * (1 + u) * jnp.exp(u)


def mean_field_lipschitz(value: Numbers, interaction: Numbers, radius: Numbers) -> Values:
    """How much farther apart than two clouds their images under attention can be.

    W_p(F(mu), F(nu)) <= ‖V‖ [‖A‖ R^2 + (1 + 2 ‖A‖ R^2) e^{2 ‖A‖ R^2}] W_p(mu, nu), F(mu) the law of the output: the slope
    plus the sensitivity of a query at distance R. At A = 0 it is ‖V‖. In every W_p, p >= 1; for W_1 the exponent 2 is
    needed (from castin:25 and castin:24).
    """
    return slope(value, interaction, radius) + sensitivity(value, interaction, radius, radius)


def finite_lipschitz(n: Numbers, value: Numbers, interaction: Numbers, radius: Numbers) -> Values:
    """Largest factor by which attention on so many tokens enlarges a change of all of them.

    √3 ‖V‖ (‖A‖² R⁴ (n+1) + n)^{1/2}, for tokens in a ball and Euclidean norms of all coordinates together: the Jacobian
    moves keys, queries and scores, by at most ‖V‖√n, `slope` and `slope` √n. At A = 0 it is √(3n) ‖V‖. For softmax
    attention, masked or not (sharper than castin:24).
    """
    n, value, interaction, radius = _floats(n, value, interaction, radius)
    return value * jnp.sqrt(3 * (interaction**2 * radius**4 * (n + 1) + n))


def published_finite_lipschitz(n: Numbers, value: Numbers, interaction: Numbers, radius: Numbers) -> Values:
    """The same with 4n + 1 in place of n + 1, as it is printed (castin:24)."""
    n, value, interaction, radius = _floats(n, value, interaction, radius)
    return value * jnp.sqrt(3 * (interaction**2 * radius**4 * (4 * n + 1) + n))


def temptation(interaction: Numbers) -> float:
    """How strongly scores can draw all tokens to a single one: the number in the exponent of `adversarial_lipschitz`.

    gamma = max(-l, l/8) over the real eigenvalues l of A: a token at -R outweighs one at R by e^{-2 l R^2}, and a token at R
    one at R/2, seen from there, by e^{l R^2/4}. 2 for diag(-2, 1/2), and 0 without real eigenvalues (castin:24).
    """
    A = np.asarray(interaction, float)
    if A.ndim != 2 or A.shape[0] != A.shape[1]:
        raise ValueError(f"`interaction` must be a square matrix; got shape {A.shape}.")
    eigenvalues = np.linalg.eigvals(A)
    real = eigenvalues.real[eigenvalues.imag == 0]  # complex ones come in exact pairs
    return float(np.maximum(-real, real / 8).max(initial=0.0))


def adversarial_lipschitz(n: Numbers, temptation: Numbers, radius: Numbers) -> Values:
    """A factor by which attention with V = I does enlarge a change of some cloud of so many tokens.

    √(n-1) / (1 + (n-1) e^{-2 R² gamma}): one token that all others look at moves, and all follow. About √n as long as n is
    far below e^{2 R² gamma}. For softmax attention in at least two coordinates, masked or not (castin:24).
    """
    n, temptation, radius = _floats(n, temptation, radius)
    return jnp.sqrt(n - 1) / (1 + (n - 1) * jnp.exp(-2 * radius**2 * temptation))


class Peak(NamedTuple):
    """Where a curve is highest, and how high."""

    n: Values
    value: Values


def adversarial_peak(temptation: Numbers, radius: Numbers) -> Peak:
    """The number of tokens for which `adversarial_lipschitz` is largest, and its value there.

    n - 1 = e^{2 R² gamma} and e^{R² gamma} / 2, from d/dn = 0: at R² gamma = 2 about 56 tokens and 3.69 (from castin:24).
    """
    temptation, radius = _floats(temptation, radius)
    share = jnp.exp(radius**2 * temptation)
    return Peak(1 + share**2, share / 2)


def dobrushin_exponent(t: Numbers, start: Numbers, value: Numbers, interaction: Numbers) -> Values:
    """Logarithm of the factor by which the distance between two flows can grow.

    W_p(mu(t), nu(t)) <= e^c W_p(mu_0, nu_0), where c is the integral of `mean_field_lipschitz` along the `support_radius`
    of a constant V. In u = 2 ‖A‖ R^2, which grows like e^{2 ‖V‖ s}, it is [u/4 + Ei(u)/2 + e^u/2] between the ends. At A = 0
    it is ‖V‖ t. For t >= 0; infinite once u > 709 in float64 (from castin:25).
    """
    t, start, value, interaction = _floats(t, start, value, interaction)
    u = 2 * interaction * support_radius(value * t, start) ** 2
    log_share = -2 * value * t  # of u at the start in u at the end
    before = u * jnp.exp(log_share)
    waves = ei_of_share(u, jnp.zeros_like(u)) - ei_of_share(u, log_share)
    return (u - before) / 4 + (waves - jnp.exp(u) * jnp.expm1(before - u)) / 2


def existence_time(start: Numbers, value: Numbers = 1.0, interaction: Numbers = 1.0) -> Values:
    """Time up to which linear and ReLU attention are sure to have a solution.

    T = 1 / (2 ‖V‖ ‖A‖ R_0^2), the life of R' = ‖V‖ ‖A‖ R^3. One token on a line with A = V = 1 obeys x' = x^3 and is gone
    at exactly this time: 1/2 from x_0 = 1 (from castin:25).
    """
    start, value, interaction = _floats(start, value, interaction)
    return 1 / (2 * value * interaction * start**2)


def cubic_radius(t: Numbers, start: Numbers, value: Numbers = 1.0, interaction: Numbers = 1.0) -> Values:
    """Radius of a ball that tokens of linear and ReLU attention cannot leave.

    R = R_0 / sqrt(1 - t/T) with T the `existence_time`: twice R_0 at 3T/4. One token on a line reaches it. For t < T (from
    castin:25).
    """
    t, start, value, interaction = _floats(t, start, value, interaction)
    return start / jnp.sqrt(1 - t / existence_time(start, value, interaction))


def unnormalised_blow_up(start: Numbers, value: Numbers = 1.0, interaction: Numbers = 1.0) -> Values:
    """Time at which one token on a line escapes under unnormalised attention.

    x' = V x e^{A x^2} gives T = E_1(A x_0^2) / (2 V): 0.2860444180 from x_0 = 0.7 with A = V = 1, and about
    e^{-x_0^2} / (2 x_0^2) from afar. For A, V > 0 and x_0 != 0 (from castin:25).
    """
    start, value, interaction = _floats(start, value, interaction)
    # E_1(z) = -Ei(-z); jax's own `exp1` takes seconds for small z.
    return -ei_of_share(-jnp.ones_like(start), jnp.log(interaction * start**2)) / (2 * value)


def _floats(*numbers: Numbers) -> list[Values]:
    """Floating-point arrays of one shape."""
    return jnp.broadcast_arrays(*(jnp.asarray(x, dtype=float) for x in numbers))

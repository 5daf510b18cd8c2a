"""Centres of causal clusters on the sphere: how many there are, how long they stay, and when they hold what is near.

Tokens come one after another. One that is farther than a separation from all centres before it is a new *Rényi centre*; farther
than that from all *tokens* before it, it is a *strong* one. On the circle a Rényi centre is a car that finds room to park.
With Q = K = V = I the pull of a token at an angle x is `h(x) = e^{beta (cos x - 1)} sin x`, and distances are measured in
`beta^{-1/2}`. References: karagodin:24 for the lemma, the conditions and the limits; laws for finitely many tokens are derived.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import betainc
from jaxtyping import Array

from measureflow.annotations import Numbers, Values
from measureflow.theory._exponential_integral import ei_of_share

PARKING = 0.7475979202534114
"""Rényi's parking constant: the part of a long street that cars of equal length cover when no other finds room."""

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)


def cap(angle: Numbers, dim: Numbers) -> Values:
    """The part of the unit sphere within an angle of a point, for the sphere in so many coordinates.

    angle/pi on the circle and (1 - cos)/2 in three coordinates; half of the incomplete beta function of sin^2 with
    (dim - 1)/2 and 1/2 up to a right angle, and what is missing beyond. For angles from 0 to pi.
    """
    angle, dim = _floats(angle, dim)
    part = betainc((dim - 1) / 2, 0.5, jnp.sin(angle) ** 2) / 2
    return jnp.where(angle <= jnp.pi / 2, part, 1 - part)


def strong_count(n: Numbers, separation: Numbers, dim: Numbers) -> Values:
    """Expected number of strong Rényi centres among independent uniform tokens.

    (1 - (1-p)^n)/p with the `cap` p, because token k is one with probability (1-p)^{k-1}: one for n = 1, and 1/p for many.
    """
    n, separation, dim = _floats(n, separation, dim)
    p = cap(separation, dim)
    return -jnp.expm1(n * jnp.log1p(-p)) / p


def renyi_count(n: Numbers, separation: Numbers) -> Values:
    """Expected number of Rényi centres among independent uniform tokens on the circle.

    L c(t) + (1 - e^{-t}) c'(t) at t = n/L, L = 2 pi/separation, c'(t) = exp(-2 ∫_0^t (1 - e^{-v})/v dv): a place is free as long
    as none of the cars that would cover it has come. The first part counts Poisson many tokens on a long circle, the second
    turns their number into n. Tends to `PARKING` L, from which it differs by e^{-2 EulerGamma} L^2/n. Off by less than 1e-2 of
    a centre from n = 2 L and L = 10 on.
    """
    n, separation = _floats(n, separation)
    places = 2 * jnp.pi / separation
    share = 1 / (1 + places / n)  # t = share / (1 - share), so that endless time is an ordinary point
    x = jnp.multiply.outer(share, jnp.asarray((1 + _NODES) / 2))
    parked = share / 2 * (_free(x / (1 - x)) / (1 - x) ** 2 @ jnp.asarray(_WEIGHTS))
    return places * parked - jnp.expm1(-n / places) * _free(n / places)


def _free(t: Values) -> Values:
    """The part of a street where there is room for a car at a time, exp(-2 ∫_0^t (1 - e^{-v})/v dv)."""
    return jnp.exp(-2 * (jnp.log(t) + jnp.euler_gamma - ei_of_share(-jnp.ones_like(t), jnp.log(t))))


def pull(angle: Numbers, beta: Numbers) -> Values:
    """The speed at which one token draws another at an angle, up to the normalisation: h(x) = e^{beta (cos x - 1)} sin x."""
    angle, beta = _floats(angle, beta)
    return jnp.exp(beta * (jnp.cos(angle) - 1)) * jnp.sin(angle)


def pull_slope(angle: Numbers, beta: Numbers) -> Values:
    """Derivative of the `pull`: e^{beta (cos x - 1)} (cos x - beta sin^2 x), one at 0 and negative beyond `turning_angle`."""
    angle, beta = _floats(angle, beta)
    return jnp.exp(beta * (jnp.cos(angle) - 1)) * (jnp.cos(angle) - beta * jnp.sin(angle) ** 2)


def turning_angle(beta: Numbers) -> Values:
    """Angle of the strongest `pull`: cos = (sqrt(4 beta^2 + 1) - 1) / (2 beta), a right angle at beta = 0.

    Between (beta + 1/2)^{-1/2} and beta^{-1/2} for beta >= 1. From the quotient 2 beta / (sqrt(4 beta^2 + 1) + 1).
    """
    (beta,) = _floats(beta)
    return jnp.arccos(2 * beta / (jnp.sqrt(4 * beta**2 + 1) + 1))


def drift_gap(epsilon: Numbers, c: Numbers, beta: Numbers) -> Values:
    """Gap to all earlier tokens that the drift lemma asks for: c (1 + 2 epsilon) beta^{-1/2}."""
    epsilon, c, beta = _checked(epsilon, c, beta)
    return c * (1 + 2 * epsilon) / jnp.sqrt(beta)


def drift_limit(epsilon: Numbers, c: Numbers, beta: Numbers) -> Values:
    """Angle that a strong centre stays within during its `drift_time`: epsilon c beta^{-1/2}."""
    epsilon, c, beta = _checked(epsilon, c, beta)
    return epsilon * c / jnp.sqrt(beta)


def drift_time(rank: Numbers, epsilon: Numbers, c: Numbers, beta: Numbers) -> Values:
    """Time for which the token of a given rank, 1 for the first, is sure to stay within the `drift_limit` of its start.

    T = epsilon c beta^{-1/2} / (rank h(c beta^{-1/2})), if no earlier token is nearer than the `drift_gap` at first: the edges of
    the gap and the token itself each move less than the limit, so the gap stays above c beta^{-1/2}, where the pull of each
    of the earlier tokens is at most h. Needs c beyond the turning of the pull, c > beta^{1/2} `turning_angle` (karagodin:24).
    """
    epsilon, c, beta = _checked(epsilon, c, beta)
    if not (np.asarray(rank) >= 1).all():
        raise ValueError(f"`rank` counts tokens from 1; got {np.asarray(rank).min():g}.")
    least = jnp.sqrt(beta) * turning_angle(beta)
    if (short := np.asarray(c <= least)).any():
        worst = np.broadcast_to(np.asarray(least), short.shape)[short].max()
        raise ValueError(
            f"`c` must be beyond the strongest pull, above {worst:g} at this `beta`; got {np.asarray(c).min():g}."
        )
    return drift_limit(epsilon, c, beta) / (jnp.asarray(rank, float) * pull(c / jnp.sqrt(beta), beta))


class Capture(NamedTuple):
    """The two sides of each condition under which frozen centres hold the tokens near them, as quotients; below one it holds."""

    force: Values
    slope: Values

    @property
    def holds(self) -> Array:
        """Whether both conditions hold."""
        return (self.force < 1) & (self.slope < 1)


def capture(n: Numbers, epsilon: Numbers, c: Numbers, beta: Numbers) -> Capture:
    """Whether n tokens near frozen centres, c beta^{-1/2} apart, are drawn into a neighbourhood of epsilon beta^{-1/2} of theirs.

    N h((c - 1 - 2 epsilon) s) < h(epsilon s) and -N h'((c - 2 epsilon) s) < h'(epsilon s) with s = beta^{-1/2}: the pull of the
    own centre beats that of everything near the others, and so do their slopes. Without the minus sign, as the second is printed,
    the left side is negative and any n would do (karagodin:24).
    """
    epsilon, c, beta = _checked(epsilon, c, beta)
    if not (np.asarray(c) > 1 + 2 * np.asarray(epsilon)).all():
        raise ValueError(f"`c` must be above 1 + 2 `epsilon`, or neighbourhoods overlap; got {np.asarray(c).min():g}.")
    n, s = jnp.asarray(n, float), 1 / jnp.sqrt(beta)
    force = n * pull((c - 1 - 2 * epsilon) * s, beta) / pull(epsilon * s, beta)
    slope = -n * pull_slope((c - 2 * epsilon) * s, beta) / pull_slope(epsilon * s, beta)
    return Capture(force, slope)


def captured(epsilon: Numbers, c: Numbers) -> Values:
    """A number of tokens that frozen centres are sure to hold: epsilon/(c - 1) e^{3 (c - 1 - 2 epsilon)^2/8}.

    683 at epsilon = 0.1 and c = 6.5. For epsilon <= 0.1, c >= 5.5 + 2 epsilon and beta >= (c - 1 - 2 epsilon)^2/2 (karagodin:24).
    """
    epsilon, c, _ = _checked(epsilon, c, 1.0)
    if not (np.asarray(epsilon) <= 0.1).all():
        raise ValueError(f"`epsilon` must be at most 0.1 for this count; got {np.asarray(epsilon).max():g}.")
    if not (np.asarray(c) >= 5.5 + 2 * np.asarray(epsilon)).all():
        raise ValueError(f"`c` must be at least 5.5 + 2 `epsilon` for this count; got {np.asarray(c).min():g}.")
    return epsilon / (c - 1) * jnp.exp(3 * (c - 1 - 2 * epsilon) ** 2 / 8)


def _floats(*numbers: Numbers) -> list[Values]:
    """Floating-point arrays of one shape."""
    return jnp.broadcast_arrays(*(jnp.asarray(x, dtype=float) for x in numbers))


def _checked(epsilon: Numbers, c: Numbers, beta: Numbers) -> list[Values]:
    for name, value in {"epsilon": epsilon, "c": c, "beta": beta}.items():
        if not (np.asarray(value) > 0).all():
            raise ValueError(f"`{name}` must be positive; got {np.asarray(value).min():g}.")
    return _floats(epsilon, c, beta)

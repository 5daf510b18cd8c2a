"""Two tokens: the smallest attention flow, whose overlap rho obeys one scalar equation.

Under uniform attention (beta = 0) the overlap follows a hyperbolic tangent; for other beta a pair is the case n = 2 of
tokens at equal angles, and its laws are those of `equiangular`. They hold in every dimension, since the flow stays in
the plane of the pair.
"""

import jax.numpy as jnp

from measureflow.annotations import Numbers, Values
from measureflow.theory import equiangular
from measureflow.theory.equiangular import Model, softmax


def overlap(t: Numbers, start: Numbers = 0.0) -> Values:
    """Overlap of two tokens under uniform attention, softmax and unnormalised being the same there.

    rho(t) = tanh(t + artanh(rho0)), the solution of rho' = 1 - rho^2; equivalently tan(angle/2) decays like e^{-t}.
    Orthogonal tokens reach rho = 3/5 at t = log 2. For beta = 0 and |rho0| < 1 (geshkovski:25).
    """
    t, start = jnp.asarray(t, dtype=float), jnp.asarray(start, dtype=float)
    return jnp.tanh(t + jnp.arctanh(start))


def tempered_overlap(t: Numbers, beta: Numbers, start: Numbers = 0.0, *, model: Model = softmax) -> Values:
    """Overlap of two tokens at any inverse temperature.

    rho' = 2 (1 - rho^2) / (1 + e^{beta (1 - rho)}) for softmax, rho' = e^{beta rho} (1 - rho^2) unnormalised: both give
    `overlap` at beta = 0. For |rho0| < 1 and beta of either sign (geshkovski:25, n = 2).
    """
    return equiangular.overlap(t, 2, beta, start, model=model)


def time_to(rho: Numbers, beta: Numbers, start: Numbers = 0.0, *, model: Model = softmax) -> Values:
    """Time at which two tokens reach an overlap, the inverse of `tempered_overlap`.

    At beta = 0 it is artanh(rho) - artanh(rho0): log 2 from orthogonal tokens to rho = 3/5. For |rho|, |rho0| < 1
    (geshkovski:25, n = 2).
    """
    return equiangular.time_to(rho, 2, beta, start, model=model)

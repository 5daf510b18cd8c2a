"""How much a mixture of experts can express, by counting the sets of experts that its router can choose.

Of m experts k are active, so a mixture of constants has at most binom(m, k) values, and mixtures of m and k grow apart
exponentially in k (boix:25). The numbers here are elementary: bits of a choice, the error of a student with too few values, and
the sets that scores <r_i, x> can select when inputs have d coordinates. A set is selected by some input where a hyperplane
separates its r_i from the others.
"""

import math

import jax.numpy as jnp
from jax.scipy.special import gammaln

from measureflow.annotations import Numbers, Values


def bits(experts: Numbers, active: Numbers) -> Values:
    """The bits of a choice of experts, log2 binom(m, k): 3 for one of 8, and 32.04 for 8 of 64. It broadcasts.

    By logarithms of gamma functions, so that large numbers do not overflow; rounding is below m log(m) 1e-15 bits.
    """
    m, k = jnp.asarray(experts, float), jnp.asarray(active, float)
    return (gammaln(m + 1) - gammaln(k + 1) - gammaln(m - k + 1)) / math.log(2)


def error_floor(student: Numbers, teacher: Numbers, distance: Numbers) -> Values:
    """The least mean squared error of a student with Ns values for Nt equally likely ones that are D apart or more.

    (1 - Ns/Nt)_+ D^2/2; it broadcasts. Values that share one of the student's are a cluster: c of them have at least
    D^2 (c - 1)/2 as their sum of squares about the mean, and there are at most Ns clusters. A regular simplex attains it. That
    at most Ns values are closer than D/2 to one of the student's gives half of it. Derived.
    """
    student, teacher, distance = (jnp.asarray(part, float) for part in (student, teacher, distance))
    return jnp.maximum(1 - student / teacher, 0.0) * distance**2 / 2


def subsets(experts: int, active: int, dim: int) -> int:
    """A bound of the number of sets of experts that a linear router chooses among inputs of some dimension.

    2 sum_{i<d} binom(n - 1, i) with n = binom(m, 2), and never above binom(m, k): the choice changes only where two scores are
    equal, on n hyperplanes through zero, and n of these cut space into at most so many pieces. One coordinate gives the largest
    scores or the smallest: 2. Derived.
    """
    n = math.comb(experts, 2)
    pieces = 2 * sum(math.comb(n - 1, i) for i in range(min(dim, n))) if n else 1
    return min(pieces, math.comb(experts, active))


def router_dimension(experts: Numbers, active: Numbers) -> Values:
    """Coordinates with which a random router of a demonstration misses few sets, by a rule of thumb: 2 k log2(m/k)."""
    m, k = jnp.asarray(experts, float), jnp.asarray(active, float)
    return 2 * k * jnp.log2(m / k)


def least_dimension(active: int) -> int:
    """The least dimension in which some router chooses every set of k among 3k experts or more: 2k.

    Below it, d + 2 of the points have a partition into two parts whose hulls meet, by Radon. The smaller has at most k points and
    the larger at most 2k, so a set of k with the first and without the second is never chosen. In R^{2k} the points
    (cos t, sin t, ..., cos kt, sin kt) have every set of k as a face. Derived.
    """
    return 2 * active

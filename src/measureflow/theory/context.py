"""How much of its own attention a token keeps in a long context, where it sees itself and n - 1 others.

A token at x gives itself the share 1 / (1 + X) with X = sum_j e^{-beta (1 - <x, x_j>)}. It depends on how the others lie whether
a long context drowns it: tokens at equal angles need beta like log n (context:25), independent uniform ones on the sphere in R^d
a power of n, n^{2/(d-1)}, since the nearest of them are at the distance n^{-1/(d-1)}.
"""

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln

from measureflow.annotations import Numbers, Values


def equiangular_share(n: Numbers, beta: Numbers, overlap: Numbers) -> Values:
    """The share of a token among tokens of one overlap rho: 1 / (1 + (n - 1) e^{-beta (1 - rho)}) (context:25)."""
    n, beta, overlap = (jnp.asarray(part, float) for part in (n, beta, overlap))
    return 1 / (1 + (n - 1) * jnp.exp(-beta * (1 - overlap)))


def critical_sharpness(overlap: Numbers) -> Values:
    """The gamma at which beta = gamma log n just keeps a token of a long context alive: 1 / (1 - rho).

    There e^{-beta (1 - rho)} = 1/n, so that the `equiangular_share` tends to one half; below it to 0, above it to 1 (context:25).
    """
    return 1 / (1 - jnp.asarray(overlap, float))


def uniform_share(scale: Numbers, dim: int) -> Values:
    """The mean share of a token among uniform ones on the sphere in R^d at beta = c n^{2/(d-1)}, as n grows.

    Seen at the distance of the nearest, the others are a Poisson process in R^{d-1} of the density l = c^{-(d-1)/2} / |S|, so
    E 1/(1+X) = int_0^oo e^{-u} E e^{-uX} du with E e^{-uX} = exp(-l int (1 - exp(-u e^{-|y|^2/2})) dy).
    """
    if dim < 2:
        raise ValueError(f"`dim` must be at least 2; got {dim}.")
    m = dim - 1
    # Over the logarithm of u, and over distances up to which e^{-r^2/2} is more than rounding.
    s, ds = np.linspace(np.log(1e-14), np.log(60.0), 800, retstep=True)
    nodes, weights = np.polynomial.legendre.leggauss(120)
    r, dr = 5.0 * (nodes + 1), 5.0 * weights
    seen = -np.expm1(-np.exp(s)[:, None] * np.exp(-(r**2) / 2)[None])
    hidden = jnp.asarray((seen * (r ** (m - 1) * dr)[None]).sum(1), float) * _surface(m)
    u = jnp.asarray(np.exp(s), float)

    def share(c: Values) -> Values:
        return ds * (u * jnp.exp(-u - c ** (-m / 2) / _surface(dim) * hidden)).sum()

    return jnp.vectorize(share)(jnp.asarray(scale, float))


def _surface(dim: int) -> Values:
    """The area of the unit sphere in R^d; of the two points in R, their number."""
    return 2 * jnp.pi ** (dim / 2) / jnp.exp(gammaln(dim / 2))

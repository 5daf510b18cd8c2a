"""Transport of Gaussian mixtures, component by component.

`W_2` of mixtures has no closed form. Among couplings that are mixtures themselves the best one moves whole components, so
it is a small transport problem with the costs of Gaussians. `W_2` lies between the distance of the two Gaussians with the
same moments and this one.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from measureflow.measures import AbstractMeasure, GaussianMixture
from measureflow.precision import keep_all
from measureflow.transport.gaussians import gaussian_cost
from measureflow.transport.pairs import same_space, unit_mass
from measureflow.transport.simplex import best


def mixture_distance(mu: AbstractMeasure, nu: AbstractMeasure) -> Float[Array, ""]:
    """The distance of two mixtures along couplings that are mixtures: an upper bound of `W_2`.

    `(min sum_kl p_kl W_2^2(mu_k, nu_l))^{1/2}` over couplings `p` of the weights (delon:20). It is `W_2` itself for single
    Gaussians and for mixtures that differ by a shift.
    """
    mu, nu = _mixture("mu", mu), _mixture("nu", nu)
    same_space(mu, nu)
    one = jax.vmap(lambda m, A: jax.vmap(lambda n, B: gaussian_cost(m, A, n, B))(nu.means, nu.covs))
    costs = one(mu.means, mu.covs)
    k, l, share = best(mu.weights, nu.weights, costs)  # noqa: E741
    return jnp.sqrt(share @ costs[k, l])


def _mixture(name: str, mu: AbstractMeasure) -> GaussianMixture:
    if not isinstance(mu, GaussianMixture):
        raise TypeError(
            f"`{name}` must be a GaussianMixture; got {type(mu).__name__}. `wasserstein` compares other laws."
        )
    unit_mass(name, mu)
    return mu


keep_all(globals())

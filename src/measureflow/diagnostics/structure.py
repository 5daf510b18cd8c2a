"""Which flows are gradient flows, and whether energy is lost at the rate it should be."""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from measureflow.annotations import Number
from measureflow.energies import AbstractEnergy, GradientFlow
from measureflow.fields import AbstractField
from measureflow.measures import Particles
from measureflow.precision import keep_all


def curl(field: AbstractField, mu: Particles, t: Number = 0.0) -> Float[Array, ""]:
    """How far a field is from being the gradient of an energy of the tokens: 0 for gradients.

    The relative asymmetry `|J - J^T| / |J|` of the Jacobian of `X -> (w_i v(x_i))`, which is the Hessian of the energy when
    there is one. Ambient coordinates; forms the full Jacobian, so meant for tens of tokens. Softmax attention has a curl,
    unnormalised and Sinkhorn attention with `V = A` symmetric have none.
    """
    return _curl(field, mu, jnp.asarray(t, mu.points.dtype))


@eqx.filter_jit
def _curl(field: AbstractField, mu: Particles, t: Float[Array, ""]) -> Float[Array, ""]:
    def momentum(points):
        moved = eqx.tree_at(lambda m: m.points, mu, points)
        return (mu.weights[:, None] * field(t, points, moved)).ravel()

    J = jax.jacfwd(momentum)(mu.points).reshape(mu.points.size, mu.points.size)
    return jnp.linalg.norm(J - J.T) / jnp.linalg.norm(J)


class Balance(NamedTuple):
    """The change of an energy along its own gradient flow, and the two parts that explain it."""

    change: Float[Array, ""]
    explicit: Float[Array, ""]
    dissipation: Float[Array, ""]


def energy_balance(energy: Callable[[Array], AbstractEnergy], mu: Particles, t: Number = 0.0) -> Balance:
    """The balance `d/dt F_t(mu_t) = (d_t F_t)(mu_t) - ∫ |grad dF_t/dmu|^2 dmu` of a time-dependent gradient flow.

    `energy` maps a time to an energy; for one that does not depend on time the explicit part is zero.
    """
    t = jnp.asarray(t, mu.points.dtype)
    rate = mu.transport(lambda xs: GradientFlow(energy(t))(t, xs, mu))

    def value(t, points):
        return energy(t)(eqx.tree_at(lambda m: m.points, mu, points))

    one, still = jnp.ones_like(t), jnp.zeros_like(rate.points)
    change = jax.jvp(value, (t, mu.points), (one, rate.points))[1]
    explicit = jax.jvp(value, (t, mu.points), (one, still))[1]
    return Balance(change, explicit, mu.weights @ jnp.sum(rate.points**2, -1))


keep_all(globals())

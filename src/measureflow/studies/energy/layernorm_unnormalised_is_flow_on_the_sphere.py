"""On the sphere unnormalised attention climbs the interaction energy as fast as it can, and softmax climbs it too.

The energy of tokens is `E = 1/(2 beta n²) Σ_i Z_i` with `Z_i = Σ_j e^{beta <x_i, x_j>}`. Unnormalised attention is its
gradient, times `n`; softmax is its gradient in the metric that weighs token `i` by `Z_i`, up to a constant.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from measureflow.fields import AbstractField, SoftmaxAttention, UnnormalisedAttention
from measureflow.measures import Particles
from measureflow.spaces import Sphere
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_least, equal

CLAIM = Claim(
    "Projected unnormalised attention is a gradient flow on the sphere, and both sphere models ascend the interaction "
    "energy.",
    reference="geshkovski:25",
    where="section on the interaction energy; slide on layer normalisation of the lecture deck",
)

Tokens = Float[Array, "n d"]
Scalar = Float[Array, ""]


def energy(tokens: Tokens, beta: Scalar) -> Scalar:
    """The interaction energy of tokens, written out."""
    return jnp.exp(beta * tokens @ tokens.T).mean() / (2 * beta)


def velocity(field: AbstractField, mu: Particles) -> Tokens:
    """The velocity of each token, tangent to the sphere."""
    return mu.transport(lambda xs: field(0.0, xs, mu)).points


def identities(beta: Scalar, key: Array) -> dict[str, Scalar]:
    """The errors of the three identities at one random cloud, and the least climb."""
    mu = Particles.iid(Sphere(3), 8, key=key)
    usa = velocity(UnnormalisedAttention.isotropic(3, beta), mu)
    sa = velocity(SoftmaxAttention.isotropic(3, beta), mu)
    gradient = mu.transport(lambda xs: jax.grad(energy)(xs, beta)).points
    Z = jnp.exp(beta * mu.points @ mu.points.T).sum(1)
    climb_usa, climb_sa = (jax.jvp(lambda xs: energy(xs, beta), (mu.points,), (v,))[1] for v in (usa, sa))
    return {
        "USA velocity - n P grad E": jnp.abs(usa - 8 * gradient).max(),
        "USA climb - (1/n) Σ|v|²": climb_usa - (usa**2).sum() / 8,
        "SA climb - (1/n²) ΣZ|v|²": climb_sa - (Z * (sa**2).sum(1)).sum() / 64,
        "least climb": jnp.minimum(climb_usa, climb_sa),
    }


def run(size: Size = SMALL) -> Verdict:
    """Check the identities on 20 clouds of 8 tokens at beta = 1 and 4."""
    over_clouds = jax.vmap(identities, in_axes=(None, 0))
    keys = jax.random.split(jax.random.key(0), 20)
    found = eqx.filter_jit(jax.vmap(over_clouds, in_axes=(0, None)))(jnp.array([1.0, 4.0]), keys)
    climb = found.pop("least climb").min()
    # Exact identities; at beta = 4 the velocities are of size e^4 and rounding is still far below.
    errors = [equal(name, 0.0, jnp.abs(error).max(), 1e-10) for name, error in sorted(found.items(), reverse=True)]
    return CLAIM.judge(*errors, at_least("least climb", 0.0, climb))

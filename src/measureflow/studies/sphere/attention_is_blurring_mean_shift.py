"""On the sphere attention is mean shift: each token climbs the log of the density that all tokens paint.

`|x - y|^2 = 2 - 2 <x, y>` on the sphere, so softmax weights are those of a Gaussian kernel of width `1 / sqrt(beta)`, and the
tangent part of their mean is the gradient of the log density over `beta`. Blurring: the painted points move too.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.nn import logsumexp
from jaxtyping import Array, Float

from measureflow.fields import SoftmaxAttention
from measureflow.measures import Particles
from measureflow.plotting import Figure, checks_figure
from measureflow.spaces import Sphere
from measureflow.studies.base import SMALL, Check, Claim, Size, Verdict, at_least, equal

CLAIM = Claim(
    "SA on the sphere is the Riemannian gradient of the log of a Gaussian density estimate.",
    reference="survey:25",
    where="section on mean shift",
)


def log_density(x: Float[Array, " d"], centres: Float[Array, "n d"], beta: Float[Array, ""]) -> Float[Array, ""]:
    """The log of the Gaussian density estimate with precision beta, up to a constant."""
    return logsumexp(-beta * jnp.sum((x[None, :] - centres) ** 2, axis=1) / 2)


@eqx.filter_jit
def compared(beta: Float[Array, ""], key: Array) -> tuple[Float[Array, "n d"], Float[Array, "n d"]]:
    """The velocity of 10 tokens, and the tangent gradient of the log density over beta while the density is frozen."""
    mu = Particles.iid(Sphere(3), 10, key=key)
    attention = SoftmaxAttention.isotropic(3, beta)
    slope = jax.vmap(jax.grad(log_density), in_axes=(0, None, None))
    velocity = mu.transport(lambda xs: attention(0.0, xs, mu)).points
    return velocity, mu.transport(lambda xs: slope(xs, mu.points, beta) / beta).points


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Compare the two velocities at 20 clouds for beta = 1 and 5."""
    over_clouds = jax.vmap(compared, in_axes=(None, 0))
    keys = jax.random.split(jax.random.key(seed), 20)
    velocity, climb = jax.vmap(over_clouds, in_axes=(0, None))(jnp.array([1.0, 5.0]), keys)
    # An exact identity: rounding only.
    return CLAIM.judge(
        equal("velocity - P grad log density / beta", 0.0, jnp.abs(velocity - climb).max(), 1e-10),
        at_least("largest speed, so that there is something to compare", 0.1, jnp.abs(velocity).max(axis=(1, 2, 3))),
        data=[equal(f"velocities, β = {b}", c, v, 1e-10) for b, c, v in zip((1, 5), climb, velocity, strict=True)],
    )


def draw(data: list[Check]) -> Figure:
    """The velocities of tokens against the gradients of the log density over beta."""
    return checks_figure(data)

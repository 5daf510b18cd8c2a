"""Unnormalised attention follows minus the gradient of an energy of the tokens, with the factor one half."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from measureflow.energies import GradientFlow, InteractionEnergy
from measureflow.fields import UnnormalisedAttention
from measureflow.measures import Particles
from measureflow.plotting import Figure, checks_figure
from measureflow.spaces import Euclidean
from measureflow.studies.base import SMALL, Check, Claim, Size, Verdict, equal

CLAIM = Claim(
    "Unnormalised attention is the Wasserstein gradient flow of -1/2∬e^{<x,y>}.",
    reference="deck:25",
    where="proposition on unnormalised attention, with its factor",
)


def energy(tokens: Float[Array, "n d"]) -> Float[Array, ""]:
    """The energy as a function of tokens: `-1/2` times the mean of `e^{<x_i, x_j>}`, written out."""
    return -jnp.exp(tokens @ tokens.T).mean() / 2


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Compare the velocity of 6 tokens in the plane with the gradient of the energy of tokens, times their number."""
    mu = Particles.iid(Euclidean(2), 6, key=seed)
    attention, flow = UnnormalisedAttention.isotropic(2, beta=1.0), GradientFlow(-InteractionEnergy(1.0))
    velocity, flowing = (np.asarray(eqx.filter_jit(field)(0.0, mu.points, mu)) for field in (attention, flow))
    descent = -6 * np.asarray(jax.grad(energy)(mu.points))
    scale = np.abs(velocity).max()
    # Exact identities: only rounding is left, relative to the largest velocity.
    return CLAIM.judge(
        equal("velocity against -n grad F, relative", 0.0, np.abs(velocity - descent).max() / scale, 1e-12),
        equal("velocity against the gradient flow, relative", 0.0, np.abs(velocity - flowing).max() / scale, 1e-12),
        equal(
            "F against minus the interaction energy",
            energy(mu.points),
            -eqx.filter_jit(InteractionEnergy(1.0))(mu),
            1e-12 * scale,
        ),
        data=[equal("velocity against -n grad F", descent, velocity, 1e-12 * scale)],
    )


def draw(data: list[Check]) -> Figure:
    """The velocity of each token against the gradient of the energy."""
    return checks_figure(data)

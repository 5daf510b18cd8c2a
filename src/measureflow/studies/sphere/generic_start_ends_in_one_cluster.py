"""Tokens on the sphere agree in the end, from almost every start.

A flow is continued in legs, each twice as long as the one before, until the two tokens furthest apart nearly agree:
metastable runs are slow, so no final time is fixed.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from measureflow.fields import AbstractAttention, SoftmaxAttention, UnnormalisedAttention
from measureflow.flows import Adaptive, evolve
from measureflow.measures import Particles
from measureflow.plotting import Figure, draw_tokens, panels, view_of
from measureflow.spaces import Sphere
from measureflow.studies.base import SMALL, Claim, Size, Verdict, equal

CLAIM = Claim(
    "From almost every start the sphere dynamics ends in a single cluster.",
    reference="geshkovski:25",
    where="main theorem, for three coordinates or more; last slide of the lecture deck",
)

BETAS = (0.0, 1.0, 4.0)
TOGETHER = 0.999
PATIENCE = 1e5


@eqx.filter_jit
def leg(attention: AbstractAttention, mu: Particles, duration: Float[Array, ""]) -> tuple[Particles, Array]:
    """The tokens a while later, and the inner product of the two furthest apart."""
    later = evolve(attention, mu, jnp.stack([jnp.zeros(()), duration]), Adaptive(1e-6)).final
    return later, (later.points @ later.points.T).min()


def least_overlaps(model: type[AbstractAttention], starts: Float[Array, "k n 3"]) -> tuple[np.ndarray, np.ndarray]:
    """The last tokens and least overlaps for each beta and start; the last start is the one that is not waited for."""
    cloud = eqx.filter_vmap(lambda points: Particles(Sphere(3), points))
    mus = eqx.filter_vmap(lambda _: cloud(starts))(jnp.array(BETAS))
    attentions = eqx.filter_vmap(lambda beta: model.isotropic(3, beta))(jnp.array(BETAS))
    over_all = eqx.filter_vmap(eqx.filter_vmap(leg, in_axes=(None, 0, None)), in_axes=(0, 0, None))
    duration, overlaps = 8.0, np.full((len(BETAS), len(starts)), -1.0)
    while duration < PATIENCE and not (overlaps[:, :-1] > TOGETHER).all():
        mus, found = over_all(attentions, mus, jnp.asarray(duration))
        duration, overlaps = 2 * duration, np.asarray(found)
    return np.asarray(mus.points), overlaps


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Follow 10 random starts of 16 tokens for each beta and model, and one with 8 tokens at each of two poles."""
    keys = jax.random.split(jax.random.key(seed), 10)
    generic = jax.vmap(lambda key: Particles.iid(Sphere(3), 16, key=key).points)(keys)
    poles = jnp.tile(jnp.array([[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]]), (8, 1))
    (last, sa), (usa_last, usa) = (
        least_overlaps(model, jnp.concatenate([generic, poles[None]]))
        for model in (SoftmaxAttention, UnnormalisedAttention)
    )
    # Counts, and a configuration at rest to the last bit: no tolerance.
    return CLAIM.judge(
        equal("starts of 10 that cluster, SA, beta = 0, 1, 4", [10, 10, 10], (sa[:, :-1] > TOGETHER).sum(1), 0),
        equal("starts of 10 that cluster, USA, beta = 0, 1, 4", [10, 10, 10], (usa[:, :-1] > TOGETHER).sum(1), 0),
        equal("overlap of an antipodal pair, SA", [-1.0, -1.0, -1.0], sa[:, -1], 0),
        equal("overlap of an antipodal pair, USA", [-1.0, -1.0, -1.0], usa[:, -1], 0),
        data={
            "start": np.asarray(generic[0]),
            "end, softmax, β = 4": last[2, 0],
            "end, unnormalised, β = 4": usa_last[2, 0],
            "poles, at the end": last[2, -1],
        },
    )


def draw(clouds: dict[str, np.ndarray]) -> Figure:
    """A cloud at the start, where it ends under both models, and the poles that nothing moves."""
    figure, axes = panels(len(clouds), width=3.2, height=3.4)
    view = view_of(clouds["start"], Sphere(3))
    for ax, (name, tokens) in zip(axes, clouds.items(), strict=True):
        draw_tokens(ax, tokens, Sphere(3), view=view).set_title(name, fontsize=11)
    return figure

"""Two tokens on the sphere: the smallest flow of attention, solved by a hyperbolic tangent."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from measureflow.fields import AbstractAttention, SoftmaxAttention, UnnormalisedAttention
from measureflow.flows import Adaptive, evolve
from measureflow.measures import Particles
from measureflow.plotting import Curve, Figure, draw_curves, panels
from measureflow.spaces import Sphere
from measureflow.studies.base import SMALL, Claim, Size, Verdict, equal
from measureflow.theory import equiangular, two_tokens

CLAIM = Claim(
    "At beta = 0 two tokens align along a hyperbolic tangent.",
    reference="geshkovski:25",
    where="derived: two tokens in the equation of equal inner products",
)

START = -0.3
BETAS = np.array([0.0, 1.0, 4.0])
TIMES = np.linspace(0.0, 2.0, 21)


def overlap(mu: Particles) -> Float[Array, ""]:
    """The inner product of the two tokens."""
    return mu.points[0] @ mu.points[1]


def overlaps(model: type[AbstractAttention]) -> Float[Array, "betas times"]:
    """The overlap of two tokens over time for each beta."""
    pair = Particles(Sphere(2), [[1.0, 0.0], [START, (1 - START**2) ** 0.5]])

    @eqx.filter_jit
    @jax.vmap
    def over_time(beta) -> Array:
        return evolve(model.isotropic(2, beta), pair, TIMES, Adaptive(1e-11, 1e-12)).map(overlap)

    return over_time(jnp.asarray(BETAS))


def run(size: Size = SMALL) -> Verdict:
    """Follow a pair under both models and compare with the closed forms."""
    sa, usa = np.asarray(overlaps(SoftmaxAttention)), np.asarray(overlaps(UnnormalisedAttention))
    tanh = np.asarray(two_tokens.overlap(TIMES, START))
    laws = [
        np.asarray(two_tokens.tempered_overlap(TIMES[None, :], BETAS[:, None], START, model=model))
        for model in (equiangular.softmax, equiangular.unnormalised)
    ]
    # A hundred times the tolerance of the solver, which bounds the error of one step and not their sum.
    return CLAIM.judge(
        equal("SA at beta = 0 against tanh", 0.0, np.abs(sa[0] - tanh).max(), 1e-9),
        equal("USA at beta = 0 against tanh", 0.0, np.abs(usa[0] - tanh).max(), 1e-9),
        equal("SA against its law, beta = 0, 1, 4", np.zeros(3), np.abs(sa - laws[0]).max(1), 1e-9),
        equal("USA against its law, beta = 0, 1, 4", np.zeros(3), np.abs(usa - laws[1]).max(1), 1e-9),
        data={"softmax attention": (sa, laws[0]), "unnormalised attention": (usa, laws[1])},
    )


def draw(found: dict[str, tuple[np.ndarray, np.ndarray]]) -> Figure:
    """The overlap of the pair over time under both models."""
    figure, axes = panels(2)
    for ax, (model, (overlap, law)) in zip(axes, found.items(), strict=True):
        curves = [Curve(f"β = {b:g}", TIMES, x, y) for b, x, y in zip(BETAS, overlap, law, strict=True)]
        draw_curves(ax, curves, "time t", "inner product of the two tokens", law="closed form", title=model)
    return figure

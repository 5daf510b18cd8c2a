"""The interaction energy of the deck lacks a factor one half: its gradient flow runs twice as fast as attention."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from measureflow.fields import UnnormalisedAttention
from measureflow.measures import Particles
from measureflow.plotting import Curve, Figure, draw_curves, panels
from measureflow.spaces import AbstractSpace, Euclidean, Sphere
from measureflow.studies.base import SMALL, Check, Claim, Size, Verdict, equal

CLAIM = Claim(
    "As published: the same velocity is the gradient flow of -∬e^{<x,y>} without any time change.",
    reference="deck:25",
    where="propositions on unnormalised attention, in space and on the sphere",
)
REASON = (
    "∬e^{<x,y>} is quadratic in the measure, so its first variation is twice ∫e^{<x,y>}dμ and its flow runs twice as "
    "fast. In R^d the slide says 'after time rescaling', which makes up for it; the slide on the sphere does not."
)


def published_energy(tokens: Float[Array, "n d"]) -> Float[Array, ""]:
    """The energy of the slide as a function of tokens, minus the mean of `e^{<x_i, x_j>}`."""
    return -jnp.exp(tokens @ tokens.T).mean()


def velocities(space: AbstractSpace, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The velocity of attention at 6 tokens and that of the published gradient flow, tangent to the space."""
    mu = Particles.iid(space, 6, key=seed)
    attention = UnnormalisedAttention.isotropic(space.dim, beta=1.0)
    stated = mu.transport(lambda xs: attention(0.0, xs, mu)).points
    flow = mu.transport(lambda xs: -6 * jax.grad(published_energy)(xs)).points
    return np.asarray(stated), np.asarray(flow)


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Measure how much faster than attention the published flow is, in the plane and on the circle."""
    published: list[Check] = []
    instead: list[Check] = []
    found: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    for where, space in (("plane", Euclidean(2)), ("circle", Sphere(2))):
        stated, flow = found[where] = velocities(space, seed)
        ratio = np.vdot(flow, stated) / np.vdot(stated, stated)
        # Exact identities, so the tolerance is that of rounding.
        published.append(equal(f"ratio of velocities, {where}", 1.0, ratio, 1e-12))
        instead.append(equal(f"ratio is two, {where}", 2.0, ratio, 1e-12))
        off = np.abs(flow - 2 * stated).max() / np.abs(stated).max()
        instead.append(equal(f"velocities are parallel, {where}", 0.0, off, 1e-12))
    return CLAIM.judge(*published, instead=tuple(instead), reason=REASON, data=found)


def draw(data: dict[str, tuple[np.ndarray, np.ndarray]]) -> Figure:
    """The velocity of the published flow against that of attention: on the line of slope two, not one."""
    figure, axes = panels(2)
    for ax, (where, (stated, flow)) in zip(axes, data.items(), strict=True):
        x, y = stated.ravel(), flow.ravel()
        order = np.argsort(x)
        curves = [Curve("published flow", x[order], y[order], 2 * x[order]), Curve("as published", x[order], x[order])]
        draw_curves(ax, curves, "velocity of attention", "velocity of the flow", law="twice as fast", title=where)
    return figure

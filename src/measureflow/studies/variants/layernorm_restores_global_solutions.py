"""On the sphere every kernel is bounded, so attention that escapes in finite time elsewhere has all the time there is."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from measureflow.fields import (
    LinearAttention,
    Normalised,
    PostNorm,
    ReLUAttention,
    Scaled,
    SigmoidAttention,
    Sum,
    UnnormalisedAttention,
)
from measureflow.flows import RK4, evolve
from measureflow.measures import Particles
from measureflow.plotting import Curve, Figure, curves_figure, draw_allowed
from measureflow.spaces import AbstractSpace, Euclidean, Sphere
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_most, equal

CLAIM = Claim(
    "Projecting to the sphere gives global solutions for the unnormalised, linear, ReLU and sigmoid variants.",
    reference="castin:25",
    where="slide on variants without estimate 1, part II of the talk",
)
KINDS = (UnnormalisedAttention, LinearAttention, ReLUAttention, SigmoidAttention)
TIMES = np.linspace(0.0, 10.0, 101)
STEP = 0.005


@eqx.filter_jit
@eqx.filter_vmap(in_axes=(None, 0, 0, 0, None))  # over draws
@eqx.filter_vmap(in_axes=(None, None, None, None, 0))  # over kinds
def flow(
    space: AbstractSpace, A: Array, V: Array, tokens: Float[Array, "n d"], chosen: Float[Array, " kinds"]
) -> tuple[Array, Array, Array]:
    """The tokens and their largest speed over time, and whether they arrive, for the kind that a unit vector chooses.

    On the sphere each step ends with a division by the norm. In Euclidean space nothing is divided: the projection is all
    that keeps the norms.
    """
    attention = Sum(tuple(Scaled(kind(A, V), c) for kind, c in zip(KINDS, chosen, strict=True)))
    field = attention if space.spherical else Normalised(attention, PostNorm())

    def points_and_speed(mu) -> tuple[Array, Array]:
        v = mu.transport(lambda xs: field(0.0, xs, mu)).points
        return mu.points, jnp.linalg.norm(v, axis=1).max()

    path = evolve(field, Particles(space, tokens), TIMES, RK4(STEP))
    return *path.map(points_and_speed), path.outcome.ok


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Follow 8 tokens with five random A and V of norm 3/2 up to time 10, dividing by the norm after each step and not at all."""
    rng = np.random.default_rng(seed)
    A, V = rng.normal(size=(2, 5, 3, 3))
    # Of one norm, so that speeds have a common bound and with them the errors of the steps.
    A, V = (1.5 * M / np.linalg.norm(M, 2, axis=(1, 2), keepdims=True) for M in (A, V))
    tokens = rng.normal(size=(5, 8, 3))
    tokens /= np.linalg.norm(tokens, axis=2, keepdims=True)
    arguments = (*map(jnp.asarray, (A, V, tokens)), jnp.eye(len(KINDS)))
    points, speeds, arrived = map(np.asarray, flow(Sphere(3), *arguments))
    free, _, free_arrived = map(np.asarray, flow(Euclidean(3), *arguments))
    a, v = (np.linalg.norm(matrix, 2, axis=(1, 2)) for matrix in (A, V))
    supremum = np.stack([np.exp(a), a, a, jax.nn.sigmoid(a)], axis=1)  # of each kernel, over scores up to ‖A‖
    shares = speeds / (supremum * v[:, None])[:, :, None]
    return CLAIM.judge(
        equal("runs of 40 that reach t = 10", 40, int(arrived.sum() + free_arrived.sum()), 0),
        equal("norms - 1 on the sphere", 0.0, np.abs(np.linalg.norm(points, axis=-1) - 1).max(), 1e-14),  # rounding
        # The error of the method, of fourth order in steps of 1/200, over the whole run.
        equal("norms - 1 without renormalising", 0.0, np.abs(np.linalg.norm(free, axis=-1) - 1).max(), 1e-8),
        # Two roads to one flow; the errors of both, magnified along the way.
        equal("flow on the sphere - projected flow", 0.0, np.abs(points - free).max(), 1e-6),
        # An inequality, so no slack.
        at_most("speed over sup(kernel)‖V‖", 1.0, shares.max((0, 2))),
        data=shares.max(0),
    )


def draw(shares: np.ndarray) -> Figure:
    """The largest speed of all draws over time, as a share of what the kernel allows."""
    names = (kind.__name__.removesuffix("Attention") for kind in KINDS)
    curves = [Curve(name, TIMES, share, 1.0) for name, share in zip(names, shares, strict=True)]
    figure = curves_figure(curves, "time t", "largest speed over sup(kernel)‖V‖", law="bound")
    draw_allowed(figure.axes[0], 0.0, 1.0)
    return figure

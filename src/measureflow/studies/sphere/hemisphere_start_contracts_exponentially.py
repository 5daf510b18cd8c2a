"""Tokens that share a hemisphere close in on one point at an exponential rate, whatever the queries and keys are."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from measureflow.fields import AbstractAttention, SoftmaxAttention
from measureflow.flows import Adaptive, Trajectory, evolve
from measureflow.measures import Particles
from measureflow.plotting import Curve, Figure, curves_figure
from measureflow.spaces import Sphere
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_least, equal
from measureflow.theory import rates

CLAIM = Claim(
    "Tokens in an open hemisphere collapse exponentially, for any Q,K with V=I.",
    reference="geshkovski:25",
    where="theorem on starts in an open hemisphere",
)


def hemisphere_start(seed: int) -> Particles:
    """Eight random tokens, those of the southern hemisphere reflected to the north."""
    points = Particles.iid(Sphere(3), 8, key=seed).points
    return Particles(Sphere(3), points.at[:, 2].set(jnp.abs(points[:, 2])))


LEG, FRAMES, PATIENCE = 10.0, 100, 1000
"""Tokens are followed in legs of so many units and frames until they are together, or after so many legs too late."""


@eqx.filter_jit
def leg(attention: AbstractAttention, mu: Particles) -> Trajectory[Particles]:
    """The tokens over the next units of time."""
    return evolve(attention, mu, jnp.linspace(0.0, LEG, FRAMES + 1), Adaptive(1e-10, 1e-12))


def followed(attention: AbstractAttention, mu: Particles) -> Particles:
    """The frames of the flow until all tokens are within 1e-7 of each other, one measure for each tenth of a unit."""
    legs = []
    while len(legs) < PATIENCE and float(jnp.ptp(mu.points, axis=0).max()) > 1e-7:
        path = leg(attention, mu)
        legs.append(path.measures)
        mu = path.final
    return jax.tree.map(lambda *parts: jnp.concatenate([part[:-1] for part in parts]), *legs)


@eqx.filter_jit
def gaps_and_speeds(attention: AbstractAttention, frames: Particles) -> tuple[Float[Array, " k"], Float[Array, " k"]]:
    """The gap `1 - alpha` and the speed `alpha'`, with alpha the least overlap of a token with the limit."""
    limit = frames.points[-1].mean(0)

    def one(mu) -> tuple[Float[Array, ""], Float[Array, ""]]:
        towards = limit[None, :] - mu.points
        v = mu.transport(lambda xs: attention(0.0, xs, mu)).points
        worst = jnp.argmax((towards**2).sum(1))
        # Both through differences: near the limit the overlap itself has no digits left, and v is orthogonal to x.
        return (towards[worst] ** 2).sum() / 2, v[worst] @ towards[worst]

    return jax.vmap(one)(frames)


def contraction(attention: AbstractAttention, start: Particles) -> tuple[np.ndarray, np.ndarray]:
    """The gap and its speed at every tenth of a unit of time, as long as the limit is known well enough."""
    gaps, speeds = map(np.asarray, gaps_and_speeds(attention, followed(attention, start)))
    return gaps[gaps > 1e-10], speeds[gaps > 1e-10]


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Follow 8 tokens at beta = 1 and for one random pair of queries and keys."""
    start = hemisphere_start(seed)
    gaps, speeds = contraction(SoftmaxAttention.isotropic(3, beta=1.0), start)
    after = gaps < 0.5  # the estimate needs alpha > 1/2
    Q, K = jax.random.normal(jax.random.key(seed + 1), (2, 3, 3)) / np.sqrt(3)  # of norm one or two, as beta is
    other, _ = contraction(SoftmaxAttention(K.T @ Q, jnp.eye(3)), start)
    late = other[other < 1e-3]
    decades = np.log10(late.max() / late.min()) if len(late) else 0.0
    slopes = np.diff(np.log(late)) * FRAMES / LEG
    return CLAIM.judge(
        # An inequality, so no slack.
        at_least("least alpha' over its bound", 1.0, (speeds / rates.hemisphere_bound(1 - gaps, 8, 1.0))[after].min()),
        # Close tokens see each other alike and fall to their mean at rate one, so that the square of a distance falls at
        # rate two, up to terms of the size of the distance: .05. A power law in time would have a slope near zero by now.
        equal("slope of log(1 - alpha) below 1e-3, random Q, K", np.full(len(slopes), -2.0), slopes, 0.2),
        at_least("decades of decay", 2.0, decades),
        data={"β = 1": gaps, "random Q and K": other},
    )


def draw(found: dict[str, np.ndarray]) -> Figure:
    """The gap to consensus over time, down to what the limit is known to."""
    curves = [Curve(name, np.arange(len(gap)) * LEG / FRAMES, gap) for name, gap in found.items()]
    return curves_figure(curves, "time t", "1 - least overlap with the limit", log="y")

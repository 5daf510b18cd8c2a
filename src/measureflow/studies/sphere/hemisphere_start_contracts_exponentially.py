"""Tokens that share a hemisphere close in on one point at an exponential rate, whatever the queries and keys are."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from measureflow.fields import AbstractAttention, SoftmaxAttention
from measureflow.flows import Adaptive, evolve
from measureflow.measures import Particles
from measureflow.plotting import Curve, Figure, curves_figure
from measureflow.spaces import Sphere
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_least, at_most
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


def contraction(attention: AbstractAttention, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The times, the gap `1 - alpha` and the speed `alpha'`, with alpha the least overlap of a token with the limit."""
    path = evolve(attention, hemisphere_start(seed), jnp.linspace(0.0, 40.0, 401), Adaptive(1e-10, 1e-12))
    limit = path.final.points[0]

    def gap_and_speed(mu) -> tuple[Float[Array, ""], Float[Array, ""]]:
        towards = limit[None, :] - mu.points
        v = mu.transport(lambda xs: attention(0.0, xs, mu)).points
        worst = jnp.argmax((towards**2).sum(1))
        # Both through differences: near the limit the overlap itself has no digits left, and v is orthogonal to x.
        return (towards[worst] ** 2).sum() / 2, v[worst] @ towards[worst]

    gaps, speeds = path.map(gap_and_speed)
    return np.asarray(path.times), np.asarray(gaps), np.asarray(speeds)


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Follow 8 tokens at beta = 1 and for one random pair of queries and keys."""
    _, gaps, speeds = contraction(SoftmaxAttention.isotropic(3, beta=1.0), seed)
    after = (gaps < 0.5) & (gaps > 1e-10)  # the estimate needs alpha > 1/2, and the limit is known to about 1e-10
    Q, K = jax.random.normal(jax.random.key(seed + 1), (2, 3, 3))
    times, other, _ = contraction(SoftmaxAttention(K.T @ Q, jnp.eye(3)), seed)
    window = (other < 1e-3) & (other > 1e-9)
    slopes = np.diff(np.log(other[window])) / np.diff(times[window])
    return CLAIM.judge(
        # An inequality, so no slack.
        at_least("least alpha' over its bound", 1.0, (speeds / rates.hemisphere_bound(1 - gaps, 8, 1.0))[after].min()),
        at_most("slope of log(1 - alpha), random Q, K, at its largest", 0.0, slopes.max()),
        at_least("decades of decay", 2.0, np.log10(other[window][0] / other[window][-1])),
        at_most("relative spread of the slope", 0.1, np.ptp(slopes) / np.abs(slopes.mean())),
        data={"β = 1": gaps, "random Q and K": other},
    )


def draw(found: dict[str, np.ndarray]) -> Figure:
    """The gap to consensus over time, down to what the limit is known to."""
    kept = {name: gap > 1e-10 for name, gap in found.items()}
    curves = [Curve(name, np.linspace(0.0, 40.0, 401)[kept[name]], gap[kept[name]]) for name, gap in found.items()]
    return curves_figure(curves, "time t", "1 - least overlap with the limit", log="y")

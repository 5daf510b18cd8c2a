"""A stable head attracts what starts within a proved radius, and what starts up to the next rest point; beyond it heads leave.

With particles within `r` of the head, `d/dt W_2^2 <= -4 (lambda - r (L_3 + k E C_1 C_2) / 2) W_2^2`: the Hessian of `Psi` gives
`lambda` and its change `L_3`, convexity of the loss makes the coupling of heads harmless to first order, and the bend `C_2` of
the features is what it costs beyond. `training.bounds.basin` takes the `r` that leaves half of `lambda`, and the radius of
starts from which no particle leaves that ball. The heads here have one parameter, scores `theta <x, y>`, and are pulled to 4:
one rests near there and another near 0, and between the two is a zero of the slope of the energy of one head. There the basin of
single heads ends.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import root_scalar

from measureflow.flows import RK4, evolve
from measureflow.measures import Particles
from measureflow.plotting import Curve, Figure, draw_curves, panels
from measureflow.plotting.colours import FAINT, INK
from measureflow.spaces import Euclidean
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_most, equal
from measureflow.training import Descent, HeadRisk, Ridge, ScoreHeads, fixtures
from measureflow.training.bounds import basin
from measureflow.training.perturbation import rest_point

CLAIM = Claim(
    "Theorem 7.5: every law inside the basin of a stable head returns to it at the predicted rate.",
    reference="heads:26",
    where="theorem 7.5, with the constants of its proof",
)
STARTS, HEADS = 200, 4
RETURNED = 1e-2
"""The share of the distance that is left of a start that returned; the bound leaves less of it at the end."""
SHARES = np.array([0.5, 0.9, 0.99, 1.01, 1.1, 1.5])
"""Starts of single heads, over the distance to the end of their basin."""


def energy():
    """The data of F2 with one parameter a head, and a ridge with its anchor at 4."""
    data = fixtures.f2(2.0)
    risk = HeadRisk(data.tokens, data.targets, data.unembedding, ScoreHeads(2 * jnp.eye(2), jnp.eye(2)[None]))
    return risk + Ridge(0.3, 4.0)


class Found(NamedTuple):
    """Distances over time of single heads and of the slowest law inside, the bound, and shares that returned by radius."""

    times: np.ndarray
    singles: np.ndarray
    inside: np.ndarray
    bound: np.ndarray
    radii: np.ndarray
    returned: np.ndarray


@eqx.filter_jit
def far_over_time(rest: jax.Array, away: jax.Array, times: jax.Array) -> jax.Array:
    """How far each head is from the one at rest, `(starts, times, heads)`."""
    field = Descent(energy())

    def one(h):
        path = evolve(field, Particles(Euclidean(1), rest[None] + h[:, None]), times, RK4(0.25))
        return jnp.abs(path.measures.points[..., 0] - rest[0])

    return jax.vmap(one)(away)


@eqx.filter_jit
def slope(theta: jax.Array) -> jax.Array:
    """The derivative of the energy of a single head, and so zero where it rests."""
    return jax.grad(lambda x: energy()(Particles(Euclidean(1), x[None, None])))(theta)


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Single heads on both sides of the end of the basin, 200 starts of four heads inside, and laws of all radii beyond."""
    rest = rest_point(energy(), jnp.full(1, 4.0))
    end = float(rest[0]) - root_scalar(lambda x: float(slope(jnp.asarray(x))), bracket=(1.0, 2.0)).root
    found, times = (
        basin(energy(), rest, largest=4.0, samples=size.pick(1024, 16384), key=seed),
        jnp.linspace(0.0, 25.0, 26),
    )
    rng, count = np.random.default_rng(seed), size.pick(40, 200)
    radii = np.geomspace(found.radius, 2 * end, 9)
    ball = rng.uniform(-1, 1, (STARTS + len(radii) * count, HEADS))
    largest = np.concatenate([np.ones(STARTS), np.repeat(radii / found.radius, count)])[:, None]
    # On the outer spheres heads are on the side of the other basin, the farthest at the radius.
    ball[STARTS:] = -np.abs(ball[STARTS:]) / np.abs(ball[STARTS:]).max(1, keepdims=True)
    singles = -np.repeat(SHARES[:, None] * end, HEADS, axis=1)
    away = jnp.asarray(np.concatenate([singles, found.radius * largest * ball]))
    far = np.asarray(far_over_time(rest, away, times))
    W = np.sqrt((far**2).mean(-1))
    single, inside, outside = W[: len(SHARES)], W[len(SHARES) :][:STARTS], W[len(SHARES) + STARTS :]
    returned = (outside[:, -1] < RETURNED * outside[:, 0]).reshape(len(radii), count).mean(1)
    share, bound = (inside / inside[:, :1]).max(0), np.exp(-found.rate * np.asarray(times))
    least = float(jax.jit(jax.grad(slope))(rest[0]))
    rate = -np.polyfit(times[6:13], np.log(single[0, 6:13]), 1)[0]
    return CLAIM.judge(
        equal("starts inside the proved radius that return", STARTS, int((inside[:, -1] < RETURNED * inside[:, 0]).sum()), 0),
        # Rounding of the first frame, where the bound is an equality.
        at_most("W_2 over its bound, from inside", 1 + 1e-9, share / bound),
        at_most("farthest head over the ball that none should leave", 1.0, far[len(SHARES) :][:STARTS].max() / found.reach),
        # What is proved cannot be more than what is true.
        at_most("proved radius over the distance to the end of the basin", 1.0, found.radius / end),
        equal("single heads that return from 0.5, 0.9, 0.99, 1.01, 1.1, 1.5 of this distance",
              (SHARES < 1).astype(int), (single[:, -1] < RETURNED * single[:, 0]).astype(int), 0),
        # The second order of the displacement is gone by the times of the fit.
        equal("rate of a single head over twice the curvature", 1.0, rate / (2 * least), 0.02),
        equal("share of laws that return from a sphere of the proved radius", 1.0, returned[0], 0),
        at_most("share of laws that return from a sphere twice as large as the basin", 0.5, returned[-1]),
        data=Found(np.asarray(times), single / single[:, :1], share, bound, radii / end, returned),
    )  # fmt: skip


def draw(found: Found) -> Figure:
    """Single heads on both sides of the end of the basin and the slowest law inside; and how many laws return, by radius."""
    figure, (left, right) = panels(2, width=5.8)
    curves = [
        Curve(f"one head, {s:g} of the way", found.times, one) for s, one in zip(SHARES, found.singles, strict=True)
    ]
    curves.append(Curve("slowest law inside the proved radius", found.times, found.inside, found.bound))
    draw_curves(left, curves, "time t", "W₂ to the head at rest, over its start", log="y", law="bound")
    left.set_ylim(1e-6, 10)
    draw_curves(right, [Curve("laws of four heads", found.radii, found.returned)], "farthest head over the end of the basin",
                "share of laws that return", log="x")  # fmt: skip
    right.axvline(1.0, color=INK, linestyle="--", linewidth=1.2, gid="law", label="end of the basin of single heads")
    right.axvline(found.radii[0], color=FAINT, linestyle=":", linewidth=1.5, gid="law", label="proved radius")
    right.legend(fontsize=9, frameon=False)
    return figure

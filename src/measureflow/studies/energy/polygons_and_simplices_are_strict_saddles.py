"""The rest points of the interaction energy other than consensus are strict saddles: each has a direction of ascent.

Polygons and simplices are known ones; others are found by Newton's method from random clouds. The one that is not is consensus.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from measureflow.diagnostics import index
from measureflow.energies import InteractionEnergy
from measureflow.measures import Particles
from measureflow.plotting import Curve, Figure, curves_figure
from measureflow.spaces import Sphere
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_least, at_most, equal

CLAIM = Claim(
    "The many rest points of the interaction energy on the sphere, other than consensus, are strict saddles.",
    reference="geshkovski:25",
    where="deck 000, last slide; theorem for d ≥ 3 and β ≥ 0",
)

BETAS = (0.5, 1.0, 4.0, 9.0)
PUSH = 1e-3
STEPS = 60


def polygon(q: int, d: int) -> Particles:
    """Tokens at the corners of a regular polygon."""
    angles = 2 * np.pi * np.arange(q) / q
    return Particles(Sphere(d), np.pad(np.stack([np.cos(angles), np.sin(angles)], 1), ((0, 0), (0, d - 2))))


def simplex(d: int) -> Particles:
    """As many tokens as coordinates and one more, all at equal distances."""
    corners = np.eye(d + 1) - 1 / (d + 1)
    basis = np.linalg.svd(corners)[2][:d]
    points = corners @ basis.T
    return Particles(Sphere(d), points / np.linalg.norm(points, axis=1, keepdims=True))


@eqx.filter_jit
def resting(starts: jnp.ndarray, beta: jnp.ndarray) -> tuple[jnp.ndarray, jnp.ndarray]:
    """Clouds where Newton's method comes to rest, damped so that slopes fall (Levenberg and Marquardt), and the slopes there."""

    def slope(points):
        raw = jax.grad(lambda points: jnp.exp(beta * (points @ points.T - 1)).sum())(points)
        return raw - (raw * points).sum(1, keepdims=True) * points

    def settled(points):
        return points / jnp.linalg.norm(points, axis=1, keepdims=True)

    def step(state, _):
        points, damping = state
        f = lambda u: slope(settled(points + u.reshape(points.shape))).ravel()  # noqa: E731
        g, J = f(jnp.zeros(points.size)), jax.jacfwd(f)(jnp.zeros(points.size))
        u = -jnp.linalg.solve(J.T @ J + damping * jnp.eye(points.size), J.T @ g)
        tried = settled(points + u.reshape(points.shape))
        better = (slope(tried) ** 2).sum() < (g**2).sum()
        return (jnp.where(better, tried, points), jnp.where(better, damping / 5, damping * 5).clip(1e-13, 1e3)), None

    def end(points):
        points, _ = jax.lax.scan(step, (points, jnp.asarray(0.1)), length=STEPS)[0]
        return points, jnp.abs(slope(points)).max()

    return jax.lax.map(end, starts)


def found(beta: float, rng: np.random.Generator, count: int) -> list[Particles]:
    """Rest points of six tokens on the sphere, other than consensus."""
    starts = rng.normal(size=(count, 6, 3))
    starts /= np.linalg.norm(starts, axis=2, keepdims=True)
    points, slopes = map(np.asarray, resting(jnp.asarray(starts), jnp.asarray(beta)))
    apart = np.array([(cloud @ cloud.T).min() for cloud in points]) < 1 - 1e-4
    return [Particles(Sphere(3), cloud) for cloud in points[(slopes < 1e-10) & apart]]


def rise(energy: InteractionEnergy, mu: Particles) -> tuple[float, float, float]:
    """The largest eigenvalue, the rise of the energy after a push that way over what it says, the slope over the energy."""
    kind = index(energy, mu)
    top, way = kind.eigenvalues[-1], kind.directions[-1]
    there = np.asarray(mu.points) + PUSH * way
    pushed = Particles(mu.space, there / np.linalg.norm(there, axis=1, keepdims=True))
    height = float(energy(mu))
    return top, (float(energy(pushed)) - height) / (PUSH**2 * top / 2), kind.residual / height


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Examine polygons, simplices and the rest points that are found, for several beta."""
    rng = np.random.default_rng(seed)
    betas, corners = size.pick(((1.0, 9.0), (2, 3, 5)), (BETAS, tuple(range(2, 9))))
    known = [polygon(q, d) for q in corners for d in (2, 3)] + [simplex(d) for d in size.pick((3,), (3, 4, 5))]
    named = {beta: np.array([rise(InteractionEnergy(beta), mu) for mu in known]) for beta in betas}
    others = {
        beta: np.array([rise(InteractionEnergy(beta), mu) for mu in found(beta, rng, size.pick(12, 50))])
        for beta in betas
    }
    every = np.concatenate([*named.values(), *others.values()])
    consensus = index(InteractionEnergy(4.0), Particles(Sphere(3), np.tile([[0.0, 0.6, 0.8]], (6, 1))))
    return CLAIM.judge(
        # Far above the rounding of a second derivative, e^9 times 1e-16. Two tokens opposite each other have e^{-beta}.
        at_least("largest eigenvalue of polygons and simplices", 1e-6, [rows[:, 0].min() for rows in named.values()]),
        at_least("largest eigenvalue of rest points found", 1e-6, [rows[:, 0].min() for rows in others.values()]),
        at_least("rest points found for each beta", 1, [len(rows) for rows in others.values()]),
        at_most("slope at rest, over the energy", 1e-8, every[:, 2]),
        # The push is 1e-3 long, so the next terms are below a part of 1e-3 times 1 + beta, and 1e-6 of the energy where flat.
        equal("rise after a push over half the eigenvalue", np.ones(len(every)), every[:, 1], 0.2),
        equal("directions of ascent at consensus", 0, consensus.ascents, 0),
        data={beta: np.sort(np.concatenate([named[beta][:, 0], others[beta][:, 0]])) for beta in betas},
    )


def draw(data: dict[float, np.ndarray]) -> Figure:
    """The largest eigenvalues of all rest points, sorted."""
    curves = [Curve(f"β = {beta:g}", np.arange(1, len(tops) + 1), tops) for beta, tops in data.items()]
    return curves_figure(curves, "rest point other than consensus", "rate of escape, the largest eigenvalue", log="y")

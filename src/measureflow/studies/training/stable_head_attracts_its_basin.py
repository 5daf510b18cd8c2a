"""All heads that start within a radius that is known return to a stable head, at least as fast as the proof of stability says.

With particles within `r` of the head, `d/dt W_2^2 <= -4 (lambda - r (L_3 + k E C_1 C_2) / 2) W_2^2`: the Hessian of `Psi` gives
`lambda` and its change `L_3`, convexity of the loss makes the coupling of heads harmless to first order, and the bend `C_2` of
the features is what it costs beyond. `training.bounds.basin` takes the `r` that leaves half of `lambda`, and the radius of
starts from which no particle leaves that ball.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from measureflow.energies import AbstractEnergy
from measureflow.flows import RK4, evolve
from measureflow.measures import Particles
from measureflow.plotting import Curve, Figure, curves_figure
from measureflow.spaces import Euclidean
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_least, at_most, equal
from measureflow.training import Descent, Ridge, fixtures
from measureflow.training.bounds import basin
from measureflow.training.perturbation import rest_point

CLAIM = Claim(
    "Theorem 7.5: every law inside the basin of a stable head returns to it at the predicted rate.",
    reference="heads:26",
    where="theorem 7.5, with the constants of its proof",
)
STARTS, HEADS = 200, 4
BEYOND = (2, 4, 30, 100, 1000)
"""Radii of spheres outside the basin, over its radius."""
RETURNED = 1e-2
"""The share of the distance that is left of a start that returned; the bound leaves 0.003 of it at the end."""


@eqx.filter_jit
@eqx.filter_vmap(in_axes=(None, None, 0, None))
def distances(
    energy: AbstractEnergy, rest: jax.Array, away: jax.Array, times: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Over time, `W_2` to the head at rest and the distance of the farthest head, for several starts at once."""

    def observe(mu):
        squares = jnp.sum((mu.points - rest[None]) ** 2, -1)
        return jnp.sqrt(squares.mean()), jnp.sqrt(squares.max())

    start = Particles(Euclidean(len(rest)), rest[None] + away)
    return evolve(Descent(energy), start, times, RK4(0.25), observe=observe).observed


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """F2 with ridge 0.3: 200 starts of four heads inside the basin, and 40 (full: 200) on each of five spheres outside."""
    energy = fixtures.f2() + Ridge(0.3)
    rest = rest_point(energy, jnp.zeros(4))
    found = basin(energy, rest, samples=size.pick(1024, 16384), key=seed)
    times, count, keys = jnp.linspace(0.0, 25.0, 26), size.pick(40, STARTS), jax.random.split(jax.random.key(seed))
    inside = jax.random.ball(keys[0], 4, shape=(STARTS, HEADS), dtype=float)
    around = jax.random.normal(keys[1], (len(BEYOND), count, HEADS, 4))
    outside = jnp.asarray(BEYOND, float)[:, None, None, None] * around / jnp.linalg.norm(around, axis=-1, keepdims=True)
    away = found.radius * jnp.concatenate([inside, outside.reshape(-1, HEADS, 4)])
    W, far = (np.asarray(part) for part in distances(energy, rest, away, times))
    returned, share, bound = W[:, -1] < RETURNED * W[:, 0], W / W[:, :1], np.exp(-found.rate * np.asarray(times))
    slowest = [share[:STARTS].max(0), *share[STARTS:].reshape(len(BEYOND), count, -1).max(1)]
    shares = returned[STARTS:].reshape(len(BEYOND), count).mean(1)
    return CLAIM.judge(
        equal("starts inside that return", STARTS, int(returned[:STARTS].sum()), 0),
        # Rounding of the first frame, where the bound is an equality.
        at_most("W_2 over its bound, from inside", 1 + 1e-9, (share[:STARTS] / bound).max(0)),
        at_most("farthest head over the ball that none should leave", 1.0, far[:STARTS].max() / found.reach),
        # Nothing is predicted there. All returned in every draw: the radius is sufficient and far from necessary.
        at_least("share that returns from spheres 2, 4, 30, 100 and 1000 times as large", 0.95, shares),
        data=(np.asarray(times), {found.radius * k: one for k, one in zip((1, *BEYOND), slowest, strict=True)}, bound),
    )


def draw(data: tuple[np.ndarray, dict[float, np.ndarray], np.ndarray]) -> Figure:
    """The slowest return from inside the basin and from each sphere outside, with the bound that holds inside."""
    times, slowest, bound = data
    radii = [f"{'inside' if k == 0 else 'sphere of'} radius {radius:.2g}" for k, radius in enumerate(slowest)]
    curves = [Curve(name, times, one) for name, one in zip(radii, slowest.values(), strict=True)]
    curves[0] = curves[0]._replace(law=bound)
    return curves_figure(curves, "time t", "slowest W₂ to the head at rest, over its start", log="y", law="bound")

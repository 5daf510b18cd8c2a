"""All measures that start inside a ball, whose radius follows from derivatives at hand, return to a stable head at a known rate.

With heads in a ball of radius `r` the mean of `<grad Psi, h>` is at least `(l - C r) E|h|^2`, where `l` is the least eigenvalue
of `H` and `C` adds half of the third derivative of `Psi` at the stationary measure to `E sum_t |D phi_t| |D^2 phi_t| / 4`, since
softmax has slope one half. So `m = l/2` holds for `r = l / (2C)`. One head may be pushed out by the others before they are home,
by a factor that `K = E sum_t |D phi_t|^2 / 2` bounds: the largest value of `(1 + 2Kt) e^{-2mt}`. Heads start in a ball so much
smaller.
"""

import math
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from measureflow.energies import AbstractEnergy
from measureflow.flows import RK4, evolve
from measureflow.measures import Particles
from measureflow.plotting import Curve, Figure, curves_figure
from measureflow.spaces import Euclidean
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_most, equal
from measureflow.training import Descent, HeadRisk, Ridge, fixtures, rest_point, stability

CLAIM = Claim(
    "All starts inside the basin radius of Theorem 7.5 return to the stable head, at least at the predicted rate.",
    reference="heads:26",
    where="theorem 7.5; the radius is derived",
)
BALL, STARTS, HEADS = 0.3, 200, 4
TIMES = np.linspace(0.0, 20.0, 21)
SPHERES = 1, 2, 4


class Basin(NamedTuple):
    """The radius of a ball of starts, and the rate `2m` at which they return."""

    radius: float
    rate: float


@eqx.filter_jit
def slopes(
    energy: AbstractEnergy, risk: HeadRisk, rest: Float[Array, " D"], xs: Float[Array, "m D"]
) -> Float[Array, "3"]:
    """Over heads of a ball the largest third derivative of `Psi`, `E sum_t |D phi_t| |D^2 phi_t|` and `E sum_t |D phi_t|^2`."""
    mu = Particles(Euclidean(len(rest)), rest[None])
    first, second = jax.jacfwd(risk.features), jax.jacfwd(jax.jacfwd(risk.features))
    third = jax.jacfwd(jax.hessian(lambda x: energy.variation(mu, x[None])[0]))

    def one(x):
        one, two = jnp.linalg.norm(first(x), ord=2, axis=(-2, -1)), jnp.sqrt(jnp.sum(second(x) ** 2, (-3, -2, -1)))
        return jnp.sqrt(jnp.sum(third(x) ** 2)), one, two

    cubes, ones, twos = (part.max(0) for part in jax.lax.map(one, xs, batch_size=64))
    return jnp.stack([cubes, jnp.sum(risk.shares * ones * twos), jnp.sum(risk.shares * ones**2)])


def basin(least: float, found: Float[Array, "3"]) -> Basin:
    """The ball in which half of the least eigenvalue is left."""
    cube, mixed, square = (float(part) for part in found)
    m, push = least / 2, square / 2
    radius = min(BALL, m / (cube / 2 + mixed / 4))
    return Basin(radius / max(1.0, push / m * math.exp(m / push - 1)), 2 * m)


@eqx.filter_jit
def distances(energy: AbstractEnergy, rest: Float[Array, " D"], away: Float[Array, "s n D"]) -> Float[Array, "s k"]:
    """The distance of each measure to the stationary head over time."""

    def one(h):
        path = evolve(Descent(energy), Particles(Euclidean(len(rest)), rest[None] + h), TIMES, RK4(0.25))
        return jnp.sqrt(path.map(lambda mu: mu.expect(lambda x: jnp.sum((x - rest) ** 2))))

    return jax.vmap(one)(away)


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """F2 with ridge 0.3: measures of four heads in the ball, and on spheres of twice and four times its radius."""
    rng, risk = np.random.default_rng(seed), fixtures.f2()
    energy = risk + Ridge(0.3)
    rest = rest_point(energy, jnp.zeros(4))
    least = stability(energy, risk.heads, Particles(Euclidean(4), rest[None])).splitting[0]
    directions = rng.normal(size=(len(SPHERES), STARTS, HEADS, 4))
    directions /= np.linalg.norm(directions, axis=-1, keepdims=True)
    samples = size.pick(512, 8192)
    ball = rng.normal(size=(samples, 4))
    ball *= BALL * rng.uniform(size=(samples, 1)) ** 0.25 / np.linalg.norm(ball, axis=1, keepdims=True)
    home = basin(float(least), slopes(energy, risk, rest, rest[None] + jnp.asarray(ball)))
    directions[0] *= rng.uniform(size=(STARTS, HEADS, 1)) ** 0.25
    spheres = home.radius * np.array(SPHERES)[:, None, None, None] * directions
    far = [np.asarray(distances(energy, rest, jnp.asarray(away))) for away in spheres]
    back = [int((part[:, -1] < 1e-3 * part[:, 0]).sum()) for part in far]
    worst = (far[0] / far[0][:, :1]).max(0)
    return CLAIM.judge(
        equal("starts inside that return, of 200", STARTS, back[0], 0),
        # The largest derivatives are those of samples, but in a ball three times as large as needed, where they are larger.
        at_most("largest distance over its bound", 1.0, worst[1:] * np.exp(home.rate * TIMES[1:])),
        data=(home.rate, far, back),
    )


def draw(data: tuple) -> Figure:
    """The slowest return from each sphere, below the bound."""
    rate, far, back = data
    law = np.exp(-rate * TIMES)
    places = ("inside the ball", *(f"at {k} times its radius" for k in SPHERES[1:]))
    names = (f"{place}: {count} of {STARTS} return" for place, count in zip(places, back, strict=True))
    curves = [Curve(name, TIMES, (part / part[:, :1]).max(0), law) for name, part in zip(names, far, strict=True)]
    return curves_figure(curves, "time t", "largest W₂ over its start", log="y", law=r"bound $e^{-2mt}$")

"""Independent uniform tokens drown in a long context at `beta = gamma log n` for every `gamma`; their scale is a power of `n`.

Tokens at equal angles keep their own attention above `gamma = 1 / (1 - rho)`. Uniform ones on the sphere have neighbours at the
distance `n^{-1/(d-1)}`, which `beta` must resolve: at `beta = c n^{2/(d-1)}` the mean share of its own attention that a token
keeps tends to a number between 0 and 1, that of a Poisson process of neighbours.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from measureflow.measures import Particles
from measureflow.plotting import Curve, Figure, draw_curves, panels
from measureflow.spaces import Sphere
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_least, at_most, equal
from measureflow.theory import context

CLAIM = Claim(
    "With β = γ log n independent uniform tokens lose their own attention for every γ; their critical scale is a power, "
    "β = c n^{2/(d-1)}, where the mean share that is left is that of Poisson neighbours.",
    reference="context:25",
    where="derived: the layer of the theorem on three regimes, with uniform keys instead of equal angles",
)

GAMMA, RHO = 3.0, 0.5
SCALES = np.array([0.1, 0.5, 2.0, 10.0])
CRITICAL = 1000
"""Tokens at the critical scale: the circle and the sphere are flat up to parts of order `1 / beta` of a share."""


class Share(NamedTuple):
    """A mean over clouds with its standard error."""

    mean: float
    error: float


@functools.partial(jax.jit, static_argnames=("n", "dim"))
def share(key: jax.Array, n: int, dim: int, beta: Float[Array, ""]) -> Float[Array, ""]:
    """The share of its own attention that a token keeps, averaged over the tokens of a cloud."""
    mu = Particles.iid(Sphere(dim), n, key=key)
    return jnp.exp(beta - jnp.log(n) - mu.attend(beta * mu.points).log_mass).mean()


def shares(key: jax.Array, n: int, dim: int, beta: float, clouds: int) -> Share:
    """The same over some clouds."""
    found = np.array([share(each, n, dim, jnp.asarray(beta)) for each in jax.random.split(key, clouds)])
    return Share(float(found.mean()), float(found.std(ddof=1) / np.sqrt(clouds)))


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Shares at `beta = 3 log n` for growing `n`, and at the critical scale on the circle and the sphere."""
    keys = iter(jax.random.split(jax.random.key(seed), 16))
    clouds, lengths = size.pick((8, [250, 1000, 4000]), (32, [250, 1000, 4000, 16000]))
    drowned = [shares(next(keys), n, 3, GAMMA * np.log(n), clouds) for n in lengths]
    beside = [float(context.uniform_share(GAMMA * np.log(n) / n, 3)) for n in lengths]
    flat = {d: CRITICAL ** (2 / (d - 1)) for d in (2, 3)}
    found = {d: [shares(next(keys), CRITICAL, d, c * flat[d], 2 * clouds) for c in SCALES] for d in (2, 3)}
    law = {d: np.asarray(context.uniform_share(SCALES, d)) for d in (2, 3)}
    kept = float(context.equiangular_share(lengths[-1], GAMMA * np.log(lengths[-1]), RHO))
    means = np.array([one.mean for one in drowned])
    return CLAIM.judge(
        at_most("share at γ = 3, over that for a quarter of the tokens", 0.5, (means[1:] / means[:-1]).max()),
        at_least(f"share at equal angles of overlap 1/2, {lengths[-1]} tokens", 0.9, kept),
        # Eight standard errors: by Student's law the mean of eight clouds is beyond with probability 1e-4, of sixteen with 1e-6.
        # Exact up to parts of order 1/n beside that, which matter where the error is as small.
        equal(
            "share at γ = 3 over that of Poisson neighbours",
            np.ones(len(lengths)),
            means / beside,
            [8 * one.error / law + 5 / n for one, law, n in zip(drowned, beside, lengths, strict=True)],
        ),
        *(
            equal(f"share at β = c n^{{2/{d - 1}}}, d = {d}", law[d], [one.mean for one in found[d]], _within(found[d]))
            for d in found
        ),
        data=(lengths, means, beside, found, law),
    )


def _within(found: list[Share]) -> list[float]:
    """Eight standard errors, and what the finite number of tokens changes."""
    return [8 * one.error + 5 / CRITICAL for one in found]


def draw(data: tuple) -> Figure:
    """The share over the length of the context at `beta = 3 log n`, and over the critical scale."""
    lengths, means, beside, found, law = data
    figure, (left, right) = panels(2)
    n = np.geomspace(100, 20000, 200)
    equal_angles = np.asarray(context.equiangular_share(n, GAMMA * np.log(n), RHO))
    curves = [
        Curve("uniform on the sphere", lengths, means, beside),
        Curve("equal angles, overlap 1/2", n, equal_angles),
    ]
    draw_curves(
        left, curves, "tokens n", "share of its own attention", log="xy", law="Poisson neighbours", title="β = 3 log n"
    )
    curves = [
        Curve(f"{name}", SCALES, [one.mean for one in found[d]], law[d])
        for d, name in ((2, "circle, β = c n²"), (3, "sphere, β = c n"))
    ]
    draw_curves(
        right, curves, "c", "share of its own attention", log="x", law="Poisson neighbours", title="critical scale"
    )
    return figure

"""Heads with momentum or Adam follow the flow of very many such heads, with an error like the inverse root of their number.

Velocities and averages are further coordinates of a head, and gradients are those of the mean-field risk, `N` times the ones of a
head: so both are mean-field flows in a larger space, and chaos propagates as for descent.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from measureflow.fields import AbstractField
from measureflow.flows import RK4, Trajectory, evolve
from measureflow.measures import Particles
from measureflow.plotting import Curve, Figure, draw_curves, panels
from measureflow.studies.base import SMALL, Claim, Size, Verdict, equal
from measureflow.studies.training.crowd import FIELD, heads
from measureflow.training import Adam, HeavyBall, extended, marginal, power_law
from measureflow.training.chaos import wave

CLAIM = Claim(
    "Momentum and Adam, with gradients scaled by N, have the same N^{-1/2} propagation of chaos as gradient flow.",
    reference="heads:26",
    where="derived from theorem 5.2 for heads with velocities or averages, as its review suggests",
)
COUNTS = np.array([16, 32, 64, 128])
FULL_COUNTS = 2 ** np.arange(4, 11)
TIMES = np.linspace(0.0, 1.0, 6)
FLOWS: dict[str, tuple[AbstractField, int]] = {
    "momentum": (HeavyBall(FIELD, 1.0), 1),
    "Adam": (Adam(FIELD, 0.1, 0.4, 0.1), 2),
}
PARTS = {"heads": "heads in the mean square", "risk": "the risk", "test function": "a fixed test function"}


@eqx.filter_jit
def block_errors(
    field: AbstractField, whole: Trajectory[Particles], parts: int, counts: Int[Array, " k"], firsts: Int[Array, " k"], most: int
) -> dict[str, Float[Array, " k"]]:
    """How far blocks of heads move from their own paths in the flow of the pool, and their risk and test from the pool's.

    All blocks have the shape of the largest, so that one program moves them; heads beyond the count weigh next to nothing.
    """

    def values(mu: Particles) -> tuple[Float[Array, ""], Float[Array, ""]]:
        heads = marginal(mu, parts)
        return FIELD.energy(heads), heads.expect(wave)

    limit, paths = whole.map(values), whole.measures.points

    def one(block):
        count, first = block
        own = jax.lax.dynamic_slice_in_dim(paths, first, most, axis=1)
        inside = jnp.arange(most) < count
        path = evolve(field, Particles(whole.final.space, own[0], jnp.where(inside, 1.0, 1e-30)), TIMES, RK4(0.1))
        squares = jnp.sum((path.measures.points - own) ** 2, -1)
        gaps = [jnp.abs(a - b).max() for a, b in zip(path.map(values), limit, strict=True)]
        return {
            "heads": jnp.where(inside, squares, 0.0).sum(-1).max() / count.astype(float),
            "risk": gaps[0],
            "test function": gaps[1],
        }

    return jax.lax.map(one, (counts, firsts))


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Blocks of a pool of 8192 heads, each against its own heads in the flow of the pool."""
    pool, numbers = heads(8192, seed), size.pick(COUNTS, FULL_COUNTS)
    most, blocks = int(numbers[-1]), size.pick(64, 32)
    firsts = [np.linspace(0, len(pool.points) - most, min(blocks, len(pool.points) // most * 8)).astype(int) for _ in numbers]
    counts = np.repeat(numbers, [len(part) for part in firsts])
    errors = {}
    for name, (field, extra) in FLOWS.items():
        whole = evolve(field, extended(pool, extra), TIMES, RK4(0.1))
        found = block_errors(field, whole, 1 + extra, jnp.asarray(counts), jnp.asarray(np.concatenate(firsts)), most)
        means = {what: np.array([np.asarray(each)[counts == N].mean() for N in numbers]) for what, each in found.items()}
        errors[name] = means | {"heads": np.sqrt(means["heads"])}
    return CLAIM.judge(
        *(
            equal(f"slope of {what}, {name}", -0.5, power_law(numbers, each[part]).exponent, 0.1)
            for name, each in errors.items()
            for part, what in PARTS.items()
        ),
        data=(numbers, errors),
    )


def draw(data: tuple) -> Figure:
    """The errors against the number of heads, for both ways of training."""
    numbers, errors = data
    figure, axes = panels(2)
    for ax, (name, each) in zip(axes, errors.items(), strict=True):
        curves = [Curve(what, numbers, e, e[0] * np.sqrt(numbers[0] / numbers)) for what, e in each.items()]
        draw_curves(ax, curves, "heads N", "distance to the flow of the pool", log="xy", law=r"$\propto N^{-1/2}$", title=name)
    return figure

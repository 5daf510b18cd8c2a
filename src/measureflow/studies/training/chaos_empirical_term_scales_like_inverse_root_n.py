"""Propagation of chaos: a few heads follow the flow of very many, with an error like the inverse root of their number."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from measureflow.flows import RK4, Trajectory, evolve
from measureflow.measures import Particles
from measureflow.plotting import Curve, Figure, curves_figure
from measureflow.studies.base import SMALL, Claim, Size, Verdict, equal
from measureflow.studies.training.crowd import FIELD, TIMES, heads
from measureflow.training.chaos import power_law, wave

CLAIM = Claim(
    "Theorem 5.2 (24)-(25), empirical term: N heads follow the limiting law with error N^{-1/2} for a fixed test function "
    "and for the risk.",
    reference="heads:26",
    where="theorem 5.2, equations (24)-(25)",
)
COUNTS = np.array([4, 8, 16, 32, 64])
LARGEST = int(COUNTS[-1])
PARTS = {"heads": "heads in the mean square", "risk": "the risk", "test function": "a fixed test function"}


@eqx.filter_jit
def block_errors(
    whole: Trajectory[Particles], solver: RK4, counts: Int[Array, " k"], firsts: Int[Array, " k"]
) -> dict[str, Float[Array, " k"]]:
    """How far blocks of heads move from their own paths in the flow of the pool, and their risk and test from the pool's.

    All blocks have the shape of the largest, so that one program moves them; heads beyond the count weigh next to nothing.
    """

    def values(mu: Particles) -> tuple[Float[Array, ""], Float[Array, ""]]:
        return FIELD.energy(mu), mu.expect(wave)

    limit, paths = whole.map(values), whole.measures.points

    def one(block):
        count, first = block
        own = jax.lax.dynamic_slice_in_dim(paths, first, LARGEST, axis=1)
        inside = jnp.arange(LARGEST) < count
        path = evolve(FIELD, Particles(whole.final.space, own[0], jnp.where(inside, 1.0, 1e-30)), TIMES, solver)
        squares = jnp.sum((path.measures.points - own) ** 2, -1)
        gaps = [jnp.abs(a - b).max() for a, b in zip(path.map(values), limit, strict=True)]
        return {
            "heads": jnp.where(inside, squares, 0.0).sum(-1).max() / count.astype(float),
            "risk": gaps[0],
            "test function": gaps[1],
        }

    return jax.lax.map(one, (counts, firsts))


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """All blocks of 4 to 64 heads of a pool, each against its own heads in the flow of the pool."""
    pool, solver = heads(8192, seed), RK4(size.pick(0.1, 0.02))
    firsts = [np.arange(0, len(pool.points) - LARGEST + 1, N) for N in COUNTS]
    counts = np.repeat(COUNTS, [len(part) for part in firsts])
    whole = evolve(FIELD, pool, TIMES, solver)
    found = block_errors(whole, solver, jnp.asarray(counts), jnp.asarray(np.concatenate(firsts)))
    errors = {name: np.array([np.asarray(each)[counts == N].mean() for N in COUNTS]) for name, each in found.items()}
    errors["heads"] = np.sqrt(errors["heads"])
    return CLAIM.judge(
        # Errors scatter by three quarters of their size, so that 128 blocks of the largest count know their mean to seven
        # per cent and a slope over sixteen-fold numbers has a standard error below .03. Slopes of -1/3 or -1 are outside.
        *(
            equal(f"slope of {what}", -0.5, power_law(COUNTS, errors[name]).exponent, 0.12)
            for name, what in PARTS.items()
        ),
        data=errors,
    )


def draw(errors: dict[str, np.ndarray]) -> Figure:
    """The errors against the number of heads."""
    curves = [Curve(name, COUNTS, e, e[0] * np.sqrt(COUNTS[0] / COUNTS)) for name, e in errors.items()]
    return curves_figure(curves, "heads N", "distance to the flow of the pool", log="xy", law=r"$\propto N^{-1/2}$")

"""Kernels without bound give values more weight than one: tokens can escape in finite time, but not before a known one."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from measureflow.fields import AbstractAttention, LinearAttention, ReLUAttention, Scaled, Sum, UnnormalisedAttention
from measureflow.flows import Adaptive, evolve
from measureflow.measures import Particles
from measureflow.plotting import Curve, Figure, draw_curves, panels
from measureflow.spaces import Euclidean
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_least, at_most, equal
from measureflow.theory import bounds

CLAIM = Claim(
    "Unnormalised, linear and ReLU attention violate estimate 1 and may blow up in finite time.",
    reference="castin:25",
    where="slide on variants without estimate 1, part II of the talk; the times are derived",
)
START = 0.7
TIMES = np.linspace(0.0, 1.5, 16)  # in units of the time for which a solution is sure to exist


@eqx.filter_jit
@eqx.filter_vmap(in_axes=(None, 0, 0, 0, 0))  # over clouds
@eqx.filter_vmap(in_axes=(0, None, None, None, None))  # over kinds
def flow(
    chosen: Float[Array, "2"], A: Array, V: Array, tokens: Float[Array, "n d"], sure: Float[Array, ""]
) -> tuple[Array, Array, Array, Array]:
    """When and how a cloud ends, its radius and the speed of that; linear or ReLU attention as a unit vector chooses."""
    kinds = LinearAttention(A, V), ReLUAttention(A, V)
    attention = Sum(tuple(Scaled(kind, c) for kind, c in zip(kinds, chosen, strict=True)))

    def radius_and_speed(mu) -> tuple[Array, Array]:
        sizes = jnp.linalg.norm(mu.points, axis=1)
        outer = mu.points[jnp.argmax(sizes)]
        return sizes.max(), outer @ attention(0.0, outer[None, :], mu)[0] / sizes.max()

    path = evolve(attention, Particles(Euclidean(2), tokens), sure * TIMES, Adaptive(1e-10, 1e-12))
    return path.outcome.time, path.outcome.blew_up, *path.map(radius_and_speed)


def output_ratio(attention: AbstractAttention) -> float:
    """The output over the bound `‖V‖R` for one token at 2 on the line, with `A = V = 1`."""
    mu = Particles(Euclidean(1), [[2.0]])
    return float(attention(0.0, mu.points, mu)[0, 0] / bounds.output(1.0, 2.0))


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Let one token of each kind run until no step is short enough, and 20 random clouds past their guaranteed time."""
    rng = np.random.default_rng(seed)
    A, V, tokens = rng.normal(size=(21, 2, 2)), rng.normal(size=(21, 2, 2)), rng.normal(size=(21, 8, 2))
    A[0], V[0], tokens[0] = np.eye(2), np.eye(2), [START, 0.0]  # one token on a line, as eight equal ones
    a, v = (np.linalg.norm(matrix, 2, axis=(1, 2)) for matrix in (A, V))
    start = np.linalg.norm(tokens, axis=2).max(1)
    sure = bounds.existence_time(start, v, a)
    found = flow(jnp.eye(2), *map(jnp.asarray, (A, V, tokens, sure)))
    end, blew_up, R, speed = (np.asarray(values) for values in found)

    model = UnnormalisedAttention.isotropic(1)
    escape = evolve(model, Particles(Euclidean(1), [[START]]), [0.0, 1.0]).outcome
    kinds = (LinearAttention.isotropic(1), ReLUAttention.isotropic(1), model)
    times = [bounds.existence_time(START), bounds.existence_time(START), bounds.unnormalised_blow_up(START)]

    known = TIMES < 1
    radii = R[:, :, known]
    R, speed = radii[1:], speed[1:, :, known]
    law = bounds.cubic_radius(sure[1:, None] * TIMES[None, known], start[1:, None], v[1:, None], a[1:, None])
    return CLAIM.judge(
        # Linear, ReLU, unnormalised; rounding.
        equal(
            "output over ‖V‖R of a token at 2", [4.0, 4.0, np.exp(4.0)], [output_ratio(kind) for kind in kinds], 1e-12
        ),
        # Runs stop when time no longer resolves their steps; the rest is the tolerance of the solver on the way.
        equal("times of the blow-ups", times, [*end[0], escape.time], 1e-6),
        equal("runs that end in a blow-up", [1, 1, 1], [*blew_up[0].astype(int), int(escape.blew_up)], 0),
        # Linear and ReLU; inequalities, so no slack. At the start the radius is equal to the solution of its law.
        at_least("least end over 1/(2‖V‖‖A‖R_0²)", 1.0, (end / sure[:, None])[1:].min(0)),
        at_most("R' over ‖V‖‖A‖R³", 1.0, (speed / (v * a)[1:, None, None] / R**3).max((0, 2))),
        at_most("R over R_0 / sqrt(1 - 2‖V‖‖A‖R_0²t)", 1.0, (R / law[:, None, :])[:, :, 1:].max((0, 2))),
        data=radii,
    )


def draw(radii: np.ndarray) -> Figure:
    """The radius over that at the start: one token of its own follows the bound up to infinity, clouds stay below."""
    figure, axes = panels(2)
    s = TIMES[TIMES < 1]
    for ax, kind, found in zip(axes, ("linear", "ReLU"), radii.transpose(1, 0, 2), strict=True):
        lone, *clouds = (R / R[0] for R in found)
        curves = [
            Curve("one token", s, lone, 1 / np.sqrt(1 - s)),
            Curve("widest of 20 random clouds", s, max(clouds, key=np.max)),
        ]
        draw_curves(ax, curves, "time over 1/(2‖V‖‖A‖R₀²)", "radius over R₀", law="bound", title=f"{kind} attention")
    return figure

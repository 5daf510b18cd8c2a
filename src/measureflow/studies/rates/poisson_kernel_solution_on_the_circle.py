"""Poisson kernels on the circle under uniform attention: tokens and the density itself follow one explicit number."""

import jax.numpy as jnp
import numpy as np

from measureflow.diagnostics import order_parameter
from measureflow.fields import UnnormalisedAttention
from measureflow.flows import Adaptive, evolve
from measureflow.measures import CircleDensity, Particles
from measureflow.plotting import Curve, Figure, draw_curves, draw_ring, panels
from measureflow.spaces import Sphere
from measureflow.studies.base import SMALL, Claim, Size, Verdict, equal
from measureflow.theory import circle, kuramoto

CLAIM = Claim(
    "At β=0, d=2 a Poisson-kernel start stays in its family with an explicit order parameter.",
    reference="ott:08",
    where="derived: invariant family of the circle model",
)

ORDER, END = 0.2, 3.0
TIMES = np.linspace(0.0, END, 13)
MODES = 96
"""Of the density; the last moment at the end is 0.675^96, below rounding."""


def chords(mu: Particles) -> jnp.ndarray:
    """The mean squared chord to the point where the mass ends: `W_2²` to it."""
    return mu.expect(lambda x: (x[0] - 1) ** 2 + x[1] ** 2)


def run(size: Size = SMALL) -> Verdict:
    """Move 200 tokens (2000 in full) and the density from order .2 to the time 3, and compare with the closed form."""
    field, solver = UnnormalisedAttention.isotropic(2, 0.0), Adaptive(1e-10, 1e-12)
    angles = kuramoto.poisson_angles(size.pick(200, 2000), ORDER)
    tokens = Particles(Sphere(2), jnp.stack([jnp.cos(angles), jnp.sin(angles)], axis=1))
    path = evolve(field, tokens, TIMES, solver)
    density = CircleDensity.from_function(lambda angle: circle.poisson_kernel(angle, ORDER), MODES)
    moments = np.asarray(evolve(field, density, TIMES, solver).measures.moments)
    orders = np.asarray(path.map(order_parameter))
    law = ORDER * np.exp(TIMES / 2) / np.sqrt(1 - ORDER**2 + ORDER**2 * np.exp(TIMES))
    powers = law[:, None] ** np.arange(MODES + 1)
    return CLAIM.judge(
        equal("order parameter at t = 3, as printed", 0.674984, orders[-1], 1e-6),  # digits printed
        equal("order parameter, t = 0 to 3", law, orders, 1e-9),  # the tolerance of steps, summed
        equal("W_2² to the point, t = 0 to 3", 2 - 2 * law, path.map(chords), 1e-9),
        equal("moments of the density, t = 0 to 3", powers, moments[:, 0], 1e-9),
        equal("odd moments of the density", 0.0, np.abs(moments[:, 1]).max(), 1e-12),  # rounding
        data={"orders": orders, "law": law, "moments": moments},
    )


def draw(found: dict[str, np.ndarray]) -> Figure:
    """The density around the circle at three times, and its order over time."""
    figure, axes = panels(4, width=3.4, height=3.3)
    k = np.arange(MODES + 1)
    grid = 2 * np.pi * np.arange(360) / 360
    shown = (0, 6, 12)
    waves = np.cos(np.outer(grid, k)) * np.where(k > 0, 2.0, 1.0) / (2 * np.pi)
    values = [waves @ found["moments"][i, 0] for i in shown]
    for ax, i, each in zip(axes, shown, values, strict=False):
        draw_ring(ax, each, peak=max(map(np.max, values))).set_title(f"t = {TIMES[i]:g}", fontsize=12)
        ax.set(xlim=(-1.25, 1.95), ylim=(-1.6, 1.6))
    curve = Curve("tokens", TIMES, found["orders"], found["law"])
    draw_curves(axes[3], [curve], "time t", "order parameter r", law="closed form")
    return figure

"""Three bumps on the circle: at large beta they become three points that stay, at small beta they become one.

Unnormalised attention at beta = 20 gathers each bump at the rate e^20 and moves the points at rates of order e^{-10}: no explicit
solver spans both. So time is counted first in units of e^{-20}, until the bumps are points to rounding, and three heavy tokens
go on from there. The point of mass `w_1` turns with the velocity `sin(120°) e^{-β/2} (w_2 - w_3)`.
"""

import jax.numpy as jnp
import numpy as np
from scipy.stats import norm

from measureflow.diagnostics import clusters, order_parameter
from measureflow.fields import UnnormalisedAttention
from measureflow.flows import Euler, evolve
from measureflow.measures import Particles
from measureflow.plotting import Figure, draw_ring, panels
from measureflow.spaces import Sphere
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_least, at_most, equal
from measureflow.theory import circle

CLAIM = Claim(
    "A smallness condition on β is needed: for large β some smooth circle start forms several clusters for very long.",
    reference="chen:25",
    where="example after the main theorem",
)

BETA, MILD, END = 20.0, 0.3, 100.0
MASSES = np.array([0.5, 0.3, 0.2])
CENTRES = 2 * np.pi * np.arange(3) / 3
WIDTH = 0.15
"""The standard deviation of a bump, nine degrees."""


def start(number: int) -> Particles:
    """Tokens that divide the mass of each bump evenly."""
    shares = (np.arange(number) + 0.5) / number
    angles = CENTRES[:, None] + WIDTH * norm.ppf(shares)
    points = np.stack([np.cos(angles), np.sin(angles)], axis=-1).reshape(-1, 2)
    return Particles(Sphere(2), points, np.repeat(MASSES, number))


def distance(mu: Particles) -> float:
    """The Wasserstein distance `W_2` to the nearest of all points: `W_2² = 2 - 2 |mean|` with chords."""
    return float(jnp.sqrt(jnp.maximum(2 - 2 * order_parameter(mu), 0.0)))


def speeds(mu: Particles) -> np.ndarray:
    """The angular velocities of tokens."""
    attention = UnnormalisedAttention.isotropic(2, BETA)
    v = mu.transport(lambda xs: attention(0.0, xs, mu)).points
    return np.asarray(mu.points[:, 0] * v[:, 1] - mu.points[:, 1] * v[:, 0])


def run(size: Size = SMALL) -> Verdict:
    """Gather three uneven bumps at beta = 20, follow the points up to the time 100, and the bumps at beta = 0.3."""
    mu, sharp, soft = start(size.pick(60, 200)), *(UnnormalisedAttention.isotropic(2, beta) for beta in (BETA, MILD))
    gathered, mild = evolve(np.exp(-BETA) * sharp, mu, [0.0, 2.0, 60.0]), evolve(1.0 * soft, mu, [0.0, 2.5, 40.0])
    groups = clusters(gathered.final, 0.01)
    points = Particles(Sphere(2), groups.centres, groups.masses)
    last = evolve(sharp, points, [0.0, END], Euler(1.0)).final
    law = np.sin(2 * np.pi / 3) * np.exp(-BETA / 2) * (np.roll(MASSES, -1) - np.roll(MASSES, -2))
    return CLAIM.judge(
        equal("clusters after gathering", 3, len(groups.masses), 0),
        equal("masses of the three heaviest", MASSES, groups.masses[:3], 1e-12),  # rounding
        equal("clusters at t = 100", 3, len(clusters(last, 0.01).masses), 0),
        at_least("distance W_2 to any point, at the start and at t = 100", 0.5, [distance(mu), distance(last)]),
        # Gathering turns the centres by the square of a width times e^{-30}, and moves add up to END times the speed, 1e-3.
        equal("velocities of the points over their law", [1.0] * 3, speeds(points)[:3] / law, 1e-2),
        # The same bumps at small beta; the rate is (1/2) e^{-0.3} at least.
        at_most("distance W_2 to the nearest point at t = 40, beta = 0.3", 0.01, distance(mild.final)),
        data={name: shown(path) for name, path in (("β = 20", gathered), ("β = 0.3", mild))},
    )


def shown(path) -> list[np.ndarray]:
    """The density at each frame, smoothed to be seen."""
    angles = 2 * np.pi * np.arange(360) / 360
    frames = [path.at(i) for i in range(3)]
    each = [(np.arctan2(*np.asarray(mu.points).T[::-1]), np.asarray(mu.weights)) for mu in frames]
    return [np.asarray(circle.von_mises(angles[:, None] - places[None], 200.0)) @ masses for places, masses in each]


def draw(found: dict[str, list[np.ndarray]]) -> Figure:
    """The bumps at the start and twice later, at both β."""
    figure, axes = panels(3, 2, width=3.0, height=3.2)
    titles = ("at the start", "on the way", "at the end")
    for row, (name, frames) in enumerate(found.items()):
        for ax, frame, title in zip(axes[3 * row :], frames, titles, strict=False):
            draw_ring(ax, frame).set_title(f"{name}, {title}", fontsize=11)
            ax.set(xlim=(-2, 2), ylim=(-2, 2))
    return figure

"""At zero temperature the interior of a cloud is eroded cell by cell: a token ends at the leader of the cell where it starts.

A step is `x + eta (y* - x)` with `y*` the token of largest `<x, y>`. Leaders on the circle score themselves highest and stay.
The cell of a leader, where it scores highest of all, is a cone and so convex: who starts in it stays in it and comes closer by
`1 - eta` a step. The limit of a uniform law on the disc has at each leader the mass of its cell, the angle to its neighbours over
4 pi.
"""

import numpy as np

from measureflow.plotting import Curve, Figure, draw_curves, panels
from measureflow.plotting.paths import draw_regions
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_least, equal
from measureflow.studies.clusters.frank_wolfe import ETA, steps

CLAIM = Claim(
    "In the hardmax limit the interior of a cloud is eroded along the cells of its leaders: every token goes straight to the "
    "leader of its cell, and the limit of a uniform disc has at each leader the mass of its cell.",
    reference="frankwolfe:25",
    where="figures of Voronoi cells and of interior erosion; masses are derived",
)

LEADERS = 7


def leaders(rng: np.random.Generator) -> np.ndarray:
    """Angles of leaders all around, with gaps between a thirteenth and a quarter of a turn."""
    gaps = rng.uniform(1.0, 2.0, LEADERS)
    return rng.uniform(0, 2 * np.pi) + np.cumsum(2 * np.pi * gaps / gaps.sum())


def on_circle(angles: np.ndarray) -> np.ndarray:
    """Points of the unit circle."""
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Five hundred steps of a uniform disc with seven leaders around it."""
    rng = np.random.default_rng(seed)
    angles, count = leaders(rng), size.pick(400, 4000)
    vertices = on_circle(angles)
    # Inside the polygon of the leaders, where no other token is the highest anywhere.
    radius = 0.95 * np.cos(np.diff(angles, append=angles[0] + 2 * np.pi).max() / 2)
    inside = radius * np.sqrt(rng.uniform(size=(count, 1))) * on_circle(rng.uniform(0, 2 * np.pi, count))
    tokens = np.concatenate([vertices, inside])
    path = steps(1.0, tokens)
    owners = (tokens @ vertices.T).argmax(1)
    straight = vertices[owners] + (1 - ETA) ** np.arange(len(path))[:, None, None] * (tokens - vertices[owners])
    ends = np.abs(path[-1][:, None] - vertices[None]).max(2)
    around = np.concatenate([[angles[-1] - 2 * np.pi], angles, [angles[0] + 2 * np.pi]])
    masses, found = (
        (around[2:] - around[:-2]) / (4 * np.pi),
        np.bincount(ends[LEADERS:].argmin(1), minlength=LEADERS) / count,
    )
    return CLAIM.judge(
        # Rounding of 500 steps.
        equal("off the straight way to the leader of its cell", 0.0, np.abs(path - straight).max(), 1e-11),
        equal("distance of the last layer to the nearest leader", 0.0, ends.min(1).max(), 2 * (1 - ETA) ** 500 + 1e-11),
        # Shares of independent tokens: five standard errors of a binomial law.
        equal("mass at each leader", masses, found, 5 * np.sqrt(masses * (1 - masses) / count)),
        at_least("leaders that gained mass", LEADERS, int((found > 0).sum())),
        data=(vertices, path, owners, masses, found),
    )


def draw(data: tuple) -> Figure:
    """Cells with the tokens at the start and on their way, and the masses at the end."""
    vertices, path, owners, masses, found = data
    grid = np.linspace(-1.12, 1.12, 400)
    places = np.stack(np.meshgrid(grid, grid), axis=-1)
    cells = np.where(np.linalg.norm(places, axis=-1) <= 1.06, (places @ vertices.T).argmax(-1), -1)
    figure, axes = panels(3, width=4.4, height=4.1)
    for ax, layer in zip(axes, (0, 12), strict=False):
        title = "start" if layer == 0 else f"after {layer} layers"
        draw_regions(ax, grid, grid, cells, points=path[layer], labels=owners, title=title)
    order = np.argsort(masses)
    curve = Curve("mass at a leader", np.arange(1, LEADERS + 1), found[order], masses[order])
    draw_curves(axes[2], [curve], "leaders, by their cell", "mass", law="mass of its cell", title="end")
    return figure

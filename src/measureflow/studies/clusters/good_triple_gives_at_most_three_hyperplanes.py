"""When V has one dominant direction, tokens end on at most three parallel hyperplanes.

Along the eigenvector `phi_1` scores grow fastest, so in the frame `z = e^{-tV} x` the first coordinate follows the largest
or the smallest one, whichever has its sign. Only a token that balances between the two can end at 0.
"""

import jax.numpy as jnp
import numpy as np

from measureflow.fields import Rescaled, SoftmaxAttention
from measureflow.measures import Particles
from measureflow.plotting import Curve, Figure, draw_curves, panels
from measureflow.spaces import Euclidean
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_most
from measureflow.studies.clusters.polytopes import frames

CLAIM = Claim(
    "If V has a simple real positive dominant eigenvalue and <Qφ_1,Kφ_1> >0, the first coordinate of the rescaled tokens "
    "takes at most three limits.",
    reference="geshkovski:23",
    where="theorem on good triples",
)

VALUE = np.diag([1.0, 0.4, 0.2])
TIMES = np.linspace(0.0, 10.0, 51)


def first_coordinates(seed: int) -> np.ndarray:
    """The first coordinates of 20 rescaled tokens over time."""
    field = Rescaled(SoftmaxAttention(np.eye(3), VALUE))
    return frames(field, Particles.iid(Euclidean(3), 20, key=seed), jnp.asarray(TIMES))[..., 0]


def levels(firsts: np.ndarray) -> list[np.ndarray]:
    """Numbers in groups that no hop below 1e-2 connects."""
    firsts = np.sort(firsts)
    return np.split(firsts, np.flatnonzero(np.diff(firsts) > 1e-2) + 1)


def run(size: Size = SMALL) -> Verdict:
    """Count the levels of the first coordinate from 5 random starts."""
    paths = [first_coordinates(seed) for seed in range(5)]
    found = [levels(path[-1]) for path in paths]
    return CLAIM.judge(
        at_most("values of the first coordinate, 5 starts", 3, [len(groups) for groups in found]),
        # The width of what counts as one value: the other coordinates slow the last tokens down.
        at_most("widest group of one value", 1e-2, max(np.ptp(group) for groups in found for group in groups)),
        data=paths,
    )


def draw(paths: list[np.ndarray]) -> Figure:
    """The first coordinates of three clouds over time."""
    figure, axes = panels(3, width=3.8, height=3.4)
    for ax, path in zip(axes, paths, strict=False):
        draw_curves(ax, [Curve("", TIMES, token) for token in path.T], "time t", "first coordinate")
    return figure

"""Between two plateaus only the closest pair moves: all others wait, exponentially slower.

A change of time, such as `dt = e^{β(1 - max <x_i, x_j>)} ds`, changes how fast a path is run through and not the path. So the
way of each token until the first merger tells.
"""

import numpy as np

from measureflow.plotting import Curve, Figure, curves_figure
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_least, equal
from measureflow.studies.metastability.angles import Angles, follow, on_line

CLAIM = Claim(
    "Under the rescaling dt = e^{β(1 - max<x_i,x_j>)} ds only the closest pair moves.",
    reference="koubbi:24",
    where="numerical section on saddle-to-saddle dynamics",
)

START = np.array([0.0, 0.35, 1.05, 1.95, 2.9])
BETAS = np.array([12.5, 25.0, 50.0, 100.0, 200.0])
RATE = np.cos(0.35) - np.cos(0.7)
"""The next pair is 0.7 apart: its speed is smaller by `e^{-RATE beta}`."""


def ways(beta: float) -> np.ndarray:
    """How far each token has gone when the first two have met."""
    met = lambda mu: mu.points[1, 0] - mu.points[0, 0] - 1e-3  # noqa: E731
    found = follow(Angles(beta), on_line(START), 1e3 * np.exp(beta * (1 - np.cos(0.35))), met, 2)
    return np.abs(found.angles[0] - START)


def run(size: Size = SMALL) -> Verdict:
    """The share of the other tokens in the way of all, over beta."""
    betas = size.pick(BETAS[2:], BETAS)
    moved = np.array([ways(beta) for beta in betas])
    others = moved[:, 2:].sum(1) / moved.sum(1)
    return CLAIM.judge(
        at_least("share of the closest pair, beta 200", 0.99, 1 - others[-1]),
        # Between 50 and 100, where the share is well above rounding. The pair moves apart from the third token by a third of its
        # own way, and the quotient of the times it takes is of order one.
        equal(
            "rate at which the share of the others falls, beta 50 to 100",
            RATE,
            np.log(others[-3] / others[-2]) / 50,
            0.05,
        ),
        data=(betas[:-1], others[:-1]),
    )


def draw(data: tuple) -> Figure:
    """What the other tokens move, over beta."""
    betas, others = data
    law = others[-1] * np.exp(-RATE * (betas - betas[-1]))
    return curves_figure(
        [Curve("", betas, others, law)],
        "β",
        "share of the other tokens in the way",
        log="y",
        law="exp(-β (cos 0.35 - cos 0.7))",
    )

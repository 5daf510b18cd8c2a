"""With the signs that are printed the gate is open outside its ball."""

import numpy as np

from measureflow.fields import Perceptron
from measureflow.measures import Particles
from measureflow.plotting import Curve, Figure, curves_figure
from measureflow.spaces import Sphere
from measureflow.studies.base import SMALL, Claim, Size, Verdict, equal

CLAIM = Claim(
    "As published: with U = -1 z^T and b = cos R the perceptron (U x + b)_+ moves only points of the ball of radius R about z.",
    reference="ruiz:24",
    where="lemma B.2, as printed",
)
REASON = "(cos R - <z, x>)_+ is positive where the angle is larger than R; the gate of the ball is (<z, x> - cos R)_+."
RADIUS = 0.5


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Which of 1000 random points the printed and the corrected gate move."""
    space = Sphere(3)
    mu, z = Particles.iid(space, 1000, key=seed), np.array([0.0, 0.0, 1.0])
    right = Perceptron.gate(z, RADIUS, [1.0, 0.0, 0.0])
    printed = Perceptron(right.W, -right.U, -right.b)
    opened, open_ = (np.linalg.norm(gate(0.0, mu.points, mu), axis=1) for gate in (printed, right))
    far = np.arccos(np.clip(np.asarray(mu.points) @ z, -1.0, 1.0))
    return CLAIM.judge(
        equal("points that are moved and outside, printed", 0, ((opened > 0) & (far > RADIUS)).sum(), 0),
        equal("points of the ball that are not moved, printed", 0, ((opened == 0) & (far < RADIUS)).sum(), 0),
        instead=(
            equal("points on the wrong side, corrected", 0, ((open_ > 0) != (far < RADIUS)).sum(), 0),
            equal("points on the right side, printed", 0, ((opened > 0) == (far < RADIUS)).sum(), 0),
        ),
        reason=REASON,
        data=(far, opened, open_),
    )


def draw(data: tuple[np.ndarray, ...]) -> Figure:
    """How far both gates are open against the angle from the centre."""
    far, opened, open_ = data
    order = np.argsort(far)
    ball = (far[order] < RADIUS).astype(float)
    curves = [
        Curve("as printed", far[order], opened[order], ball * opened.max()),
        Curve("corrected", far[order], open_[order]),
    ]
    return curves_figure(curves, "angle from the centre z", "speed", law="the ball")

"""Two clusters wait for a time exponential in beta, and meet closer to the heavier one than their centre of mass.

Under softmax attention a cluster sees mostly itself, so that its speed is the quotient of the masses, not the other mass.
"""

import numpy as np
from scipy.integrate import quad

from measureflow.plotting import Curve, Figure, draw_curves, panels
from measureflow.studies.base import SMALL, Claim, Size, Verdict, equal
from measureflow.studies.metastability.angles import Angles, follow, on_line
from measureflow.theory import metastability
from measureflow.theory.metastability import closing_speed, merge_place, merge_time, softmax, unnormalised

CLAIM = Claim(
    "Two clusters at an angle p meet after e^{β(1 - cos p)} / (β κ sin²p); softmax attention joins them at the mean weighted by "
    "squared masses, unnormalised attention at the centre of mass.",
    reference="koubbi:24",
    where="derived from the equation of two clusters",
)

MASSES, ANGLE = (0.3, 0.7), 1.2
BETAS = np.array([20.0, 40.0, 80.0])
MET = 0.02
"""The angle at which clusters count as met: from there they contract exponentially, in a time of order one."""


def quadrature(beta: float, model: metastability.Model) -> float:
    """The time until two clusters have met, divided by the one of Laplace's method."""
    scale = float(merge_time(ANGLE, beta, *MASSES, model=model))
    waiting = lambda p: 1 / (scale * float(closing_speed(p, beta, *MASSES, model=model)))  # noqa: E731
    return quad(waiting, MET, ANGLE, epsrel=1e-8, limit=200)[0]


def simulated(beta: float, model: metastability.Model) -> tuple[float, float]:
    """The same from a flow of two tokens, and the place at which they meet."""
    gap = lambda mu: mu.points[1, 0] - mu.points[0, 0] - MET  # noqa: E731
    end = 3 * float(merge_time(ANGLE, beta, *MASSES, model=model))
    found = follow(Angles(beta, model is softmax), on_line(np.array([0.0, ANGLE]), np.array(MASSES)), end, gap, 4)
    return float(np.exp(found.log_times[0])) * 3 / end, float(found.final[0])


def run(size: Size = SMALL) -> Verdict:
    """Compare times by formula, quadrature and flow, and the places of meeting."""
    ratios = np.array([quadrature(beta, softmax) for beta in BETAS])
    plain = np.array([quadrature(beta, unnormalised) for beta in BETAS])
    flows = {model: simulated(20.0, model) for model in (softmax, unnormalised)}
    late = {beta: simulated(beta, softmax)[1] for beta in size.pick([100.0], [50.0, 100.0, 200.0, 400.0])}
    law = float(merge_place(0.0, ANGLE, *MASSES))
    return CLAIM.judge(
        # Digits as printed; Laplace's method leaves out a part of order 1/beta.
        equal("softmax: time over the formula, beta 20, 40, 80", [1.054, 1.023, 1.011], ratios, 1e-3),
        equal("unnormalised: time over the formula is 1 to order 1/beta", np.ones(3), plain, 1.5 / BETAS),
        # Two roads to one number: steps of tolerance 1e-9 and quadrature.
        equal("softmax: time of the flow over quadrature", 1.0, flows[softmax][0] / ratios[0], 1e-6),
        equal("unnormalised: time of the flow over quadrature", 1.0, flows[unnormalised][0] / plain[0], 1e-6),
        # While they are within beta^-1/2 both speeds are alike, which moves the place by a part of order beta^-1/2.
        equal("softmax: place, beta 100", law, late[100.0], 0.1 * ANGLE),
        equal(
            "unnormalised: place",
            float(merge_place(0.0, ANGLE, *MASSES, model=unnormalised)),
            flows[unnormalised][1],
            1e-8,
        ),
        data=(ratios, plain, {20.0: flows[softmax][1]} | late),
    )


def draw(data: tuple) -> Figure:
    """Times over the formula, and places of meeting, against beta."""
    ratios, plain, places = data
    figure, (left, right) = panels(2)
    times = [Curve("softmax", BETAS, ratios, np.ones(3)), Curve("unnormalised", BETAS, plain, np.ones(3))]
    draw_curves(left, times, "β", "time over its formula", log="x", law="Laplace")
    betas = np.array(list(places))
    law = float(merge_place(0.0, ANGLE, *MASSES))
    centre = float(merge_place(0.0, ANGLE, *MASSES, model=unnormalised))
    met = [
        Curve("softmax", betas, list(places.values()), np.full(len(betas), law)),
        Curve("unnormalised, at the centre of mass", betas, np.full(len(betas), centre)),
    ]
    draw_curves(right, met, "β", "angle of meeting", log="x", law="by squared masses")
    return figure

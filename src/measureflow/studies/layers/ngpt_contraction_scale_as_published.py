"""The printed table gives the nGPT contraction the scale `alpha`, where `1 / alpha` is meant."""

import numpy as np

from measureflow.plotting import Curve, Figure, curves_figure
from measureflow.studies.base import SMALL, Claim, Size, Verdict, equal
from measureflow.studies.layers.ngpt import STEPS, late_slopes

CLAIM = Claim(
    "As published: the nGPT contraction scale is α_t.",
    reference="normalization:25",
    where="table of contraction scales",
)
REASON = (
    "The equation of the directions carries the step as a factor, θ'=α|A|^{-1}PA, so a larger step contracts faster: the "
    "variance obeys Var'=-Θ(α Var), and the scale of time is 1/α."
)


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Compare the late slopes of the log variance for three constant steps."""
    slopes = late_slopes(seed)
    trend = np.sign(np.diff(-slopes))
    ratios = slopes[[0, 2]] / slopes[1]
    return CLAIM.judge(
        equal("sign of the change of the rate with alpha", [-1.0, -1.0], trend, 0),  # a scale alpha: slower
        instead=(
            equal("the rate grows with alpha", [1.0, 1.0], trend, 0),
            equal("slopes over that of alpha = 1, alpha = 1/2 and 2", [0.5, 2.0], ratios, [0.025, 0.1]),  # 5%
        ),
        reason=REASON,
        data=-slopes,
    )


def draw(rates: np.ndarray) -> Figure:
    """The rate at which the variance falls, against the step: as measured, and as the printed scale says."""
    curves = [
        Curve("measured", STEPS, rates, 2 * STEPS, (1.9 * STEPS, 2.1 * STEPS)),
        Curve("as published, 2/α", STEPS, 2 / STEPS),
    ]
    return curves_figure(curves, "step α", "rate of the variance", log="xy", law="2α")

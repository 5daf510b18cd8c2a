"""In the normalised transformer tokens contract at a rate proportional to the step `alpha`.

Directions obey `u' = alpha P A / |A|` and near consensus `|A| = 1`, so the variance decays like `e^{-2 alpha t}`: the scale of
time is `1 / alpha`.
"""

import numpy as np

from measureflow.plotting import Curve, Figure, curves_figure
from measureflow.studies.base import SMALL, Claim, Size, Verdict, equal
from measureflow.studies.layers.ngpt import STEPS, TIMES, late_slopes, variances

CLAIM = Claim(
    "In nGPT normalisation the variance contracts at rate proportional to α_t, i.e. scale 1/α_t.",
    reference="normalization:25",
    where="table of contraction scales, corrected",
)


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Follow 16 tokens in dimension 32 at beta = 1 with three constant steps."""
    slopes = late_slopes(seed)
    return CLAIM.judge(
        # At alpha = 1/2 the tokens are not quite together by time 6, so |A| is not quite one.
        equal("slopes over that of alpha = 1, alpha = 1/2 and 2", [0.5, 2.0], slopes[[0, 2]] / slopes[1], [0.025, 0.1]),
        equal("slopes over -2 alpha", np.ones(3), slopes / (-2 * STEPS), 0.05),
        data=variances(seed),
    )


def draw(variances: np.ndarray) -> Figure:
    """The variance over time for each step, and the rate that it comes to have."""
    curves = [
        Curve(f"α = {a:g}", TIMES, v, v[-1] * np.exp(2 * a * (TIMES[-1] - TIMES)))
        for a, v in zip(STEPS, variances, strict=True)
    ]
    figure = curves_figure(curves, "time t", "variance of the tokens", log="y", law=r"$\propto e^{-2αt}$")
    figure.axes[0].set_ylim(top=3.0)
    return figure

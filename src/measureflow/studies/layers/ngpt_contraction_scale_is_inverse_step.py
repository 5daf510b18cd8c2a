"""In the normalised transformer tokens contract at a rate proportional to the step `alpha`.

Directions obey `u' = alpha P A / |A|` and near consensus `|A| = 1`, so the variance decays like `e^{-2 alpha t}`: the scale of
time is `1 / alpha`.
"""

import numpy as np

from measureflow.studies.base import SMALL, Claim, Size, Verdict, equal
from measureflow.studies.layers.ngpt import STEPS, late_slopes

CLAIM = Claim(
    "In nGPT normalisation the variance contracts at rate proportional to α_t, i.e. scale 1/α_t.",
    reference="normalization:25",
    where="table of contraction scales, corrected",
)


def run(size: Size = SMALL) -> Verdict:
    """Follow 16 tokens in dimension 32 at beta = 1 with three constant steps."""
    slopes = late_slopes()
    return CLAIM.judge(
        # At alpha = 1/2 the tokens are not quite together by time 6, so |A| is not quite one.
        equal("slopes over that of alpha = 1, alpha = 1/2 and 2", [0.5, 2.0], slopes[[0, 2]] / slopes[1], [0.025, 0.1]),
        equal("slopes over -2 alpha", np.ones(3), slopes / (-2 * STEPS), 0.05),
    )

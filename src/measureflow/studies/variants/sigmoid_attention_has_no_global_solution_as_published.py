"""The slides list sigmoid attention among those that can blow up; it cannot."""

import numpy as np

from measureflow.plotting import Figure
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_least, at_most, equal
from measureflow.studies.variants.sigmoid import drawn, ratios

CLAIM = Claim(
    "As published: sigmoid attention violates estimate 1 and has no global solution.",
    reference="castin:25",
    where="slide on variants without estimate 1, part II of the talk",
)
REASON = (
    "The logistic function lies between 0 and 1, so the average of the values weighted with it is at most ‖V‖R and the radius "
    "grows at most like e^{‖V‖t}. The slide says otherwise; the abstract of the paper lists sigmoid as well-posed."
)


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Look for a violation and for a run that ends early, with A scaled by 1, 5 and 20."""
    outputs, radii, arrived = ratios(seed)
    return CLAIM.judge(
        at_least("largest output over ‖V‖R", 1.0, outputs.max()),
        at_least("runs of 30 that end before t = 3", 1, 30 - arrived),
        instead=(
            # Inequalities, so no slack.
            at_most("largest output over ‖V‖R, A times 1, 5, 20", 1.0, outputs),
            at_most("largest radius over R_0 e^{‖V‖t}, A times 1, 5, 20", 1.0, radii),
            equal("runs of 30 that reach t = 3", 30, arrived, 0),
        ),
        reason=REASON,
        data=(outputs, radii),
    )


def draw(data: tuple[np.ndarray, np.ndarray]) -> Figure:
    """The largest outputs and radii over their bounds, for scores of three sizes."""
    return drawn(*data)

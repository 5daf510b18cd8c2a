"""Sigmoid attention has no denominator, but its kernel lies between 0 and 1, and that is enough for global solutions."""

import numpy as np

from measureflow.plotting import Figure
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_most, equal
from measureflow.studies.variants.sigmoid import drawn, ratios

CLAIM = Claim(
    "Sigmoid attention satisfies estimate 1 and has global solutions.",
    reference="castin:25",
    where="derived: estimate 1 for bounded kernels",
)


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Follow 20 tokens with ten random A and V up to time 3, with A scaled by 1, 5 and 20."""
    outputs, radii, arrived = ratios(seed)
    return CLAIM.judge(
        # Inequalities, so no slack.
        at_most("largest output over ‖V‖R, A times 1, 5, 20", 1.0, outputs),
        at_most("largest radius over R_0 e^{‖V‖t}, A times 1, 5, 20", 1.0, radii),
        equal("runs of 30 that reach t = 3", 30, arrived, 0),
        data=(outputs, radii),
    )


def draw(data: tuple[np.ndarray, np.ndarray]) -> Figure:
    """The largest outputs and radii over their bounds, for scores of three sizes."""
    return drawn(*data)

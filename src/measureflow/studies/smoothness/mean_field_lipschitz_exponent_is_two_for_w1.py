"""A speck of mass that everybody looks at: attention as a map of measures is as steep as `e^{2‖A‖R²}`.

With `A = -1` a token at `R` looks away from itself. A mass `δ` put at `-R` costs `W_1 = 2Rδ`, but with the kernel
`e^{-xy}` it counts `e^{2R²}` times as much as what is at `R`, and so moves the output there by about `2Rδ e^{2R²}`.
"""

import numpy as np

from measureflow.plotting import Curve, Figure, curves_figure
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_most, equal
from measureflow.studies.smoothness.specks import RADII, speck_stretch
from measureflow.theory import bounds

CLAIM = Claim(
    "In W_1 the Lipschitz constant of the mean-field map is of order e^{2‖A‖R^2}.",
    reference="castin:24",
    where="derived: an atom of small mass far away",
)


def run(size: Size = SMALL) -> Verdict:
    """Measure the stretch at four radii."""
    ratios = np.array([speck_stretch(R) for R in RADII])
    return CLAIM.judge(
        # The speck is finite, which costs one part in a thousand.
        equal("ratio over e^{2R²}, R = 1, 1.5, 2, 2.5", np.ones(4), ratios / np.exp(2 * RADII**2), 0.01),
        # An inequality, so no slack.
        at_most("ratio over the upper bound", 1.0, (ratios / bounds.mean_field_lipschitz(1.0, 1.0, RADII)).max()),
        data=ratios,
    )


def draw(ratios: np.ndarray) -> Figure:
    """The stretch of distances against the radius, between its law and its bound."""
    curves = [
        Curve("a speck of mass far away", RADII, ratios, np.exp(2 * RADII**2)),
        Curve("upper bound", RADII, np.asarray(bounds.mean_field_lipschitz(1.0, 1.0, RADII))),
    ]
    return curves_figure(curves, "radius R", "stretch of W₁", log="y", law=r"$e^{2R^2}$")

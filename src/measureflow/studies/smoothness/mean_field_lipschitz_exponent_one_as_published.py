"""The published Lipschitz constant of attention as a map of measures has half the exponent that `W_1` needs."""

import numpy as np

from measureflow.plotting import Curve, Figure, curves_figure
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_most, equal
from measureflow.studies.smoothness.specks import RADII, speck_stretch, stretch

CLAIM = Claim(
    "As published: W_p(F(μ),F(ν)) <= c(A,V)·R^2·e^{‖A‖R^2}·W_p(μ,ν) with c independent of R, every p>=1.",
    reference="castin:24",
    where="slide on the Lipschitz constant of mean-field attention, part IV of the talk",
)
REASON = (
    "For p=1 a mass of 1e-3·e^{-2R²} at -R, seen from R, stretches distances by e^{2R²}, so the constant would have to "
    "grow like e^{R²}/R². In W_2 such a speck costs the root of its mass, and on this family the statement holds."
)


def atom_stretch(R: float) -> float:
    """How attention stretches, in W_2, the shift by 1e-4 of an atom at -R beside one at R; for the best of its masses."""
    # The best mass is about a third of e^{-2R²}; the maximum is flat, and steps of ten per cent find it.
    masses = np.exp(-2 * R**2) * np.geomspace(0.03, 3.0, 49)
    before, after = np.array([R, -R]), np.array([R, -R + 1e-4])
    return max(stretch((before, w), (after, w), p=2) for w in np.stack([1 - masses, masses], axis=1))


def run(size: Size = SMALL) -> Verdict:
    """Divide the stretch by the published bound and see whether the quotient stays bounded as the radius grows."""
    published = RADII**2 * np.exp(RADII**2)
    first = np.array([speck_stretch(R) for R in RADII]) / published
    second = np.array([atom_stretch(R) for R in RADII[1:]]) / published[1:]
    return CLAIM.judge(
        # A constant keeps quotients bounded; a factor above 3 is growth without doubt.
        at_most("growth of ratio/(R²e^{R²}) from R = 2 to 2.5, p = 1", 3.0, first[3] / first[2]),
        at_most("growth of ratio/(R²e^{R²}) from R = 2 to 2.5, p = 2", 3.0, second[2] / second[1]),
        instead=(
            # One per cent for the finite speck.
            equal(
                "ratio/e^{2R²}, R = 1, 1.5, 2, 2.5, p = 1", np.ones(4), first * published / np.exp(2 * RADII**2), 0.01
            ),
            # The digits of the catalogue.
            equal("ratio/(R²e^{R²}), R = 1.5, 2, 2.5, p = 2", [0.85, 0.76, 0.72], second, 0.005),
        ),
        reason=REASON,
        data={"p = 1": first, "p = 2": second},
    )


def draw(quotients: dict[str, np.ndarray]) -> Figure:
    """The stretch over the published rate, which a constant would bound for every p."""
    curves = [Curve(name, RADII[-len(quotient) :], quotient) for name, quotient in quotients.items()]
    return curves_figure(curves, "radius R", r"stretch of $W_p$ over $R^2e^{R^2}$", log="y")

"""A condition that asks for nothing: beyond its turning the pull falls, so without a minus sign the left side is negative."""

import numpy as np

from measureflow.plotting import Curve, Figure, curves_figure
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_most, equal
from measureflow.theory import centres

CLAIM = Claim(
    "As published: the second capture condition, printed without the minus sign, limits the number of tokens N.",
    reference="karagodin:24",
    where="theorem on frozen centres, as printed",
)
REASON = (
    "The slope of the pull is negative beyond its turning, so N g((c-2ε)β^{-1/2}) < g(εβ^{-1/2}) compares a negative number with "
    "a positive one and holds for every N; with the minus sign it limits N."
)
EPSILON, C, BETAS = 0.1, 6.5, np.array([14.0, 64.0, 1000.0])
NUMBERS = np.geomspace(1, 1e12, 25)


def sides(beta: float) -> tuple[float, float]:
    """The slopes of the pull at `(c - 2ε) β^{-1/2}` and at `ε β^{-1/2}`."""
    s = beta**-0.5
    return float(centres.pull_slope((C - 2 * EPSILON) * s, beta)), float(centres.pull_slope(EPSILON * s, beta))


def run(size: Size = SMALL) -> Verdict:
    """Evaluate the condition as printed and corrected for up to 1e12 tokens."""
    far, near = np.array([sides(beta) for beta in BETAS]).T
    printed = NUMBERS[:, None] * far < near
    largest = -near / far
    corrected = np.stack([centres.capture(NUMBERS, EPSILON, C, beta).slope < 1 for beta in BETAS], axis=1)
    return CLAIM.judge(
        # A limit below 1e12 would leave some of the numbers out.
        at_most("numbers of tokens up to 1e12, of 25, that meet the printed condition", 24, printed.sum(0)),
        instead=(
            at_most("left side for one token, printed", 0.0, far),
            at_most("largest number of tokens, corrected", 1e12, largest),
            # The last number on the grid that is below the limit.
            equal(
                "numbers of tokens, of 25, that meet the corrected condition",
                (NUMBERS[:, None] < largest).sum(0),
                corrected.sum(0),
                0,
            ),
        ),
        reason=REASON,
        data={"as printed": NUMBERS * far[0] / near[0], "with the minus sign": -NUMBERS * far[0] / near[0]},
    )


def draw(found: dict[str, np.ndarray]) -> Figure:
    """The left side over the right one against the number of tokens, at β = 14."""
    laws = [np.ones_like(NUMBERS), None]
    curves = [Curve(name, NUMBERS, values, law) for (name, values), law in zip(found.items(), laws, strict=True)]
    figure = curves_figure(curves, "tokens N", "left side over right side", log="x", law="limit")
    figure.axes[0].set_yscale("symlog", linthresh=1e-2)
    figure.axes[0].set(ylim=(-1e8, 1e8), yticks=[-1e6, -1e3, -1, 0, 1, 1e3, 1e6])
    return figure

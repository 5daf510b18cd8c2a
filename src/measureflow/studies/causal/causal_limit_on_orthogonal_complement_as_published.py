"""A formula that says the opposite of its words: tokens end in the top eigenspace and not across it."""

import numpy as np

from measureflow.plotting import Curve, Figure, curves_figure
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_most, equal
from measureflow.studies.causal.eigenspaces import GOAL, PLANE, Ends
from measureflow.studies.causal.waiting import farthest

CLAIM = Claim(
    "As published in a formula: the limit is the projection on the complement of L.",
    reference="karagodin:24",
    where="conjecture on general values, in its formula",
)
REASON = (
    "The first token follows e^{tV} and turns into the top eigenspace L, at the normalised projection of its start on L; "
    "the others come to it, so their distance from the printed limit, across L, is that of orthogonal unit vectors, √2."
)


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Follow twelve tokens on the sphere for values with eigenvalues 1, 1, 0.3 in random directions."""
    ends = Ends(np.random.default_rng(seed), PLANE, size.pick(4, 40))
    printed = farthest(ends.last, ends.outside)
    return CLAIM.judge(
        at_most("largest distance from the projection on the complement of L", 0.5, printed),
        instead=(
            # Waited for.
            at_most("largest distance from the projection on L", GOAL, ends.far[:, -1]),
            equal(
                "distance from the projection on the complement", np.full(len(printed), np.sqrt(2)), printed, 2 * GOAL
            ),
        ),
        reason=REASON,
        data=(ends.times, ends.far[0], farthest(ends.start, ends.outside)[0], printed[0]),
    )


def draw(found: tuple[np.ndarray, np.ndarray, float, float]) -> Figure:
    """The distance from both limits, the one in words and the one printed, at the start and at the end."""
    times, far, first, last = found
    curves = [
        Curve("from the projection on L", times, far),
        Curve("from the projection on its complement", times[[0, -1]], [first, last]),
    ]
    return curves_figure(curves, "time t", "largest distance of a token", log="y")

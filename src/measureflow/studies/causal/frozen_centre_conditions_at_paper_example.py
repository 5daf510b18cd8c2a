"""When centres hold what is near them: the own centre must outweigh everything about the other ones.

Two inequalities compare the pull of a centre at `ε β^{-1/2}` with that of all tokens near others, and their slopes. Three centres
at equal angles rest by themselves but for `e^{-21}`, so their neighbourhoods can be watched without freezing anything.
"""

import numpy as np

from measureflow.plotting import Curve, Figure, draw_curves, panels
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_least, at_most, equal
from measureflow.studies.causal.waiting import farthest, wait
from measureflow.theory import centres

CLAIM = Claim(
    "The two capture conditions, with the minus sign in the second, hold at ε=.1, c=6.5, β>=14, N<=700.",
    reference="karagodin:24",
    where="theorem on frozen centres, with its sign corrected, and the example after it",
)
EPSILON, C, TOKENS, BETAS = 0.1, 6.5, 700, np.geomspace(14.0, 1000.0, 60)


def sufficient() -> np.ndarray:
    """Both quotients where the sufficient conditions are met, for many values of `ε`, `c` and `β`."""
    epsilon, excess, factor = np.meshgrid(np.linspace(0.01, 0.1, 10), np.linspace(0, 4, 9), np.geomspace(1, 100, 7))
    c = 5.5 + 2 * epsilon + excess
    found = centres.capture(centres.captured(epsilon, c), epsilon, c, factor * (c - 1 - 2 * epsilon) ** 2 / 2)
    return np.stack([found.force, found.slope])


def gathered(rng: np.random.Generator, n: int, beta: float) -> tuple[np.ndarray, np.ndarray]:
    """Times and largest distances, over `ε β^{-1/2}`, of tokens that start within `β^{-1/2}` of one of three centres."""
    homes = np.r_[0, 1, 2, rng.integers(0, 3, n - 3)] * 2 * np.pi / 3
    starts = homes + np.r_[0, 0, 0, rng.uniform(-1, 1, n - 3)] / np.sqrt(beta)
    points, ends = (np.stack([np.cos(a), np.sin(a)], axis=1)[None] for a in (starts, homes))
    reach = EPSILON / np.sqrt(beta)
    times, far, _ = wait(beta * np.eye(2)[None], np.eye(2)[None], points, lambda now: farthest(now, ends), reach)
    return times, far[0] / reach


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Evaluate both inequalities from β = 14 to 1000, and watch 100 tokens (700 in full) near three centres."""
    found = centres.capture(TOKENS, EPSILON, C, BETAS)
    times, far = gathered(np.random.default_rng(seed), size.pick(100, TOKENS), 14.0)
    return CLAIM.judge(
        # Inequalities, so no slack.
        at_most("left over right, force and slope, β = 14 to 1000", 1.0, np.stack([found.force, found.slope])),
        equal("left over right at β = 14", [0.186, 0.0017], [found.force[0], found.slope[0]], 1e-3),  # printed digits
        at_most("left over right where the sufficient conditions are met", 1.0, sufficient().max((1, 2, 3))),
        # The conditions can fail.
        at_least(
            "left over right at β = 14 for 4000 tokens, force", 1.0, centres.capture(4000, EPSILON, C, 14.0).force
        ),
        at_least("largest distance at the start, in units of ε β^{-1/2}", 5.0, far[0]),
        at_most("largest distance in the end, in units of ε β^{-1/2}", 1.0, far[-1]),
        data=(np.asarray(found.force), np.asarray(found.slope), times, far),
    )


def draw(found: tuple[np.ndarray, ...]) -> Figure:
    """The quotients of both conditions against β, and tokens that gather at three centres."""
    force, slope, times, far = found
    figure, (left, right) = panels(2)
    curves = [Curve("force", BETAS, force, np.ones_like(BETAS)), Curve("slope", BETAS, slope)]
    draw_curves(
        left, curves, "β", "left side over right side", log="xy", law="limit", title="N = 700, ε = 0.1, c = 6.5"
    )
    curve = Curve("largest distance from the own centre", times, far, np.ones_like(far))
    draw_curves(
        right,
        [curve],
        "time t",
        r"in units of $\epsilon\beta^{-1/2}$",
        log="y",
        law="neighbourhood",
        title="three centres, β = 14",
    )
    return figure

"""Values stretch their top directions most: the first token turns into them, and the others follow it there.

A token at the end opposite to the first one may stay: near it the values that draw it back beat the first token, which it sees
least of all. So on a line the limits are two opposite points, and on a plane, where tokens can go round, there is one.

This is for Q = K = I. Other queries and keys can hold a token off the line: with the first token at ξ and the second at the
angle φ from -ξ, the second rests where its weights have the quotient `P_21/P_22 = (1 - λ_2) cos φ`, and stays if that
falls with φ.
"""

from typing import Any

import numpy as np
from scipy.optimize import brentq

from measureflow.plotting import Curve, Figure, draw_curves, panels
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_least, at_most, equal
from measureflow.studies.causal.eigenspaces import GOAL, LINE, PLANE, Ends
from measureflow.studies.causal.waiting import farthest, wait

CLAIM = Claim(
    "For symmetric V with top eigenspace L all tokens go to the normalised projection of the first token on L "
    "(to ±ξ if L is a line).",
    reference="karagodin:24",
    where="conjecture on general values, in words; here with Q = K = I, since other choices have a counterexample",
)
TURNED = np.array([[0.2, 0.0], [-2.0, 0.0]])
"""A form `A` with weights that fall: `log(P_21/P_22) = -0.2 c (1 + c) - 2 c s` for `c, s` the cosine and sine of φ."""


def held_off() -> tuple[float, float]:
    """Where two tokens end with those queries and keys: the angle of the second from the line, and its prediction."""
    start = np.array([[[1.0, 0.0], [-np.cos(0.1), np.sin(0.1)]]])
    ends = np.array([[[1.0, 0.0], [-1.0, 0.0]]])
    _, _, last = wait(
        TURNED[None], np.diag([1.0, 0.6])[None], start, lambda now: farthest(now, ends), GOAL, patience=200.0
    )
    predicted: Any = brentq(
        lambda x: -0.2 * np.cos(x) * (1 + np.cos(x)) - np.sin(2 * x) - np.log(0.4 * np.cos(x)), 0.0, 0.7
    )
    return float(np.arctan2(last[0, 1, 1], -last[0, 1, 0])), float(predicted)


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Follow twelve tokens on the sphere for values with eigenvalues 1, 0.6, 0.3 and 1, 1, 0.3 in random directions."""
    rng, runs = np.random.default_rng(seed), size.pick(4, 40)
    line, plane = (Ends(rng, eigenvalues, runs) for eigenvalues in (LINE, PLANE))
    held, predicted = held_off()
    return CLAIM.judge(
        # Waited for; the catalogue asks for 1e-6.
        at_most("largest distance from ±ξ, L a line", GOAL, line.far[:, -1]),
        at_most("largest distance from the projection of the first token, L a plane", GOAL, plane.far[:, -1]),
        # It was a way to go.
        at_least("largest distance from there at the start, L a plane", 0.5, plane.far[:, 0]),
        # A rest point of the flow, up to what is left of the way at t = 200.
        equal("angle off the line of a token held by other queries and keys", predicted, held, 1e-9),
        data={"L a line, to ±ξ": (line.times, line.far), "L a plane, to one point": (plane.times, plane.far)},
    )


def draw(found: dict[str, tuple[np.ndarray, np.ndarray]]) -> Figure:
    """The largest distance from the limit over time, for four choices of queries, keys and values each."""
    figure, axes = panels(2)
    for ax, (name, (times, far)) in zip(axes, found.items(), strict=True):
        curves = [Curve("", times, np.maximum(way, 1e-16)) for way in far[:4]]
        draw_curves(ax, curves, "time t", "distance from the limit", log="y", title=name)
    return figure

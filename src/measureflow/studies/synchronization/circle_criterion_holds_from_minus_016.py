"""The third-derivative criterion for attention on the circle, over inverse temperatures of both signs.

The library differentiates `f` automatically, finds `τ` and sums the rises of `f''`; the other road is the formula of
`f'''` with the trapezoid rule. The picture is the map of what is known: where synchronization is proved, where a triangle
refutes it, and what lies between.
"""

import jax
import jax.numpy as jnp
import numpy as np

from measureflow.plotting import Curve, Figure, draw_curves, panels
from measureflow.plotting.predictions import draw_ranges
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_least, equal
from measureflow.studies.synchronization.thirds import margin, tau
from measureflow.theory import synchronization

CLAIM = Claim(
    "The third-derivative criterion holds for e^{β cos x}sin x for all β >= -0.16.",
    reference="polyanskiy:25",
    where="theorem on the criterion and its application in the abstract",
)

PUBLISHED, EDGE, TRIANGLE = -0.16, -0.19214, -2 / 3
PRINTED = {
    -0.16: 0.4473,
    0.0: 5 - np.pi,
    0.5: 1.8584,
    1.0: 1.4295,
    2.0: 1.1607,
    5.0: 0.8983,
    10.0: 0.7608,
    50.0: 0.5953,
}
SHOWN = np.linspace(-1.25, 2.5, 76)


@jax.jit
@jax.vmap
def criteria(beta: jnp.ndarray) -> synchronization.Criterion:
    """The criterion for attention; a factor does not matter, and this one does not overflow."""
    return synchronization.criterion(lambda x: jnp.exp(beta * (jnp.cos(x) - 1)) * jnp.sin(x))


def limit() -> float:
    """The margin as β → ∞, where `f` becomes `y e^{-y²/2}` with `y = sqrt(β) x`: `f'' = (y³ - 3y) e^{-y²/2}` rises between
    the roots `y² = 3 ± √6` of its derivative, on either side."""
    low, high = (np.sqrt(3 + sign * np.sqrt(6)) for sign in (-1, 1))
    second = lambda y: (y**3 - 3 * y) * np.exp(-(y**2) / 2)  # noqa: E731
    return float(4 - 2 * (second(high) - second(low)))


def run(size: Size = SMALL) -> Verdict:
    """Compute the margin by both roads for β up to 300, and by the formula up to 1000."""
    points = size.pick(40_000, 400_000)
    betas = np.concatenate([np.linspace(PUBLISHED, 1.0, 20), np.geomspace(1.1, 300.0, 20)])
    found = criteria(jnp.asarray(np.concatenate([betas, list(PRINTED), SHOWN])))
    margins, table, shown = np.split(np.asarray(found.margin), np.cumsum([len(betas), len(PRINTED)]))
    formula = np.array([margin(beta, points) for beta in betas])
    far = np.geomspace(300.0, 1000.0, 5)
    beyond = np.array([margin(beta, points) for beta in far])
    return CLAIM.judge(
        equal("margin at the printed beta", list(PRINTED.values()), table, 1e-4),  # digits printed
        # The trapezoid rule misses the kinks by the square of a step times the fourth derivative, about 1e-5 at beta = 300.
        equal("margin, beta = -0.16 to 300, against the formula", formula, margins, 1e-4),
        equal(
            "tau, against its closed form", [tau(beta) for beta in betas], found.tau[: len(betas)], 1e-12
        ),  # rounding
        at_least("margin, beta = -0.16 to 300", 0.0, margins),
        at_least("margin, beta = 300 to 1000", 0.0, beyond),
        # What is left of the limit is 4 tau/2π, and terms of order 1/beta.
        equal(
            "margin without 2 tau/π at beta = 1000, against the limit", limit(), beyond[-1] - 2 * tau(1e3) / np.pi, 2e-3
        ),
        data={"beta": SHOWN, "margin": shown},
    )


def draw(found: dict[str, np.ndarray]) -> Figure:
    """The margin over β, and what it and the triangle say: refuted, open, and proved."""
    figure, (ax,) = panels(width=8.4, height=4.4)
    beta, margins = found["beta"], found["margin"]
    draw_curves(ax, [Curve("", beta, margins)], "β", "margin of the criterion")
    known = {"proved": (PUBLISHED, beta[-1]), "refuted": (beta[0], TRIANGLE)}
    draw_ranges(ax, {**known, "open": (TRIANGLE, PUBLISHED)})
    ax.axhline(0.0, color="#9A9A9A", linewidth=0.9)
    ax.set(ylim=(-4.0, 2.6), xlim=(beta[0], beta[-1]))
    ax.text(-0.96, -1.9, "three\nclusters\nattract", ha="center", fontsize=10, color="#2E3440")
    ax.set_xticks(
        [-1, TRIANGLE, PUBLISHED, 0, 0.5, 1, 1.5, 2, 2.5], ["-1", "-2/3", "-0.16", "0", "0.5", "1", "1.5", "2", "2.5"]
    )
    ax.annotate(
        "the criterion as quoted\nreaches β = -0.192", (EDGE, 0.0), xytext=(0.25, -1.9), fontsize=10, color="#2E3440",
        arrowprops={"arrowstyle": "->", "color": "#2E3440"},
    )  # fmt: skip
    return figure

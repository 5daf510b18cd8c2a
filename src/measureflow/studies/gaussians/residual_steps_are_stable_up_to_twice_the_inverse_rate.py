"""Where continuous depth contracts at a rate, residual layers do so up to the step 2 over that rate, and overshoot beyond it.

With `V = -I` a layer of step `h` maps the covariance `s I` to `s (1 - h beta s)^2 I`: with `y = h beta s` it falls to zero for
`y < 2`, keeps its size at `y = 2` and grows beyond, while the flow `s' = -2 beta s^2` always falls. Two tokens that are close on
the sphere approach at the rate 1: Euler steps multiply their distance by `1 - h`, and fail from `h = 2` on. Layers that
divide by the norm multiply it by `1 / (1 + h)`, and have no limit.
"""

import numpy as np

from measureflow.fields import SoftmaxAttention
from measureflow.flows import Euler, evolve, layers
from measureflow.measures import Gaussian, Particles
from measureflow.plotting import Curve, Figure, draw_curves, panels
from measureflow.spaces import Sphere
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_most, equal

CLAIM = Claim(
    "Residual layers follow a contracting flow up to the step 2 / rate: 2 / (β s) for a Gaussian of variance s, 2 for two tokens "
    "on the sphere by Euler steps; layers that divide by the norm have no limit.",
    reference="castin:25",
    where="deck 004, what changes with discrete depth; derived here",
)

BETA, VARIANCE = 0.7, 1.3
PARTS = np.array([0.5, 0.9, 1.9, 1.99, 2.0, 2.01, 2.1])
"""Steps, in units of `1 / (beta s)`."""
STEPS = np.array([0.1, 0.5, 1.0, 1.9, 2.1, 3.0])
NEAR = 1e-5


def variances(part: float, depth: int) -> np.ndarray:
    """The variance after each layer, over the first."""
    field = SoftmaxAttention(BETA * np.eye(2), -np.eye(2))
    start = Gaussian(np.zeros(2), VARIANCE * np.eye(2))
    path = layers(field, start, depth, part / (BETA * VARIANCE))
    return np.asarray(path.map(lambda mu: mu.cov[0, 0])) / VARIANCE


def by_hand(part: float, depth: int) -> np.ndarray:
    """The same from the recursion of one number."""
    y = [part]
    for _ in range(depth):
        y.append(y[-1] * (1 - y[-1]) ** 2)
    return np.array(y) / part


def factors(step: float) -> tuple[float, float]:
    """By how much one Euler step and one layer multiply the distance of two tokens that are close."""
    angles = np.array([0.0, NEAR])
    mu = Particles(Sphere(2), np.stack([np.cos(angles), np.sin(angles)], axis=1))
    field = SoftmaxAttention.isotropic(2, BETA)
    paths = evolve(field, mu, [0.0, step], Euler(step)), layers(field, mu, 1, step)
    first, second = (np.asarray(path.final.points, float) for path in paths)
    away = lambda x: np.arctan2(x[1, 1], x[1, 0]) - np.arctan2(x[0, 1], x[0, 0])  # noqa: E731
    return away(first) / NEAR, away(second) / NEAR


def run(size: Size = SMALL) -> Verdict:
    """Layers of a contracting Gaussian below, at and above the limit, and one step of two tokens."""
    depth = size.pick(40, 400)
    found = {part: variances(part, depth if part < 2 else 4) for part in PARTS}
    law = {part: by_hand(part, len(path) - 1) for part, path in found.items()}
    off = [np.abs(found[part] / law[part] - 1).max() for part in PARTS]
    tokens = np.array([factors(step) for step in STEPS])
    return CLAIM.judge(
        # Near the limit each layer enlarges a relative error by up to 1 + 2y/(y-1) = 5, so four of them by 600; below it
        # the error stays small beside what is left.
        at_most("variances off their recursion", 1e-9, off),
        at_most("growth of the variance below the limit", 1.0, [(p[1:] / p[:-1]).max() for y, p in found.items() if y < 2]),
        equal("variance at the limit", np.ones(5), found[2.0], 1e-9),
        at_most("variance before a layer over that after it, above the limit",
                1.0, [(p[:-1] / p[1:]).max() for y, p in found.items() if y > 2]),
        # Terms of the square of the distance are left, and rounding of it.
        equal("Euler steps multiply the distance by 1 - h", 1 - STEPS, tokens[:, 0], 1e-9),
        equal("layers divide it by 1 + h", 1 / (1 + STEPS), tokens[:, 1], 1e-9),
        data=(found, tokens),
    )  # fmt: skip


def draw(data: tuple) -> Figure:
    """Variances through the layers around the limit, and the factors of two tokens over the step."""
    found, tokens = data
    figure, (left, right) = panels(2)
    curves = [Curve(f"h β s = {part:g}", np.arange(5), found[part][:5]) for part in (0.5, 1.9, 2.0, 2.01, 2.1)]
    draw_curves(left, curves, "layer", "variance over the first", log="y", title="contracting Gaussian")
    names = "Euler steps", "layers that divide by the norm"
    laws = np.abs(1 - STEPS), 1 / (1 + STEPS)
    curves = [Curve(name, STEPS, np.abs(tokens[:, i]), laws[i]) for i, name in enumerate(names)]
    draw_curves(
        right,
        curves,
        "step h",
        "distance after a step over that before",
        law="|1 - h| and 1/(1 + h)",
        title="two tokens",
    )
    right.axhline(1.0, color="#9aa0a6", linewidth=0.9, zorder=0)
    return figure

"""A Gaussian that blows up in continuous depth stays finite in a residual network of any step.

A layer maps the covariance `s I` to `s (1 + h s)^2 I`, which is finite, while `s' = 2 s^2` is infinite at `t = 1/2`. Where `h s`
is small the two agree; the layers are late by a multiple of `h log(1/h)`.
"""

import jax.numpy as jnp
import numpy as np

from measureflow.fields import SoftmaxAttention
from measureflow.flows import evolve, layers
from measureflow.measures import Gaussian
from measureflow.plotting import Curve, Figure, draw_curves, panels
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_least, equal, slope
from measureflow.theory import gaussian

CLAIM = Claim(
    "A Gaussian that blows up in continuous depth stays finite in a residual network of any step, and the two agree as the step "
    "shrinks.",
    reference="castin:25",
    where="deck 004, what changes with discrete depth; derived here",
)

HUGE = 1e6
STEPS = 2.0 ** -np.arange(9)


def variances(step: float, depth: int) -> np.ndarray:
    """The largest variance after each layer."""
    path = layers(SoftmaxAttention.isotropic(2), Gaussian(np.zeros(2), np.eye(2)), depth, step)
    return np.asarray(path.map(lambda mu: mu.cov[0, 0]))


def by_hand(step: float) -> np.ndarray:
    """The same from the recursion of one number, until it is huge and once more."""
    s = [1.0]
    while s[-1] < HUGE:
        s.append(s[-1] * (1 + step * s[-1]) ** 2)
    return np.array([*s, s[-1] * (1 + step * s[-1]) ** 2])


def run(size: Size = SMALL) -> Verdict:
    """Layers of several steps past the blow-up time, and when they become huge."""
    start = Gaussian(np.zeros(2), np.eye(2))
    blow_up = float(gaussian.blow_up_time(start.cov, jnp.eye(2), jnp.eye(2)))
    steps = size.pick(STEPS[:7], STEPS)
    law = [by_hand(step) for step in steps]
    paths = [variances(step, len(each) - 1) for step, each in zip(steps, law, strict=True)]
    past = [
        np.sum((np.arange(len(path)) * step > blow_up) & np.isfinite(path))
        for step, path in zip(steps, paths, strict=True)
    ]
    late = np.array([step * np.argmax(path > HUGE) for step, path in zip(steps, paths, strict=True)]) - blow_up
    exact = evolve(SoftmaxAttention.isotropic(2), start, [0.0, 0.45, 1.0])
    early = np.array([2 - path[round(0.25 / step)] for step, path in zip(steps[-2:], paths[-2:], strict=True)])
    return CLAIM.judge(
        equal("blow-up time of the flow", 0.5, float(exact.outcome.time), 1e-6),
        equal("blow-up time by theory", 0.5, blow_up, 1e-12),
        at_least("layers past the blow-up time with a finite variance", 1, past),
        equal(
            "variances over their recursion",
            np.ones(len(paths)),
            [np.max(p / q) for p, q in zip(paths, law, strict=True)],
            1e-9,
        ),
        # First order up to the logarithm, which lowers the exponent by a tenth here.
        equal("order of the delay in the step", 1.0, slope(steps[3:], late[3:]), 0.15),
        # At t = 1/4 the variance is 2, far from the blow-up; terms of the next order are left.
        equal("order of the variance at t = 1/4 in the step", 1.0, float(np.log2(early[0] / early[1])), 0.15),
        data=(steps, late, paths),
    )


def draw(data: tuple) -> Figure:
    """Variances over time for some steps with the exact one, and the delay over the step."""
    steps, late, paths = data
    figure, (left, right) = panels(2)
    shown = [0, 2, 4]
    t = np.linspace(0.0, 0.499, 200)
    curves = [Curve(f"step 1/{1 / steps[i]:g}", np.arange(len(paths[i]) - 1) * steps[i], paths[i][:-1]) for i in shown]
    draw_curves(left, [*curves, Curve("continuous depth", t, 1 / (1 - 2 * t))], "depth t", "variance", log="y")
    law = late[-1] * steps / steps[-1]
    draw_curves(
        right,
        [Curve("", steps, late, law)],
        "step",
        f"delay until the variance is {HUGE:g}",
        log="xy",
        law="first order",
    )
    return figure

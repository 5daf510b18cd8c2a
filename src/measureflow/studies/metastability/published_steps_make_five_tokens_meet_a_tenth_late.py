"""A published start of five tokens meets at t = 330; the steps of its script, a tenth long, meet a tenth later.

The script adds a tenth of the raw velocity to a token and divides by the norm. The part of the velocity along the token, which is
close to one in a cluster, then shortens the step by `1 + h`: such layers are a network, and not Euler steps of the flow.
"""

import numpy as np

from measureflow.diagnostics import Linkage, merge_times
from measureflow.fields import SoftmaxAttention
from measureflow.flows import Adaptive, Euler, evolve, layers
from measureflow.measures import Particles
from measureflow.plotting import Curve, Figure, curves_figure
from measureflow.spaces import Sphere
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_most, equal

CLAIM = Claim(
    "The last of five tokens meet at t = 330 at β = 4; steps of 0.1 along the raw velocity, normalised, show 366.",
    reference="koubbi:24",
    where="derived: the start of the published script, with its steps and with exact ones",
)

START = np.array([[0.998, 0.062], [0.977, 0.213], [-0.246, 0.969], [-0.974, 0.228], [-0.999, -0.046]])
BETA, STEP, DISTANCE, END = 4.0, 0.1, 0.05, 400.0
FIELD = SoftmaxAttention.isotropic(2, BETA)


def run(size: Size = SMALL) -> Verdict:
    """Merge times of exact steps with two tolerances, of Euler steps, and of layers."""
    mu = Particles(Sphere(2), START / np.linalg.norm(START, axis=1, keepdims=True))
    meet, times = Linkage(DISTANCE), np.array([0.0, END])
    located = lambda solver: np.asarray(evolve(FIELD, mu, times, solver, events=meet).events.times)  # noqa: E731 # pyright: ignore
    exact, sharper, euler = located(Adaptive()), located(Adaptive(1e-9, 1e-11)), located(Euler(STEP))
    network = layers(FIELD, mu, round(END / STEP), STEP)
    published = np.array([change.before for change in merge_times(network, DISTANCE)])
    return CLAIM.judge(
        equal("last merger, exact", 328.38, exact[-1], 0.01),  # the digits shown here
        at_most("change of merge times with a tolerance ten times tighter", 1e-4, np.abs(exact - sharper)),
        # The last merger waits in clusters, where the velocity along a token is one minus e^{-beta} parts.
        equal("last merger of layers over the exact one", 1 + STEP, published[-1] / exact[-1], 0.015),
        # Euler steps of the tangent velocity are off by a part of the step in the fast phases only.
        equal("last merger of Euler steps over the exact one", 1.0, euler[-1] / exact[-1], 0.01),
        equal("mergers", [4, 4, 4], [len(exact), len(euler), len(published)], 0),
        data=(exact, euler, published),
    )


def draw(data: tuple) -> Figure:
    """Groups left over time."""
    names = "exact", f"Euler steps of {STEP:g}", f"layers of step {STEP:g}"
    curves = [
        Curve(name, np.concatenate([[0.1], np.repeat(times, 2), [END]]), np.repeat(np.arange(5, 0, -1), 2))
        for name, times in zip(names, data, strict=True)
    ]
    return curves_figure(curves, "time t", "clusters", log="x")

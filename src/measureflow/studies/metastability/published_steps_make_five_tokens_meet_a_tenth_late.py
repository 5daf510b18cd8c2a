"""A published start of five tokens meets at t = 328; the steps of its script, a tenth long, meet a tenth later.

The script adds a tenth of the raw velocity to a token and divides by the norm. The part r of the velocity along the token, which
is close to one in a cluster, shortens the step by `1 + h r`: such layers are a network, and not Euler steps of the flow. Five
angles, followed by SciPy, foretell all of it: layers of step h follow `v - h v'v/2` with `v = arctan(h s/(1 + h r))/h` up to a
part of order h², where s is the speed along the circle; Euler steps follow the same with `v = s`.
"""

from collections.abc import Callable

import numpy as np
from scipy.integrate import solve_ivp

from measureflow.diagnostics import Linkage, merge_times
from measureflow.fields import SoftmaxAttention
from measureflow.flows import Adaptive, Euler, evolve, layers
from measureflow.measures import Particles
from measureflow.plotting import Curve, Figure, curve_within, draw_curves, panels
from measureflow.plotting.colours import FAINT, INK
from measureflow.spaces import Sphere
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_least, equal, slope

CLAIM = Claim(
    "The last of five tokens meet at t = 328 at β = 4; steps of 0.1 along the raw velocity, normalised, show 364.",
    reference="koubbi:24",
    where="derived: the start of the published script, with its steps and with exact ones",
)

START = np.array([[0.998, 0.062], [0.977, 0.213], [-0.246, 0.969], [-0.974, 0.228], [-0.999, -0.046]])
ANGLES = np.mod(np.arctan2(START[:, 1], START[:, 0]), 2 * np.pi)
BETA, STEP, DISTANCE, END = 4.0, 0.1, 0.05, 480.0
FIELD = SoftmaxAttention.isotropic(2, BETA)

Velocity = Callable[[np.ndarray], np.ndarray]


def pulls(angles: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The velocity of attention along the circle and along each token, written out for angles."""
    away = angles - angles[:, None]
    kernel = np.exp(BETA * np.cos(away))
    weights = kernel / kernel.sum(1, keepdims=True)
    return (weights * np.sin(away)).sum(1), (weights * np.cos(away)).sum(1)


def flowing(angles: np.ndarray) -> np.ndarray:
    """The velocity of the flow."""
    return pulls(angles)[0]


def stepping(step: float) -> Velocity:
    """The turn of a layer over its step."""

    def velocity(angles):
        along, outward = pulls(angles)
        return np.arctan(step * along / (1 + step * outward)) / step

    return velocity


def modified(velocity: Velocity, step: float) -> Velocity:
    """The velocity of the flow that explicit steps follow at order two, `v - h v'v/2`, by a central difference."""
    small = 1e-5

    def corrected(angles):
        v = velocity(angles)
        return v - step / 2 * (velocity(angles + small * v) - velocity(angles - small * v)) / (2 * small)

    return corrected


def meetings(velocity: Velocity) -> np.ndarray:
    """The times at which neighbours come closer than the distance, by SciPy."""
    events = [lambda t, a, i=i: a[i + 1] - a[i] - DISTANCE for i in range(len(ANGLES) - 1)]
    path = solve_ivp(lambda t, a: velocity(a), (0.0, END), ANGLES, "DOP853", events=events, rtol=1e-8, atol=1e-10)
    return np.sort([times[0] for times in path.t_events])


def run(size: Size = SMALL) -> Verdict:
    """Merge times of exact steps, of Euler steps and of layers, each against the equation that they follow."""
    mu = Particles(Sphere(2), START / np.linalg.norm(START, axis=1, keepdims=True))
    steps = np.array(size.pick([0.4, 0.2, STEP], [0.4, 0.2, STEP, 0.05, 0.025]))
    located = lambda solver: np.asarray(  # noqa: E731
        evolve(FIELD, mu, np.array([0.0, END]), solver, events=Linkage(DISTANCE)).events.times  # pyright: ignore
    )
    seen = lambda h: np.array([change.before for change in merge_times(layers(FIELD, mu, round(END / h), h), DISTANCE)])  # noqa: E731
    exact, euler, network = (
        located(Adaptive()),
        np.array([located(Euler(h)) for h in steps]),
        np.array([*map(seen, steps)]),
    )
    flow = meetings(flowing)
    of_euler = np.array([meetings(modified(flowing, h)) for h in steps])
    of_layers = np.array([meetings(modified(stepping(h), h)) for h in steps])
    last, late = steps == STEP, network[:, -1] - (1 + steps) * exact[-1]
    return CLAIM.judge(
        equal("mergers, exact, against five angles", flow, exact, 1e-5 * flow),  # both have tolerances of 1e-8
        # A layer is seen only at the end of its step; the next order moves the last merger by less.
        equal("mergers of layers against the equation that they follow", of_layers, network, steps[:, None]),
        # Twice as short steps are four times closer, to the next order in steps of which the longest is 0.4.
        equal("order of Euler steps about theirs, last merger", 2.0, slope(steps, np.abs(euler - of_euler)[:, -1]), 0.1),
        equal("last merger: exact, layers of step 0.1", [328.38, 364.1], [exact[-1], network[last][0, -1]], [0.01, STEP]),
        # 1 + h would be the delay of a cluster that is one point, and no delay that of Euler steps of the flow.
        at_least("last merger of layers later than 1 + h times the exact one, in steps", 2.0, late / steps),
        data={"step": steps, "exact": exact, "euler": euler, "layers": network, "of euler": of_euler, "of layers": of_layers},
    )  # fmt: skip


def draw(found: dict[str, np.ndarray]) -> Figure:
    """Groups left over time, and the delay of the last merger over the step."""
    figure, (left, right) = panels(2)
    steps, exact = found["step"], found["exact"]
    at = int(np.flatnonzero(steps == STEP)[0])
    names = {
        "exact": exact,
        f"Euler steps of {STEP:g}": found["euler"][at],
        f"layers of step {STEP:g}": found["layers"][at],
    }
    groups = [
        Curve(name, np.concatenate([[0.1], np.repeat(times, 2), [END]]), np.repeat(np.arange(5, 0, -1), 2))
        for name, times in names.items()
    ]
    draw_curves(left, groups, "time t", "clusters", log="x")
    delays = [
        curve_within(
            name, steps, found[key][:, -1] / exact[-1] - 1, found[f"of {key}"][:, -1] / exact[-1] - 1, steps / exact[-1]
        )
        for name, key in {"layers": "layers", "Euler steps": "euler"}.items()
    ]
    draw_curves(right, delays, "step h", "delay of the last merger", law="equation that steps follow")
    right.plot(steps, steps, color=FAINT, linewidth=0.9)
    right.annotate("h", (steps[0], steps[0]), fontsize=10, color=INK, va="top", ha="right")
    return figure

"""Tokens in separated caps gather quickly and then wait for a time exponential in beta; how long exactly, over several beta.

The theorem bounds the time of waiting from below by `e^{(1 - α) β}`, with the largest overlap `α` of points in two doubled caps.
Two gathered clusters obey an equation of one angle, whose quadrature says when the first of them leaves its doubled cap: at
the rate `1 - cos p`, with the angle `p` between the places where they gathered.
"""

import jax.numpy as jnp
import numpy as np

from measureflow.fields import SoftmaxAttention
from measureflow.flows import Adaptive, evolve
from measureflow.measures import Particles
from measureflow.plotting import Curve, Figure, curve_within, draw_curves, label_axes, panels
from measureflow.plotting.colours import FAINT, PALETTE
from measureflow.spaces import Sphere
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_least, at_most, equal
from measureflow.studies.metastability.angles import Angles, follow, on_line
from measureflow.theory import metastability

CLAIM = Claim(
    "Separated tokens gather in their caps by a time T_1 and stay there at least until T_2, which is exponential in β; two "
    "clusters on the circle at an angle p leave at the rate 1 - cos p in β.",
    reference="koubbi:24",
    where="theorem on dynamic metastability; the time of leaving is derived from the equation of two clusters",
)

EPS, TOKENS, APART, STRENGTH = 0.01, 4, 2.0, 0.5
"""The size of caps, the number of tokens, the angle between two caps, and `λ` of the theorem."""
CENTRES = np.array([0.0, 0.0, APART, APART])
NARROW, WIDE = np.arccos(1 - EPS), np.arccos(1 - 2 * EPS)
ALPHA = float(np.cos(APART - 2 * WIDE))
MARKS = np.array([1.9999, 1.99, 1.9, 1.8, 1.6, 1.4, 1.0, 0.5])
"""Angles between the clusters at which the time is told; where tokens gather closer than at 2, some are passed at no time."""
NODES, WEIGHTS = np.polynomial.legendre.leggauss(200)
ROOM = 0.02
"""How far a rate that is fitted between β = 9 and 40 may be from its limit, which the next order in 1/β shifts by 0.006."""


def starts(rng: np.random.Generator, count: int) -> np.ndarray:
    """Tokens anywhere in their caps, two in each; the first start has them at the edges."""
    places = rng.uniform(-NARROW, NARROW, (count, TOKENS))
    places[0] = NARROW * np.array([1, -1, 1, -1])
    return places + CENTRES


def told(mu: Particles) -> jnp.ndarray:
    """How far the angle between clusters is above the marks, and each token inside its doubled cap."""
    places = mu.points[:, 0]
    apart = (places[2] + places[3] - places[0] - places[1]) / 2
    return jnp.concatenate([apart - jnp.asarray(MARKS), WIDE - jnp.abs(places - jnp.asarray(CENTRES))])


def gathered(places: np.ndarray) -> tuple[float, float]:
    """The angle between the middles of both caps, where tokens gather, and the one at which the first cluster leaves its cap."""
    inward = np.array([places[:2].mean(), APART - places[2:].mean()])
    apart = APART - inward.sum()
    return float(apart), float(apart - 2 * (WIDE - inward.max()))


def waiting(angle: float, start: float, beta: float) -> float:
    """The time in which the angle between two equal clusters shrinks from its start, by quadrature."""
    middle, half = (start + angle) / 2, (start - angle) / 2
    return half * float(WEIGHTS @ (1 / np.asarray(metastability.closing_speed(middle + half * NODES, beta, 0.5, 0.5))))


def simulated(places: np.ndarray, beta: float) -> tuple[np.ndarray, float]:
    """Logarithms of the times at which the angle between clusters passes the marks, and of the first leaving of a doubled cap."""
    end = 10 * waiting(0.2, gathered(places)[0], beta)
    found = follow(Angles(jnp.asarray(beta)), on_line(places), end, told, len(MARKS) + TOKENS)
    left = found.which >= len(MARKS)
    return found.log_times[~left], float(found.log_times[left].min())


def gaps(places: np.ndarray, beta: float) -> np.ndarray:
    """Squared distances within the caps at the time `T_1`, of tokens on the sphere under attention as it is elsewhere."""
    until = float(metastability.gathering_time(TOKENS, beta, EPS, STRENGTH))
    mu = Particles(Sphere(2), np.stack([np.cos(places), np.sin(places)], 1))
    final = evolve(SoftmaxAttention.isotropic(2, jnp.asarray(beta)), mu, np.array([0.0, until]), Adaptive(1e-7)).final
    points = np.asarray(final.points)
    return ((points[[0, 2]] - points[[1, 3]]) ** 2).sum(-1)


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Follow tokens from random places in two caps until they have left them, at several beta."""
    betas = np.array(size.pick([9.0, 13.0, 20.0, 40.0], [9.0, 11.0, 13.0, 16.0, 20.0, 28.0, 40.0]))
    some = starts(np.random.default_rng(seed), size.pick(3, 8))
    law = np.array([[np.log(waiting(gathered(one)[1], gathered(one)[0], beta)) for beta in betas] for one in some])
    ways = [[simulated(one, beta) for beta in betas] for one in some]
    left = np.array([[time for _, time in row] for row in ways])
    until = np.asarray(metastability.persistence_time(ALPHA, TOKENS, betas, EPS))
    within = np.array([[gaps(one, beta) for beta in betas] for one in some])
    # The prefactor of the time is 1/beta to leading order.
    rates = np.array([np.polyfit(betas, row + np.log(betas), 1)[0] for row in left])
    limits = np.array([1 - np.cos(gathered(one)[0]) for one in some])
    return CLAIM.judge(
        at_least("margin of separation", 0.0, np.asarray(metastability.separation(ALPHA, TOKENS, betas, EPS))),
        at_most("squared gaps at T_1", 2 * np.exp(-STRENGTH * betas)[:, None], within),
        at_least("log of the time of leaving, above log T_2", np.log(until), left),
        # While they gather tokens move by a part e^{-14} of the angle, for a few units of times above 1e4.
        equal("log of the time of leaving, against quadrature", law, left, 1e-3),
        equal("its rate in beta, 1 - cos p", limits, rates, ROOM),
        # 1 - α is the rate of the bound: that of two clusters at the inner edges of their doubled caps.
        at_least("that rate above the one of the bound", 1 - ALPHA + 0.1, rates),
        data={
            "beta": betas,
            "law": law,
            "left": left,
            "until": until,
            "passed": [ways[0][k][0] for k in range(len(betas))],
        },
    )


def draw(found: dict[str, np.ndarray]) -> Figure:
    """The angle between clusters over the logarithm of time, a plateau and a fall, and the time of leaving over beta."""
    figure, (left, right) = panels(2)
    betas = found["beta"]
    fine = np.append(APART - np.geomspace(1e-6, 0.5, 40), np.linspace(1.48, 0.4, 40))
    for beta, passed, colour in zip(betas, found["passed"], PALETTE, strict=False):
        law = [np.log(waiting(p, APART, beta)) / beta for p in fine]
        left.plot(law, fine, color=colour, linestyle=(0, (4, 2)), linewidth=1.4, gid="law")
        left.plot(passed / beta, MARKS, "o", color=colour, label=f"β = {beta:g}", gid="found")
    left.axhline(APART - 2 * WIDE, color=FAINT, linewidth=0.9)
    left.annotate("a cluster leaves its cap", (0.05, APART - 2 * WIDE), fontsize=9, va="top")
    left.legend(frameon=False, fontsize=10, loc="lower left")
    label_axes(left, "logarithm of time, log(t) / β", "angle between clusters")
    curves = [
        curve_within(f"start {i + 1}", betas, log, law, ROOM * betas)
        for i, (log, law) in enumerate(zip(found["left"], found["law"], strict=True))
    ]
    draw_curves(
        right,
        [*curves, Curve("T₂, promised", betas, np.log(found["until"]))],
        "β",
        "logarithm of the time of leaving",
        law="quadrature",
    )
    return figure

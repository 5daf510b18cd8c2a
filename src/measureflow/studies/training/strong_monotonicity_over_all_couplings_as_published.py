"""A condition on every coupling is one on Diracs alone: the product coupling of a stationary measure with itself breaks it.

At rest `grad Psi` vanishes on the support, so that the left side of (45) is zero for every coupling of `mu*` with itself, and the
right side is `2 m Var(mu*)` for the product. Optimal couplings repair the proof. They do not repair the ball: heads cannot pass
mass to each other, so that two heads of other masses never come back, and `W_2` contracts to no measure but a Dirac from a whole
ball. Among heads of equal mass it does.
"""

import jax.numpy as jnp
import numpy as np

from measureflow.flows import RK4, evolve
from measureflow.plotting import Curve, Figure, draw_curves, panels
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_least, at_most, equal
from measureflow.studies.training.split_heads import ENERGY, gradients, hessian, law, split
from measureflow.training import Descent

CLAIM = Claim(
    "As published (Theorem 7.1): condition (45), asked for every coupling, describes stationary measures to which W_2 contracts.",
    reference="heads:26",
    where="theorem 7.1, condition (45)",
)
REASON = (
    "For the product coupling of a stationary measure with itself the left side of (45) is zero and the right side 2 m Var, so "
    "that only a Dirac can satisfy it. With optimal couplings among heads of equal mass it holds at two heads as well."
)
EXTRA = 0.05
"""What one of two heads has more than half of the mass."""
SHIFTS = np.geomspace(1e-3, 0.1, 9)


def compared(rest: np.ndarray, moved: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both sides of (45) without `m`, for all pairs of a head and one at rest."""
    pull, still = np.asarray(gradients(jnp.asarray(moved))), np.asarray(gradients(jnp.asarray(rest)))
    apart = moved[:, None] - rest[None]
    return np.sum((pull[:, None] - still[None]) * apart, -1), np.sum(apart**2, -1)


def ratios(rest: np.ndarray, moved: np.ndarray) -> tuple[float, float]:
    """The left side over the right, for the coupling head by head, which is optimal nearby, and for the product."""
    left, right = compared(rest, moved)
    return float(np.trace(left) / np.trace(right)), float(left.sum() / right.sum())


def distances(rest: np.ndarray, times: np.ndarray) -> np.ndarray:
    """`W_2` to rest over time, from heads at rest of which the first has more mass."""
    start = law(jnp.asarray(rest), jnp.array([0.5 + EXTRA, 0.5 - EXTRA]))
    x, y = np.moveaxis(np.asarray(evolve(Descent(ENERGY), start, times, RK4(0.5)).measures.points), 1, 0)
    parts = (x, rest[0], 0.5), (x, rest[1], EXTRA), (y, rest[1], 0.5 - EXTRA)
    return np.sqrt(sum(mass * np.sum((at - to) ** 2, -1) for at, to, mass in parts))


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Two heads at rest: their product coupling, measures nearby in random directions, and heads of masses 0.55 and 0.45."""
    rest = np.asarray(split(seed))
    eigenvalues, vectors = np.linalg.eigh(hessian(jnp.asarray(rest)))
    directions = np.random.default_rng(seed).standard_normal((size.pick(50, 500), 2, 4))
    directions[0] = vectors[:, 0].reshape(2, 4)
    directions /= np.sqrt(np.sum(directions**2, (1, 2), keepdims=True) / 2)
    near = np.array([[ratios(rest, rest + r * h) for h in directions] for r in SHIFTS])
    left, right = (part.mean() for part in compared(rest, rest))
    far, times = float(np.linalg.norm(rest[0] - rest[1])), np.linspace(0.0, 60.0, 13)
    away, least = distances(rest, times), far * np.sqrt(EXTRA / (1 + 2 * EXTRA))
    return CLAIM.judge(
        # Half of the curvature of two heads, which the condition has for couplings head by head.
        at_least("left side of (45), product of μ* with itself", eigenvalues[0] / 2 * right, left),
        instead=(
            # Rounding.
            equal("the same without m", 0.0, left, 1e-12),
            equal("∫|x-y|² of the product over twice the variance", 1.0, right / (far**2 / 2), 1e-12),
            # It is of first order in the shift, and of either sign: the pull of each head meets the distance of the other.
            at_most("least ratio of the product coupling nearby", 0.0, near[:, :, 1].min(1)),
            equal("exponent of the largest ratio of the product coupling over W_2", 1.0,
                  np.polyfit(np.log(SHIFTS[:5]), np.log(np.abs(near[:5, :, 1]).max(1)), 1)[0], 0.05),
            # The least eigenvalue is that of the limit; at the distance 0.01 the next order is a few per cent of it.
            equal("least ratio of the optimal coupling, W_2 up to 0.01, over the least eigenvalue", 1.0,
                  near[:5, :, 0].min(1) / eigenvalues[0], 0.1),
            # Wherever two heads of these masses are they are so far away.
            at_least("W_2 from heads of other masses over its least, all times", 1.0, away / least, 1e-9),
        ),
        reason=REASON,
        data=(near, eigenvalues[0], times, away, least),
    )  # fmt: skip


def draw(found: tuple) -> Figure:
    """What (45) compares for both couplings near rest, over the distance; and heads of other masses, which stay away."""
    near, least, times, away, bound = found
    figure, (left, right) = panels(2, width=5.6)
    for k, name in enumerate(("optimal", "product")):
        low, high = near[:, :, k].min(1), near[:, :, k].max(1)
        law = np.full(len(SHIFTS), least * (1 - k))
        curve = Curve(f"{name} coupling, median", SHIFTS, np.median(near[:, :, k], 1), law)
        draw_curves(
            left, [curve], "W₂ to rest", "left side of (45) over ∫|x-y|²", log="x", law="least predicted, and zero"
        )
        left.fill_between(SHIFTS, low, high, alpha=0.15, linewidth=0)
    curve = Curve("masses 0.55 and 0.45", times, away, np.full(len(times), bound))
    draw_curves(right, [curve], "time t", "W₂ to rest", law="least for such masses")
    right.set_ylim(bottom=0)
    return figure

"""Tokens that move away from what they attend to meet at the origin, slowly.

With `V = -I` and scores `<x, y>` tokens descend `E = sum_ij w_i w_j e^{<x_i, x_j>}`, whose only rest point is the origin: since
`s e^s >= s`, at rest `0 = sum s e^s >= |mean|^2`. Once tokens are small, `x' = -(mean + Cx)`: the mean is gone at once and the
covariance `C' = -2 C^2` tends to `I / 2t`. The norm of a token falls where `<x, mean> >= 0`, so all norms fall for ever if
tokens come in opposite pairs; otherwise they may grow first (see the twin of this study, `as-published`).
"""

import jax.numpy as jnp
import numpy as np

from measureflow.plotting import Curve, Figure, curves_figure
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_most, equal
from measureflow.studies.clusters.fleeing import STARTS, TIMES, paths, random_weights

CLAIM = Claim(
    "For V=-I and Q^TK=I all tokens tend to the origin and attention becomes uniform; every norm falls if tokens come in "
    "opposite pairs.",
    reference="geshkovski:23",
    where="theorem for minus the identity as value",
)


def scores(x: np.ndarray) -> np.ndarray:
    """The inner products of all pairs of tokens of each frame."""
    return x @ np.swapaxes(x, -1, -2)


def energy(x: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """`sum_ij w_i w_j e^{<x_i, x_j>}` of each frame."""
    return np.einsum("ki,ktij,kj->kt", weights, np.exp(scores(x)), weights)


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Follow 10 random starts of 10 weighted tokens in the plane and 10 of opposite pairs, up to time 5000."""
    rng = np.random.default_rng(seed)
    weights, shift = random_weights(rng, 10), rng.normal(size=(STARTS, 1, 2))
    x = np.asarray(paths(jnp.asarray(shift + rng.normal(size=(STARTS, 10, 2))), jnp.asarray(weights)))
    half, half_weights = rng.normal(size=(STARTS, 5, 2)), random_weights(rng, 5)
    starts = np.concatenate([half, -half], axis=1), np.tile(half_weights / 2, 2)
    paired = np.linalg.norm(np.asarray(paths(*map(jnp.asarray, starts))), axis=3)
    heavy = weights[:, None, :]
    attention = heavy * np.exp(scores(x[:, -1]))
    attention /= attention.sum(2, keepdims=True)
    spread = 2 * TIMES[-1] * np.einsum("kn,kni,knj->kij", weights, x[:, -1], x[:, -1])
    largest = np.linalg.norm(x, axis=3).max(2)
    return CLAIM.judge(
        # Theorems, so no slack but the rounding of a sum near one.
        at_most("growth of the energy between frames", 1e-13, np.diff(energy(x, weights), axis=1).max()),
        at_most("growth of any norm between frames, opposite pairs", 0.0, np.diff(paired, axis=1).max()),
        # A norm is at most sqrt(tr C / weight), so by the law sqrt(2 / (2t weight)), and the least weight is above 1/28.
        at_most("largest norm at t = 5000", np.sqrt(28 / TIMES[-1]), largest[:, -1].max()),
        # Exponents are of the size of that square.
        equal("attention over weights at t = 5000, worst", 0.0, np.abs(attention / heavy - 1).max(), 28 / TIMES[-1]),
        # C' = -2 C^2 with corrections of size log(t)/t, which is .002.
        equal("2tC at t = 5000 against the identity, worst entry", 0.0, np.abs(spread - np.eye(2)).max(), 0.01),
        data=largest,
    )


def draw(largest: np.ndarray) -> Figure:
    """The largest norm from some starts, and the power of time that it comes to follow."""
    t, late = TIMES[1:], largest[:4, 1:]
    curves = [Curve(f"start {i + 1}", t, norm, norm[-1] * (t / t[-1]) ** -0.5) for i, norm in enumerate(late)]
    return curves_figure(curves, "time t", "largest norm of a token", log="xy", law=r"$\propto t^{-1/2}$")

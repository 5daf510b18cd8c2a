"""Three ways to disturb attention, and the steepest of all: its Jacobian term by term, and what it says about distances.

A difference of outputs is the integral of the Jacobian along the segment between two clouds, so it is at most the largest local
constant there; in the extremal direction, close by, it is no less. The largest local constant of a convex set is therefore the
Lipschitz constant on it.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from measureflow.measures import Particles
from measureflow.plotting import Curve, Figure, draw_curves, panels
from measureflow.spaces import Euclidean
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_most, equal
from measureflow.studies.smoothness.jacobian import MASKS, attention, in_the_ball, jacobian

CLAIM = Claim(
    "The Jacobian of attention has three terms, and the largest local constant equals the global constant on a ball product.",
    reference="castin:24",
    where="local Lipschitz constant, part IV of the talk; the masked form is that of part V",
)
N, DIM, RADIUS, POINTS = 6, 3, 1.5, 50
STEP = 1e-5
"""Half the length of the steepest pairs."""


@eqx.filter_jit
def outputs(A, V, tokens, mask: str) -> jnp.ndarray:
    """The outputs of the library at many clouds."""
    return jax.vmap(lambda *cloud: output(*cloud, mask=mask))(A, V, tokens)


@eqx.filter_jit
def derivatives(A, V, tokens, mask: str) -> jnp.ndarray:
    """The Jacobians of the library at many clouds, by differentiation."""
    found = jax.vmap(jax.jacfwd(lambda *cloud: output(*cloud, mask=mask), argnums=2))(A, V, tokens)
    return found.reshape(len(tokens), N * DIM, N * DIM)


def output(A, V, tokens, mask: str) -> jnp.ndarray:
    """The output of each token of a cloud."""
    return attention(A, V, mask)(0.0, tokens, Particles(Euclidean(DIM), tokens))


def quotients(A: np.ndarray, V: np.ndarray, ends: np.ndarray, mask: str) -> np.ndarray:
    """Distances of outputs over distances of tokens, for several kinds of pairs, `ends` of shape `(kinds, 2, pairs, n, d)`."""
    kinds, _, pairs, *_ = ends.shape
    A, V = (np.tile(part, (2 * kinds, 1, 1)) for part in (A, V))
    images = np.asarray(outputs(A, V, jnp.asarray(ends.reshape(-1, N, DIM)), mask=mask)).reshape(ends.shape)
    far = [np.linalg.norm((side[:, 0] - side[:, 1]).reshape(kinds, pairs, -1), axis=2) for side in (images, ends)]
    return far[0] / far[1]


def constants_along(A: np.ndarray, V: np.ndarray, one: np.ndarray, other: np.ndarray, mask: str) -> np.ndarray:
    """The local constants on the segments between pairs of clouds, by the formula, `(pairs, points)`."""
    clouds = [(1 - s) * one + s * other for s in np.linspace(0, 1, POINTS)]
    return np.stack([np.linalg.norm(jacobian(A, V, tokens, mask), 2, axis=(1, 2)) for tokens in clouds], axis=1)


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Differentiate at random clouds of six tokens, and compare quotients over 40 segments (500 in full) with constants."""
    rng, pairs = np.random.default_rng(seed), size.pick(40, 500)
    A, V = rng.normal(size=(2, pairs, DIM, DIM))
    one, other = RADIUS * in_the_ball(rng, (2, pairs, N, DIM))
    middle, checks, data = (one + other) / 2, [], {}
    for mask in MASKS:
        formula, along = jacobian(A, V, middle, mask), constants_along(A, V, one, other, mask)
        _, values, right = np.linalg.svd(formula)
        step = STEP * right[:, 0].reshape(middle.shape)
        between, close = quotients(A, V, np.array([[one, other], [middle + step, middle - step]]), mask)
        error = np.abs(derivatives(*map(jnp.asarray, (A, V, middle)), mask=mask) - formula).max((1, 2))
        scale = np.linalg.norm(V, 2, axis=(1, 2)) * (1 + np.linalg.norm(A, 2, axis=(1, 2)) * RADIUS**2)
        checks += [
            # Rounding on both sides, in units of the largest entries there can be.
            equal(f"Jacobian against its three terms, {mask}", 0.0, (error / scale).max(), 1e-12),
            # A quotient is at most an average of constants, far below the largest; 50 of them come as near to that as needed.
            at_most(f"quotient over the largest constant of its segment, {mask}", 1.0, between / along.max(1)),
            # The square of a step of 1e-5 and rounding divided by it.
            equal(f"quotient along the extremal direction over the constant, {mask}", 1.0, close / values[:, 0], 1e-7),
        ]
        data[mask] = (along.max(1), between, values[:, 0], close)
    return CLAIM.judge(*checks, data=data)


def draw(found: dict[str, tuple[np.ndarray, ...]]) -> Figure:
    """Quotients of random pairs below the diagonal, steepest ones on it."""
    figure, axes = panels(2, width=4.6, height=4.2)
    for ax, (mask, (largest, quotient, local, steepest)) in zip(axes, found.items(), strict=True):
        span = np.array([min(quotient.min(), local.min()), max(largest.max(), local.max())])
        draw_curves(
            ax, [Curve("", span, span)], "largest local constant", "quotient of distances", log="xy", title=mask
        )
        ax.lines[0].set(marker="", linestyle="--", linewidth=1.2, color="#2E3440", gid="law")
        for name, x, y, colour in (
            ("two clouds, along their segment", largest, quotient, "#0072B2"),
            ("close by, in the extremal direction", local, steepest, "#D55E00"),
        ):
            ax.plot(x, y, "o", color=colour, markersize=4, alpha=0.8, label=name, gid="found")
        ax.legend(frameon=False, fontsize=9)
    return figure

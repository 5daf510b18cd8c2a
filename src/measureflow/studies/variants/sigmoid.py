"""Clouds under sigmoid attention with scores of three sizes, as two studies see them."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from measureflow.fields import SigmoidAttention
from measureflow.flows import evolve
from measureflow.measures import Particles
from measureflow.plotting import Curve, Figure, curves_figure, draw_allowed
from measureflow.spaces import Euclidean
from measureflow.theory import bounds

SCALES = np.array([1.0, 5.0, 20.0])
TIMES = np.linspace(0.0, 3.0, 31)


@eqx.filter_jit
@jax.vmap
def flow(
    A: Float[Array, "d d"], V: Float[Array, "d d"], tokens: Float[Array, "n d"], queries: Float[Array, "m d"]
) -> tuple[Float[Array, " times"], Float[Array, " times"], Bool[Array, ""]]:
    """The radius of a cloud over time, the largest output at queries up to ten times as far, and whether it arrives."""
    attention = SigmoidAttention(A, V)

    def radius_and_output(mu) -> tuple[Array, Array]:
        R = jnp.linalg.norm(mu.points, axis=1).max()
        return R, jnp.linalg.norm(attention(0.0, R * queries, mu), axis=1).max()

    path = evolve(attention, Particles(Euclidean(2), tokens), TIMES)
    radii, outputs = path.map(radius_and_output)
    return radii, outputs, path.outcome.ok


@functools.cache
def ratios(seed: int) -> tuple[np.ndarray, np.ndarray, int]:
    """For each scale of A the largest output over its bound and the largest radius over its, and how many runs arrive."""
    rng = np.random.default_rng(seed)
    A, V = rng.normal(size=(2, 10, 2, 2))
    # Clouds off the origin, so that some queries see all tokens with a weight near one and come near the bound.
    tokens = rng.normal(size=(10, 1, 2)) + 0.2 * rng.normal(size=(10, 20, 2))
    queries = 10 * rng.uniform(-1, 1, (10, 50, 2)) / np.sqrt(2)
    norms = np.linalg.norm(V, 2, axis=(1, 2))[:, None]
    outputs, radii, arrived = [], [], 0
    for scale in SCALES:
        R, out, ok = map(np.asarray, flow(*map(jnp.asarray, (scale * A, V, tokens, queries))))
        outputs.append((out / bounds.output(norms, R)).max())
        # After the start, where radius and bound are equal.
        radii.append((R / bounds.support_radius(norms * TIMES[None, :], R[:, :1]))[:, 1:].max())
        arrived += int(ok.sum())
    return np.array(outputs), np.array(radii), arrived


def drawn(outputs: np.ndarray, radii: np.ndarray) -> Figure:
    """The largest ratios to the bounds against the scale of the scores."""
    curves = [Curve("output over ‖V‖R", SCALES, outputs, 1.0), Curve("radius over its bound", SCALES, radii, 1.0)]
    figure = curves_figure(curves, "scale of A", "largest ratio", log="x", law="bound")
    figure.axes[0].set_ylim(0.0, 1.2)
    draw_allowed(figure.axes[0], 0.0, 1.0)
    return figure

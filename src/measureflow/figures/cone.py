"""Covariances in motion from several starts, as shapes in the disc of the cone: one row contracts, the other grows.

With value `V = I` the closures contract where the form `A + A^T` is negative and grow where it is positive: under softmax
attention they blow up in finite time, under L2 attention with injective keys and under Sinkhorn attention they do not. The shape
of a covariance is its place in the disc; its size is left out, since it falls to zero or grows without bound.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from measureflow.fields import AbstractField, L2Attention, SinkhornAttention, SoftmaxAttention
from measureflow.flows import evolve
from measureflow.measures import Gaussian
from measureflow.plotting import Figure, panels
from measureflow.plotting.gaussian import draw_disc

SIDE, FRAMES = 7, 30
KEY = np.array([[0.9, 0.25], [0.1, 0.45]])
"""Keys; queries are the same in the row that grows, and opposite in the one that contracts."""
TIMES = {"contracts": 30.0, "grows": 4.0}
WORDS = {("softmax", "grows"): "blows up"}
"""What covariances do in finite time where they do more than the row says."""
MOST_TRACE = 1e3
"""Covariances are drawn up to this trace, as the paper stops them."""


def starts() -> Float[np.ndarray, "n d d"]:
    """Roots of covariances of trace one, on a grid in the disc of shapes."""
    x, y = (axis.ravel() for axis in np.meshgrid(*[np.linspace(-0.85, 0.85, SIDE)] * 2))
    x, y = x[np.hypot(x, y) < 0.9], y[np.hypot(x, y) < 0.9]
    covs = np.stack([np.stack([1 + x, y], -1), np.stack([y, 1 - x], -1)], -2) / 2
    return np.linalg.cholesky(covs)


@eqx.filter_jit
def paths(field: AbstractField, roots: Float[Array, "n d d"], end: Float[Array, ""]) -> Float[Array, "n t d d"]:
    """The covariances of all starts over time."""
    times = jnp.concatenate([jnp.zeros(1), jnp.geomspace(0.01, 1.0, FRAMES)]) * end

    def path(root):
        return evolve(field, Gaussian.from_root(jnp.zeros(2), root), times).map(lambda mu: mu.cov)

    return jax.vmap(path)(roots)


def seen(covs: Float[np.ndarray, "t d d"]) -> Float[np.ndarray, "t d d"]:
    """A path while it is finite and not too large; afterwards it stays where it was."""
    trace = np.trace(covs, axis1=1, axis2=2)
    good = np.isfinite(trace) & (trace < MOST_TRACE)
    last = len(covs) if good.all() else int(np.argmin(good))
    return covs[np.minimum(np.arange(len(covs)), max(last - 1, 0))]


def figure() -> Figure:
    """Three kinds of attention side by side, contracting above and growing below."""
    page, axes = panels(3, 2, width=4.0, height=4.0)
    roots, V = jnp.asarray(starts()), np.eye(2)
    for row, (word, end) in enumerate(TIMES.items()):
        Q = -KEY if word == "contracts" else KEY
        A = KEY.T @ Q
        kinds = {"softmax": SoftmaxAttention(A, V), "L2": L2Attention(Q, KEY, V), "Sinkhorn": SinkhornAttention(A, V)}
        for ax, (name, field) in zip(axes[3 * row :], kinds.items(), strict=False):
            ways = np.asarray(paths(field, roots, jnp.asarray(end)))
            draw_disc(ax, np.stack([seen(way) for way in ways])).set_title(
                f"{name}: {WORDS.get((name, word), word)}", fontsize=12
            )
    return page

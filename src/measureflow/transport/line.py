"""Transport in one dimension, where sorting solves it.

On a line the best coupling keeps the order: it pairs equal quantiles, `W_p^p = ∫ |Q_mu(u) - Q_nu(u)|^p du`. On a circle
it keeps the cyclic order, and what remains is one number, how far the quantiles of one measure are turned against those
of the other; the cost is convex in it (delon:10). Both are sums over the cells between the levels of two distribution
functions, so they cost a sort, and derivatives pass through.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from measureflow.precision import keep_all
from measureflow.transport.pairs import Order

THIRDS = 92
"""Times an interval of turns of length two loses a third: what remains is the rounding of float64."""


@jax.jit(static_argnames="p")
def line_cost(
    x: Float[Array, " n"], a: Float[Array, " n"], y: Float[Array, " m"], b: Float[Array, " m"], p: Order
) -> Float[Array, ""]:
    """The cost `W_p^p` of weighted points on a line: both points of (0, 1/2) against (1/2, 1) move by 1/2."""
    return _paired(*_levels(x, a), *_levels(y, b), p)


@jax.jit(static_argnames="p")
def circle_cost(
    x: Float[Array, " n"], a: Float[Array, " n"], y: Float[Array, " m"], b: Float[Array, " m"], p: Order
) -> Float[Array, ""]:
    """The cost `W_p^p` of weighted angles: `min_r ∫ |Q_mu(u) - Q_nu(u - r)|^p du` with `Q(u + 1) = Q(u) + 2 pi`."""
    x, A = _levels(x, a)
    y, B = _levels(y, b)
    y, B = (jnp.concatenate([z - turn, z, z + turn]) for z, turn in ((y, 2 * jnp.pi), (B, 1.0)))

    def turned(r):
        return _paired(x, A, y, B + r, p)

    def narrow(_, ends):
        low, high = ends
        left, right = low + (high - low) / 3, high - (high - low) / 3
        # By values: where levels meet, as they do for equal weights, slopes depend on which of them counts as first.
        rising = turned(left) < turned(right)
        return jnp.where(rising, low, left), jnp.where(rising, right, high)

    one = jnp.ones((), x.dtype)
    low, high = jax.lax.fori_loop(0, THIRDS, narrow, (-one, one))
    # At the best turn the cost is stationary in the turn, so derivatives need not see it.
    return turned(jax.lax.stop_gradient((low + high) / 2))


def _levels(x: Float[Array, " n"], a: Float[Array, " n"]) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
    """Points in order, each with the value of the distribution function there."""
    order = jnp.argsort(x)
    return x[order], jnp.cumsum(a[order])


def _paired(
    x: Float[Array, " n"], A: Float[Array, " n"], y: Float[Array, " m"], B: Float[Array, " m"], p: Order
) -> Float[Array, ""]:
    """The integral of `|Q_x - Q_y|^p` over `[0, 1]`, cell by cell."""
    cuts = jnp.sort(jnp.clip(jnp.concatenate([jnp.zeros_like(A[:1]), A, B, jnp.ones_like(A[:1])]), 0.0, 1.0))
    widths, middles = jnp.diff(cuts), (cuts[1:] + cuts[:-1]) / 2
    i, j = (jnp.minimum(jnp.searchsorted(levels, middles), len(levels) - 1) for levels in (A, B))
    return widths @ jnp.abs(x[i] - y[j]) ** p


keep_all(globals())

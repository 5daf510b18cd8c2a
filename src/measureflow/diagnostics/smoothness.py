"""How strongly a field reacts to its tokens: the Lipschitz constant at a cloud, without its Jacobian.

The Jacobian of `X -> (v(x_i))` has `(n d)^2` entries; its products with vectors cost as much as the field. Golub-Kahan
bidiagonalisation needs a few dozen of them: `J Q = P B` with orthonormal `P`, `Q` and `B` upper bidiagonal, whose largest
singular value approaches that of `J` from below. The basis is kept orthogonal in full and restarted from the best vector.
"""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from measureflow import checks
from measureflow.annotations import Number
from measureflow.fields import AbstractField
from measureflow.measures import Particles
from measureflow.precision import keep_all

BASIS = 24
"""Vectors of a Lanczos basis, which suffice for almost every cloud."""
RESTARTS = 20
"""How often the basis may start again."""


class Lipschitz(NamedTuple):
    """How strongly a field reacts to its tokens at a cloud, and to which change of them."""

    value: Float[Array, ""]
    """The largest factor by which a small change of the tokens is enlarged, from below."""
    residual: Float[Array, ""]
    """How far value and direction are from a singular pair: some singular value is no farther from the value."""
    direction: Float[Array, "n d"]
    """The change of the tokens that is enlarged most, of norm one in `L^2(mu)`; its sign is arbitrary."""


def lipschitz(field: AbstractField, mu: Particles, t: Number = 0.0, *, tolerance: Number = 1e-6) -> Lipschitz:
    """The largest factor by which a field enlarges a small change of the tokens: the spectral norm of its Jacobian at a cloud.

    Changes and velocities are measured in `L^2(mu)`, with all tokens moving, in ambient coordinates; for equal weights that is
    the spectral norm of the matrix. One token under softmax attention with value `V` gives `|V|`. Never forms the Jacobian:
    products run through the engine of the measure. The value is a lower bound; steps end when the residual is below the
    tolerance times it, or after twenty restarts, and the residual tells which.
    """
    checks.positive("tolerance", tolerance)
    return _lipschitz(field, mu, jnp.asarray(t, mu.points.dtype), jnp.asarray(tolerance, mu.points.dtype))


@eqx.filter_jit
def _lipschitz(field, mu: Particles, t: Float[Array, ""], tolerance: Float[Array, ""]) -> Lipschitz:
    scale = jnp.exp(mu.log_weights / 2)[:, None]

    def velocities(z):
        points = z / scale
        return scale * field(t, points, eqx.tree_at(lambda m: m.points, mu, points))

    z = scale * mu.points
    _, push = jax.linearize(velocities, z)
    pull = jax.linear_transpose(push, z)
    start = jax.random.normal(jax.random.key(0), z.shape, z.dtype)
    found = largest_singular_pair(push, lambda u: pull(u)[0], start, tolerance)
    return Lipschitz(found.value, found.residual, found.vector / scale)


class SingularPair(NamedTuple):
    """A right singular vector of norm one, its singular value, and how far the two are from being exact."""

    vector: Array
    value: Float[Array, ""]
    residual: Float[Array, ""]


def largest_singular_pair(
    push: Callable[[Array], Array], pull: Callable[[Array], Array], start: Array, tolerance: Float[Array, ""]
) -> SingularPair:
    """The largest singular value of a linear map and its vector, from products with the map and with its transpose."""
    size = min(BASIS, start.size)

    def unfinished(state):
        cycle, _, value, residual = state
        return (cycle < RESTARTS) & ~(residual <= tolerance * value)

    def again(state):
        cycle, vector, *_ = state
        best = _cycle(push, pull, vector, size)
        return cycle + 1, *best

    never = SingularPair(start, jnp.zeros((), start.dtype), jnp.full((), jnp.inf, start.dtype))
    return SingularPair(*jax.lax.while_loop(unfinished, again, (jnp.asarray(0), *never))[1:])


def _cycle(push, pull, start: Array, size: int) -> SingularPair:
    """One basis: the best right singular vector in it, its value, and how far the pair is from a singular one."""
    tiny = jnp.finfo(start.dtype).tiny
    Q, P = jnp.zeros((size, start.size), start.dtype), jnp.zeros((size, start.size), start.dtype)

    def grow(k, state):
        Q, P, B, q, norm = state
        Q = Q.at[k].set(q)
        p = _rest(push(q.reshape(start.shape)).ravel(), P)
        alpha = jnp.linalg.norm(p)
        p = p / jnp.maximum(alpha, tiny)
        P = P.at[k].set(p)
        q = _rest(pull(p.reshape(start.shape)).ravel(), Q)
        norm = jnp.linalg.norm(q)
        B = B.at[k, k].set(alpha).at[k, k + 1].set(norm)
        return Q, P, B, q / jnp.maximum(norm, tiny), norm

    q = start.ravel() / jnp.linalg.norm(start)
    B = jnp.zeros((size, size + 1), start.dtype)
    Q, P, B, _, norm = jax.lax.fori_loop(0, size, grow, (Q, P, B, q, jnp.zeros((), start.dtype)))
    left, values, right = jnp.linalg.svd(B[:, :size])
    return SingularPair((right[0] @ Q).reshape(start.shape), values[0], norm * jnp.abs(left[-1, 0]))


def _rest(x: Float[Array, " n"], basis: Float[Array, "k n"]) -> Float[Array, " n"]:
    """A vector without its part in a basis, twice, because once leaves rounding errors that grow."""
    for _ in range(2):
        x = x - (basis @ x) @ basis
    return x


keep_all(globals())

"""Centres of causal clusters: tokens that came before all others near them.

A token that is farther than a separation from every centre before it is a Rényi centre; farther than that from every token
before it, it is a strong one. Strong centres are Rényi centres, because centres are tokens.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from measureflow import checks
from measureflow.annotations import Number
from measureflow.measures import AbstractCloud, Sequence
from measureflow.precision import keep_all


class Centres(NamedTuple):
    """For each token whether it is a centre."""

    renyi: Bool[Array, " n"]
    """Farther than the separation from all earlier centres."""
    strong: Bool[Array, " n"]
    """Farther than the separation from all earlier tokens."""


def centres(mu: AbstractCloud, separation: Number) -> Centres:
    """The Rényi centres and strong Rényi centres of tokens in their order, by distances inside the space.

    On the circle, tokens at angles 0, 0.4, 0.8 and 3 have the Rényi centres 0, 0.8 and 3 at separation 0.5, of which 0.8 is not
    strong: it is too close to 0.4. The order is that of the positions of a `Sequence`, and otherwise of the tokens. Centres are
    found one by one, each by one pass over all tokens; compiled, and may be mapped.
    """
    checks.positive("separation", separation)
    if not isinstance(mu, AbstractCloud):
        raise TypeError(f"`mu` must be tokens with an order, `Particles` or a `Sequence`; got {type(mu).__name__}.")
    return _centres(mu, jnp.asarray(separation, mu.points.dtype))


@eqx.filter_jit
def _centres(mu: AbstractCloud, separation: Float[Array, ""]) -> Centres:
    n = len(mu.points)
    order = jnp.argsort(mu.positions) if isinstance(mu, Sequence) else jnp.arange(n)
    points, rank = mu.points[order], jnp.arange(n)

    def next_centre(state):
        free, renyi, strong = state
        k = jnp.argmax(free)
        far = jax.vmap(lambda y: mu.space.distance(points[k], y))(points) > separation
        alone = (far | (rank >= k)).all()
        return free & far & (rank > k), renyi.at[k].set(True), strong.at[k].set(alone)

    none = jnp.zeros(n, bool)
    _, renyi, strong = jax.lax.while_loop(lambda state: state[0].any(), next_centre, (~none, none, none))
    return Centres(none.at[order].set(renyi), none.at[order].set(strong))


keep_all(globals())

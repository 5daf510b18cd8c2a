"""Steps of Adam, for networks of every kind."""

from typing import Any

import jax
import jax.numpy as jnp

State = tuple[Any, Any, Any]
"""Parameters, and the running means of their gradients and of the squares of these."""


def begun(x: Any) -> State:
    """The state before the first step."""
    zero = jax.tree.map(jnp.zeros_like, x)
    return x, zero, zero


def stepped(state: State, g: Any, k: jax.Array, rate: Any, least: float = 1e-8) -> State:
    """The state after step `k`, counted from zero, along a gradient; what is far smaller than `least` hardly moves it."""
    x, m, s = state
    m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, g)
    s = jax.tree.map(lambda s, g: 0.999 * s + 0.001 * g**2, s, g)
    large, small = 1 - 0.9 ** (k + 1), 1 - 0.999 ** (k + 1)
    move = lambda x, m, s: x - rate * (m / large) / (jnp.sqrt(s / small) + least)  # noqa: E731
    return jax.tree.map(move, x, m, s), m, s

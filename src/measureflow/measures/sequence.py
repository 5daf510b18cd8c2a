"""Tokens with positions: the measure on `[0, 1] x space` that masked attention sees."""

from typing import final

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from measureflow import checks
from measureflow.annotations import Number, Numbers
from measureflow.measures.cloud import AbstractCloud
from measureflow.measures.particles import Particles
from measureflow.spaces import AbstractSpace
from measureflow.sums import AbstractEngine


@final
class Sequence(AbstractCloud):
    """Weighted tokens at positions in `[0, 1]`; positions never move. Equal positions see each other.

    >>> mu = mf.Sequence(mf.Sphere(2), np.eye(2))
    >>> mu.positions.tolist()
    [0.5, 1.0]
    >>> mu.seen_from(0.5).weights.round(3).tolist()
    [0.5, 0.0]
    """

    tokens: Particles
    positions: Float[Array, " n"]
    in_order: bool = eqx.field(static=True)
    """Whether positions are known to increase, so that the past of a token is what comes before it."""

    def __init__(
        self,
        space: AbstractSpace,
        points: Numbers,
        positions: Numbers | None = None,
        weights: Numbers | None = None,
    ):
        self.tokens = Particles(space, points, weights)
        self.in_order = positions is None or (
            checks.concrete(positions) and bool((np.diff(np.asarray(positions)) > 0).all())
        )
        self.positions = _checked(default_positions(self.tokens) if positions is None else positions, self.points)

    @property
    def described(self) -> str:
        """How many tokens, and where."""
        return f"A sequence of {super().described}"

    @property
    def space(self) -> AbstractSpace:
        """The space of the tokens."""
        return self.tokens.space

    @property
    def points(self) -> Float[Array, "*frames n d"]:
        """The tokens."""
        return self.tokens.points

    @property
    def log_weights(self) -> Float[Array, "*frames n"]:
        """The logarithms of the masses."""
        return self.tokens.log_weights

    @property
    def engine(self) -> AbstractEngine:
        """How kernel sums over the tokens are computed."""
        return self.tokens.engine

    def seen_from(self, position: Number) -> Particles:
        """What a query at a position may see: the tokens up to there, not normalised."""
        if checks.concrete(position, self.positions) and not (np.asarray(self.positions) <= position).any():
            raise ValueError(
                f"`position` {float(np.asarray(position)):g} sees no token; the first is at {float(self.positions.min()):g}."
            )
        return past(self.tokens, self.positions, position)


def default_positions(tokens: Particles) -> Float[Array, " n"]:
    """The index as position: token `i` of `n`, counted from one, at `i / n`."""
    n = len(tokens.points)
    return jnp.asarray(np.arange(1, n + 1) / n, tokens.points.dtype)


def past(tokens: Particles, positions: Float[Array, " n"], position: Number) -> Particles:
    """The tokens at positions up to a given one, not normalised; the others keep no weight."""
    return tokens.weigh(
        jnp.where(positions <= jnp.asarray(position, positions.dtype), jnp.zeros_like(positions), -jnp.inf)
    )


def _checked(positions: Numbers, points: Float[Array, "n d"]) -> Float[Array, " n"]:
    checks.shaped("positions", positions, (len(points),), "There is one position for each token.")
    checks.finite("positions", positions)
    if checks.concrete(positions):
        low, high = np.min(np.asarray(positions)), np.max(np.asarray(positions))
        if low < 0 or high > 1:
            raise ValueError(f"`positions` must lie in [0, 1]; they run from {low:g} to {high:g}. Divide by the last.")
    return jnp.asarray(positions, points.dtype)

"""Tokens with positions: the measure on `[0, 1] x space` that masked attention sees."""

from collections.abc import Callable
from typing import final

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Real

from measureflow import checks
from measureflow.measures.base import AbstractMeasure
from measureflow.measures.particles import Particles
from measureflow.spaces import AbstractSpace
from measureflow.sums import AbstractEngine, Attended


@final
class Sequence(AbstractMeasure):
    """Weighted tokens at positions in `[0, 1]`; positions never move. Equal positions see each other."""

    tokens: Particles
    positions: Float[Array, " n"]
    in_order: bool = eqx.field(static=True)
    """Whether positions are known to increase, so that the past of a token is what comes before it."""

    def __init__(
        self,
        space: AbstractSpace,
        points: npt.ArrayLike | Array,
        positions: npt.ArrayLike | Array | None = None,
        weights: npt.ArrayLike | Array | None = None,
    ):
        self.tokens = Particles(space, points, weights)
        self.in_order = positions is None or (
            checks.concrete(positions) and bool((np.diff(np.asarray(positions)) > 0).all())
        )
        positions = default_positions(self.tokens) if positions is None else positions
        checks.shaped("positions", positions, (len(self.tokens.points),), "There is one position for each token.")
        checks.finite("positions", positions)
        if checks.concrete(positions):
            low, high = np.min(np.asarray(positions)), np.max(np.asarray(positions))
            if low < 0 or high > 1:
                raise ValueError(
                    f"`positions` must lie in [0, 1]; they run from {low:g} to {high:g}. Divide by the last."
                )
        self.positions = jnp.asarray(positions, self.tokens.points.dtype)

    def seen_from(self, position: Real[ArrayLike, ""]) -> Particles:
        """What a query at a position may see: the tokens up to there, not normalised."""
        if checks.concrete(position, self.positions) and not (np.asarray(self.positions) <= position).any():
            raise ValueError(
                f"`position` {float(np.asarray(position)):g} sees no token; the first is at {float(self.positions.min()):g}."
            )
        return past(self.tokens, self.positions, position)

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

    @property
    def weights(self) -> Float[Array, "*frames n"]:
        """The masses of the tokens; they sum to one."""
        return self.tokens.weights

    def attend(self, covectors: Float[Array, "m d"]) -> Attended:
        """The kernel sum over all tokens, whatever their positions."""
        return self.tokens.attend(covectors)

    def ridge(
        self, kernel: Callable[[Float[Array, "*s"]], Float[Array, "*s"]], covectors: Float[Array, "m d"]
    ) -> tuple[Float[Array, " m"], Float[Array, "m d"]]:
        """The kernel sums over all tokens, whatever their positions."""
        return self.tokens.ridge(kernel, covectors)

    def potential(self, f: Callable[[Float[Array, "m d"]], Float[Array, " m"]]) -> Float[Array, " n"]:
        """The values of a function at the tokens."""
        return self.tokens.potential(f)

    def weigh(self, potential: Float[Array, " n"]) -> "Sequence":
        """Add a potential to the log weights."""
        return self._with(self.tokens.weigh(potential))

    def using(self, engine: AbstractEngine) -> "Sequence":
        """The same sequence with another engine."""
        return self._with(self.tokens.using(engine))

    @property
    def engine_name(self) -> str:
        """The engine that does the sums of the tokens over themselves."""
        return self.tokens.engine_name

    def push(self, place: Callable[[Float[Array, " d"]], Float[Array, " d"]]) -> "Sequence":
        """The image of the tokens under a map of one point, at their positions."""
        return self._with(self.tokens.push(place))

    def integrate(self, integrand: Callable[[Float[Array, "m d"]], Float[Array, "m *shape"]]) -> Float[Array, "*shape"]:
        """The weighted sum of a function over the tokens."""
        return self.tokens.integrate(integrand)

    def transport(self, velocity: Callable[[Float[Array, "m d"]], Float[Array, "m d"]]) -> "Sequence":
        """Each token follows its velocity; positions and weights stay."""
        rate = self._with(self.tokens.transport(velocity))
        return eqx.tree_at(lambda m: m.positions, rate, jnp.zeros_like(self.positions))

    def shift(self, displacement: Float[Array, "n d"]) -> "Sequence":
        """Each token moved by an ambient displacement; it may leave the space."""
        return self._with(self.tokens.shift(displacement))

    def advance(self, displacement: Float[Array, "n d"]) -> "Sequence":
        """Each token moved along a geodesic."""
        return self._with(self.tokens.advance(displacement))

    def settle(self) -> "Sequence":
        """Every token put back on the space."""
        return self._with(self.tokens.settle())

    def _with(self, tokens: Particles) -> "Sequence":
        return eqx.tree_at(lambda m: m.tokens, self, tokens)


def default_positions(tokens: Particles) -> Float[Array, " n"]:
    """The index as position: token `i` of `n`, counted from one, at `i / n`."""
    n = len(tokens.points)
    return jnp.arange(1, n + 1, dtype=tokens.points.dtype) / n


def past(tokens: Particles, positions: Float[Array, " n"], position: Real[ArrayLike, ""]) -> Particles:
    """The tokens at positions up to a given one, not normalised; the others keep no weight."""
    return tokens.weigh(
        jnp.where(positions <= jnp.asarray(position, positions.dtype), jnp.zeros_like(positions), -jnp.inf)
    )

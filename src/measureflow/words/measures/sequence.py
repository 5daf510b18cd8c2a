"""Tokens with positions, as a masked network reads them; the file of the start may hold `positions` in [0, 1]."""

from typing import TYPE_CHECKING, Any

import numpy as np

from measureflow.words.measures.base import Rules
from measureflow.words.measures.tokens import AbstractTokens

if TYPE_CHECKING:
    from measureflow.measures import Sequence
    from measureflow.words.settings import Settings


class PositionedTokens(AbstractTokens):
    """Tokens of which each sees those at positions up to its own."""

    help = "tokens with positions"
    kind = "measureflow.measures:Sequence"
    usual = {"mask": "causal"}

    def rules(self, config: "Settings") -> Rules:
        """Positions mean something under a mask alone."""
        return [
            (
                config.mask == "none",
                "`measure` sequence has positions, which only a `mask` sees: take `measure` particles",
            )
        ]

    def start(self, config: "Settings") -> "Sequence":
        """Tokens at the positions of a file, or evenly spaced."""
        from measureflow.measures import Sequence
        from measureflow.words.initial_laws import tokens

        held = tokens(config, "points", "positions", "weights")
        return Sequence(held["space"], held["points"], held["positions"], held["weights"])

    def fixed(self, mu: Any) -> dict[str, tuple[str, np.ndarray]]:
        """Weights and positions."""
        return super().fixed(mu) | {"positions": ("token", np.asarray(mu.positions))}

    def restored(self, facts: dict[str, Any], arrays: dict[str, np.ndarray]) -> "Sequence":
        """The sequence of one frame."""
        from measureflow.measures import Sequence
        from measureflow.words.spaces import space_of

        return Sequence(space_of(facts["space"]), arrays["points"], arrays["positions"], arrays["weights"])


WORD = PositionedTokens()

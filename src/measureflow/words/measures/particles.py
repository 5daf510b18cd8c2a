"""Tokens: finitely many weighted points."""

from typing import TYPE_CHECKING, Any

import numpy as np

from measureflow.words.measures.tokens import AbstractTokens

if TYPE_CHECKING:
    from measureflow.measures import Particles
    from measureflow.words.settings import Settings


class Tokens(AbstractTokens):
    """Tokens whose order means nothing, or that are masked by their index."""

    help = "tokens"
    kind = "measureflow.measures:Particles"
    rank = 0

    def start(self, config: "Settings") -> "Particles":
        """Tokens drawn from a law, or those of a file."""
        from measureflow.measures import Particles
        from measureflow.words.initial_laws import tokens

        held = tokens(config, "points", "weights")
        return Particles(held["space"], held["points"], held["weights"])

    def restored(self, facts: dict[str, Any], arrays: dict[str, np.ndarray]) -> "Particles":
        """The tokens of one frame."""
        from measureflow.measures import Particles
        from measureflow.words.spaces import space_of

        return Particles(space_of(facts["space"]), arrays["points"], arrays["weights"])


WORD = Tokens()

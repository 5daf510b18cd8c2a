"""A density on the circle through its moments: exact to rounding while they resolve it."""

from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import PositiveInt

from measureflow.words.measures.base import Rules
from measureflow.words.measures.densities import FOLLOW, AbstractRing, values_in
from measureflow.words.table import Option

if TYPE_CHECKING:
    from measureflow.measures import CircleDensity
    from measureflow.words.settings import Settings


class CircleWord(AbstractRing):
    """Moments of a density on the circle."""

    help = "a density on the circle by its moments"
    kind = "measureflow.measures:CircleDensity"
    brings = {
        "modes": Option(PositiveInt | None, None, "moments of a density on the circle, or degree on a sphere")
    } | FOLLOW
    usual = {"dim": 2, "init": "ripples", "modes": 256}
    in_file = ("modes",)

    def rules(self, config: "Settings") -> Rules:
        """A file has its own number of moments."""
        both = config.from_file and config.modes is not None
        return [
            *super().rules(config),
            (both, "`modes` is half the number of values in the file of `init`: drop `modes`"),
        ]

    def start(self, config: "Settings") -> "CircleDensity":
        """The density of a law, or that of a file."""
        from measureflow.measures import CircleDensity
        from measureflow.words.initial_laws import density, key_of, law_of

        if config.from_file:
            return CircleDensity(values_in(config))
        return density(law_of(config), 2, config.modes, key_of(config))

    def facts(self, mu: "CircleDensity") -> dict[str, Any]:
        """The number of moments, and their filter."""
        return {"modes": mu.modes, "filter": mu.filter}

    def restored(self, facts: dict[str, Any], arrays: dict[str, np.ndarray]) -> "CircleDensity":
        """The density of one frame, also if it has become negative somewhere."""
        import equinox as eqx
        import jax.numpy as jnp

        from measureflow.measures import CircleDensity

        values, even = arrays["density"], CircleDensity.uniform(facts["modes"], facts["filter"])
        m = np.fft.rfft(values)[: facts["modes"] + 1] * (2 * np.pi / len(values))
        return eqx.tree_at(lambda mu: mu.moments, even, jnp.asarray(np.stack([m.real, -m.imag])))


WORD = CircleWord()

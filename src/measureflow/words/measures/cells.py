"""A density on the circle through its averages over cells: second order, but positive through collapse."""

from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import PositiveInt

from measureflow.words.measures.densities import AbstractRing, values_in
from measureflow.words.table import Option

if TYPE_CHECKING:
    from measureflow.measures import CircleCells
    from measureflow.words.settings import Settings


class CellsWord(AbstractRing):
    """Averages of a density over equal cells of the circle."""

    help = "a density on the circle by averages over cells"
    kind = "measureflow.measures:CircleCells"
    brings = {"cells": Option(PositiveInt | None, None, "cells of a density on the circle")}
    usual = {"dim": 2, "init": "ripples", "cells": 512}
    in_file = ("cells",)

    def start(self, config: "Settings") -> "CircleCells":
        """The density of a law at the middles of the cells, normalised, or that of a file."""
        import jax.numpy as jnp

        from measureflow.measures import CircleCells
        from measureflow.measures.circle import ring
        from measureflow.words.initial_laws import key_of, law_of

        if config.from_file:
            return CircleCells(values_in(config))
        values = law_of(config).height(jnp.asarray(ring(config.cells).nodes, float), key_of(config))
        return CircleCells(values / (values.mean() * 2 * np.pi))

    def restored(self, facts: dict[str, Any], arrays: dict[str, np.ndarray]) -> "CircleCells":
        """The averages of one frame."""
        import equinox as eqx
        import jax.numpy as jnp

        from measureflow.measures import CircleCells

        values = jnp.asarray(arrays["density"])
        return eqx.tree_at(lambda mu: mu.values, CircleCells.uniform(len(values)), values)


WORD = CellsWord()

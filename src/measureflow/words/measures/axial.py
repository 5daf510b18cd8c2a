"""A density on the sphere of any dimension that is symmetric about the first axis: one height says it all."""

from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import PositiveInt

from measureflow.words.measures.base import Arrays, Rules
from measureflow.words.measures.densities import FOLLOW, AbstractDensityWord, values_in
from measureflow.words.table import Option

if TYPE_CHECKING:
    from measureflow.measures import AxialDensity
    from measureflow.plotting import Recorded
    from measureflow.words.settings import Settings


class AxialWord(AbstractDensityWord):
    """Moments of a density that depends on one coordinate."""

    help = "a density on a sphere about an axis"
    kind = "measureflow.measures:AxialDensity"
    dimensions = {"density": ("height",)}
    brings = {"degree": Option(PositiveInt, 64, "degree of a density about an axis")} | FOLLOW
    usual = {"init": "tilted"}
    sizes = ("degree",)

    def numbers(self, config: "Settings") -> float:
        """The matrix whose eigenvalues are the nodes, its eigenvectors, and tables of polynomials in every program."""
        return 40.0 * config.degree**2 + 1e4 * config.degree

    def rules(self, config: "Settings") -> Rules:
        """Laws that are symmetric about the axis."""
        known = config.from_file or config.init in ("uniform", "tilted")
        return [
            *super().rules(config),
            (not known, f"`measure` axial cannot have the `init` {config.init!r}: take tilted"),
        ]

    def start(self, config: "Settings") -> "AxialDensity":
        """Uniform, tilted towards the axis, or the values of a file at the nodes."""
        from measureflow.measures import AxialDensity
        from measureflow.words.initial_laws import Tilted, law_of

        if config.from_file:
            return AxialDensity(values_in(config), config.dim, config.degree)
        law = law_of(config)
        if isinstance(law, Tilted):
            return AxialDensity.from_function(law.over_uniform, config.dim, config.degree)
        return AxialDensity.uniform(config.dim, config.degree)

    def arrays(self, mu: "AxialDensity") -> Arrays:
        """The density at the heights."""
        return {"density": mu.values}

    def fixed(self, mu: "AxialDensity") -> dict[str, tuple[str, np.ndarray]]:
        """The heights."""
        return {"height": ("height", mu.grid.z)}

    def facts(self, mu: "AxialDensity") -> dict[str, Any]:
        """The dimension and the degree."""
        return {"dim": mu.dim, "degree": mu.degree}

    def restored(self, facts: dict[str, Any], arrays: dict[str, np.ndarray]) -> "AxialDensity":
        """The density of one frame, also if it has become negative somewhere."""
        import equinox as eqx
        import jax.numpy as jnp

        from measureflow.measures import AxialDensity

        even = AxialDensity.uniform(facts["dim"], facts["degree"])
        moments = even.grid.polynomials @ (arrays["density"] * even.grid.weights)
        return eqx.tree_at(lambda mu: mu.moments, even, jnp.asarray(moments))

    def figure(self, run: "Recorded", figure: Any = None) -> Any:
        """The density over heights at four key frames and through time, and the series."""
        from measureflow.plotting.density import axial_figure

        return axial_figure(run, figure=figure)

    def draw(self, ax: Any, run: "Recorded", i: int) -> Any:
        """The density of a frame over heights."""
        from measureflow.plotting.density import draw_density_over_height

        mu = run.at(i)
        return draw_density_over_height(ax, mu.grid.z, mu.values)


WORD = AxialWord()

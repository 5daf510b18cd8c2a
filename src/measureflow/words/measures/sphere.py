"""A density on the usual sphere through its moments with spherical harmonics."""

from typing import TYPE_CHECKING, Any

import numpy as np

from measureflow.words.measures.base import Arrays, Rules
from measureflow.words.measures.circle import WORD as CIRCLE
from measureflow.words.measures.densities import AbstractDensityWord, values_in

if TYPE_CHECKING:
    from measureflow.measures import SphereDensity
    from measureflow.plotting import Recorded
    from measureflow.words.settings import Settings


LEAST = 6e7
"""Numbers that a run holds at once whatever its degree; with those below, runs of degree 64 and 128 took 1.2 and 3.1 GB."""
SQUARES = 2e4
"""Further numbers for each square of the degree: frames and stages."""
CUBES = 10.0
"""Further numbers for each cube of the degree: tables of harmonics in every program."""
FINEST = 64
"""The degree up to which a density is followed under noise."""


class SphereWord(AbstractDensityWord):
    """Harmonics of a density on the usual sphere."""

    help = "a density on the usual sphere by harmonics"
    kind = "measureflow.measures:SphereDensity"
    dimensions = {"density": ("height", "angle")}
    overlay = "sphere"
    brings = CIRCLE.brings
    usual = {"dim": 3, "init": "ripples", "modes": 32}
    sizes = ("modes",)

    def rules(self, config: "Settings") -> Rules:
        """The usual sphere has three coordinates."""
        other = (config.dim != 3, "`measure` sphere has `dim` 3: drop `dim`, or choose `measure` circle or axial")
        return [*super().rules(config), other]

    def numbers(self, config: "Settings") -> float:
        """Frames and stages, like the square of the degree, and tables of harmonics in every program, like its cube."""
        modes = max(config.modes, FINEST) if config.follow and config.noise is not None else config.modes
        return LEAST + SQUARES * modes**2.0 + CUBES * modes**3.0

    def start(self, config: "Settings") -> "SphereDensity":
        """The density of a law, or that of a file."""
        from measureflow.measures import SphereDensity
        from measureflow.words.initial_laws import density, key_of, law_of

        if config.from_file:
            return SphereDensity(values_in(config), config.modes)
        return density(law_of(config), 3, config.modes, key_of(config))

    def arrays(self, mu: "SphereDensity") -> Arrays:
        """The density at heights and angles."""
        grid, values = mu.grid, mu.values
        return {"density": values.reshape(*values.shape[:-1], grid.latitudes, grid.longitudes)}

    def fixed(self, mu: "SphereDensity") -> dict[str, tuple[str, np.ndarray]]:
        """Heights and angles."""
        return {"height": ("height", mu.grid.z), "angle": ("angle", mu.grid.angles)}

    def facts(self, mu: "SphereDensity") -> dict[str, Any]:
        """The degree."""
        return {"degree": mu.degree}

    def restored(self, facts: dict[str, Any], arrays: dict[str, np.ndarray]) -> "SphereDensity":
        """The density of one frame, also if it has become negative somewhere."""
        import equinox as eqx
        import jax.numpy as jnp

        from measureflow.measures import SphereDensity

        even, size = SphereDensity.uniform(facts["degree"]), facts["degree"] + 1
        masses = jnp.asarray(np.ravel(arrays["density"]) * even.grid.weights)
        moments = even.grid.analyse(masses[:, None], even.grid.harmonics[:size, :size])[..., 0]
        return eqx.tree_at(lambda mu: mu.moments, even, moments)

    def drawn(self, mu: "SphereDensity") -> Arrays:
        """The density on a grid three times as fine."""
        from measureflow.measures.sphere import globe

        grid = globe(3 * mu.degree)
        values = np.asarray(grid.synthesise(mu.moments[..., None]))[:, 0] / (4 * np.pi)
        return {"density": values.reshape(grid.latitudes, grid.longitudes), "height": grid.z}

    def figure(self, run: "Recorded", figure: Any = None) -> Any:
        """Maps at four key frames, and the series."""
        from measureflow.plotting.density import sphere_figure

        return sphere_figure(run, lambda i: self.drawn(run.at(i)), figure=figure)

    def draw(self, ax: Any, run: "Recorded", i: int) -> Any:
        """The map of a frame."""
        from measureflow.plotting.density import draw_globe_map

        found = self.drawn(run.at(i))
        return draw_globe_map(ax, found["density"], found["height"])


WORD = SphereWord()

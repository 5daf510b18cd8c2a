"""What runs know of clouds of tokens, whatever else a word for them adds."""

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from measureflow.runs.measures.base import AbstractMeasureWord, Arrays, Look, Rows

if TYPE_CHECKING:
    from measureflow.diagnostics import Clusters
    from measureflow.measures import AbstractCloud
    from measureflow.runs.reading import Run
    from measureflow.runs.series import Series, Watched
    from measureflow.runs.simulation import Simulation

MOST_SIZES = 12
"""Sizes of clusters that a table names."""


class AbstractTokens(AbstractMeasureWord):
    """A word for tokens."""

    dimensions = {"points": ("token", "coordinate")}
    traits = ("tokens",)
    sizes = ("n", "dim", "frames_per_leg")
    overlay = "particles"

    def numbers(self, config: "Simulation") -> float:
        """Stages of a step, kernels and a picture: a hundred times the tokens, and the frames of two legs."""
        return config.n * config.dim * (100.0 + 4 * min(config.frames_per_leg, config.frame_count))

    def arrays(self, mu: "AbstractCloud") -> Arrays:
        """The points."""
        return {"points": mu.points}

    def fixed(self, mu: "AbstractCloud") -> dict[str, tuple[str, np.ndarray]]:
        """The weights."""
        return {"weights": ("token", np.asarray(mu.weights))}

    def facts(self, mu: "AbstractCloud") -> dict[str, Any]:
        """The space."""
        from measureflow.runs.places import facts_of

        return {"space": facts_of(mu.space)}

    def series(self, look: Look) -> "tuple[Series, ...]":
        """Energy, number of clusters and length of the mean; of the directions where radii are free."""
        from measureflow.diagnostics import linked, order_parameter
        from measureflow.runs.series import Series

        def seen(mu: "AbstractCloud") -> "AbstractCloud":
            return directions(mu) if look.directions else mu

        def count(mu: "AbstractCloud") -> int:
            cloud = seen(mu)
            return int(linked(np.asarray(cloud.points), cloud.space, look.tolerance).max()) + 1

        energy = look.energy
        watched = () if energy is None else (Series("energy", lambda mu: energy(seen(mu)), "interaction energy E"),)
        return (
            *watched,
            Series("clusters", count, "number of clusters", host=True, counts=True, telling=True),
            Series("order", lambda mu: order_parameter(seen(mu)), "order parameter", ".4g", drawn=False),
        )

    def rows(self, run: "Run") -> Rows:
        """The sizes of the clusters at the end, and when their number last changed."""
        from measureflow.diagnostics import changes

        sizes = Clouds(run).clusters.sizes
        named = ", ".join(map(str, sizes[:MOST_SIZES])) + (", ..." if len(sizes) > MOST_SIZES else "")
        yield "clusters at the end", f"{len(sizes)} (sizes {named})"
        if "clusters" in run.series and (found := changes(run.times, run.series["clusters"].values)):
            last = found[-1]
            yield "last change", f"to {last.clusters} clusters between t = {last.after:.4g} and {last.before:.4g}"

    def figure(self, run: "Run") -> Any:
        """Tokens at four telling times, coloured by their cluster at the end; series below."""
        from measureflow.plotting import run_figure

        clouds = Clouds(run)
        return run_figure(clouds, labels=clouds.clusters.labels)

    def movie(self, run: "Run", file: Any) -> None:
        """Write the tokens in motion."""
        from measureflow.plotting import movie

        clouds = Clouds(run)
        movie(file, clouds, labels=clouds.clusters.labels)


class Clouds:
    """A run of tokens as it is looked at: by directions where a norm leaves radii free."""

    def __init__(self, run: "Run"):
        self.run = run

    @property
    def times(self) -> np.ndarray:
        """The times of the frames."""
        return self.run.times

    @property
    def series(self) -> "Mapping[str, Watched]":
        """What was watched."""
        return self.run.series

    @property
    def title(self) -> str:
        """The run in a line."""
        return self.run.title

    def at(self, i: int) -> "AbstractCloud":
        """The tokens of a frame."""
        mu = self.run.at(i)
        return directions(mu) if self.run.look.directions else mu

    @cached_property
    def clusters(self) -> "Clusters":
        """The clusters of the last frame."""
        from measureflow.diagnostics import clusters

        return clusters(self.at(-1), self.run.look.tolerance)


def directions(mu: "AbstractCloud") -> "AbstractCloud":
    """The directions of tokens, as a cloud on the sphere."""
    import equinox as eqx

    from measureflow.fields import Unit
    from measureflow.spaces import Sphere

    return eqx.tree_at(lambda m: m.tokens.space, mu.push(Unit()), Sphere(mu.space.dim))

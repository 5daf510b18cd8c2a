"""What runs know of clouds of tokens, whatever else a word for them adds."""

from typing import TYPE_CHECKING, Any

import numpy as np

from measureflow.words.measures.base import AbstractMeasureWord, Arrays, Look, Rows

if TYPE_CHECKING:
    from jaxtyping import Array

    from measureflow.diagnostics import Clusters
    from measureflow.measures import AbstractCloud
    from measureflow.plotting import Record, Recorded
    from measureflow.words.series import Series
    from measureflow.words.settings import Settings


def met() -> "Series":
    """The share of pairs that have met, as a series."""
    from measureflow.diagnostics import share_of_met_pairs
    from measureflow.words.series import Series

    return Series("met", share_of_met_pairs, "pairs that have met", ".4g", where=_is_cloud)


def overlap() -> "Series":
    """The mean overlap of tokens, as a series."""
    from measureflow.diagnostics import mean_overlap
    from measureflow.words.series import Series

    return Series("overlap", mean_overlap, "mean overlap", ".4g", where=_is_cloud)


def _is_cloud(mu: Any) -> bool:
    from measureflow.measures import AbstractCloud

    return isinstance(mu, AbstractCloud)


MOST_SIZES = 12
"""Sizes of clusters that a table names."""


class AbstractTokens(AbstractMeasureWord):
    """A word for tokens."""

    dimensions = {"points": ("token", "coordinate")}
    traits = ("tokens",)
    sizes = ("n", "dim", "frames_per_leg")
    overlay = "particles"

    def numbers(self, config: "Settings") -> float:
        """Stages of a step, kernels and a picture: a hundred times the tokens, and room for the frames of two legs."""
        return config.n * config.dim * (100.0 + 4 * config.frames_per_leg)

    def arrays(self, mu: "AbstractCloud") -> Arrays:
        """The points."""
        return {"points": mu.points}

    def fixed(self, mu: "AbstractCloud") -> dict[str, tuple[str, np.ndarray]]:
        """The weights."""
        return {"weights": ("token", np.asarray(mu.weights))}

    def facts(self, mu: "AbstractCloud") -> dict[str, Any]:
        """The space."""
        from measureflow.words.spaces import facts_of

        return {"space": facts_of(mu.space)}

    def series(self, look: Look) -> "tuple[Series, ...]":
        """Energy or size, number of clusters and length of the mean; of the directions where radii are free."""
        from equinox import Partial

        from measureflow.diagnostics import labels, order_parameter
        from measureflow.words.series import Series

        def grows(mu: "AbstractCloud") -> bool:
            return mu.space.linear and not look.directions

        def count(mu: "AbstractCloud", t: float) -> int:
            return int(labels(seen(mu, look, t), look.tolerance, size=look.extent).max()) + 1

        alone = look.energy is None
        return (
            *(() if alone else (Series("energy", Partial(_energy, look.energy, look.directions), look.label),)),
            Series("size", size, "root mean square norm", ".4g", drawn=alone, where=grows),
            Series(
                "order",
                Partial(_of_directions, order_parameter) if look.directions else order_parameter,
                "order parameter",
                ".4g",
                drawn=alone,
                where=lambda mu: not grows(mu),
            ),
            Series("clusters", count, "number of clusters", host=True, timed=True, counts=True, telling=True),
        )

    def rows(self, run: "Recorded") -> Rows:
        """The sizes of the clusters at the end, and when their number last changed."""
        from measureflow.diagnostics import changes

        yield "clusters at the end", _told(final_clusters(run))
        if "clusters" in run.series and (found := changes(run.times, run.series["clusters"].values)):
            last = found[-1]
            many = "" if last.clusters == 1 else "s"
            yield "last change", f"to {last.clusters} cluster{many} between t = {last.after:.4g} and {last.before:.4g}"

    def looked(self, run: "Recorded") -> "Record":
        """The run with its tokens as they are looked at."""
        return as_seen(run)

    def figure(self, run: "Recorded", figure: Any = None) -> Any:
        """Tokens at four key frames, coloured by their cluster at the end; series below."""
        from measureflow.plotting import run_figure

        return run_figure(
            as_seen(run),
            labels=final_clusters(run).labels,
            blow_up_time=run.stats.get("blow_up_time"),
            letter=letter(run.look),
            note=frame_note(run.look),
            figure=figure,
        )

    def draw(self, ax: Any, run: "Recorded", i: int) -> Any:
        """Tokens of a frame, coloured by their cluster at the end."""
        from measureflow.plotting.run import draw_frame

        return draw_frame(ax, as_seen(run), i, labels=final_clusters(run).labels, letter=letter(run.look))

    def movie(self, run: "Recorded", file: Any) -> None:
        """Write the tokens in motion."""
        from measureflow.plotting import movie

        movie(file, as_seen(run), labels=final_clusters(run).labels, letter=letter(run.look))


def _energy(energy: Any, by_directions: bool, mu: "AbstractCloud") -> "Array":
    return energy(directions(mu) if by_directions else mu)


def _of_directions(of: Any, mu: "AbstractCloud") -> "Array":
    return of(directions(mu))


def as_seen(run: "Recorded") -> "Record":
    """A run of tokens as it is looked at: by directions where a norm leaves radii free, and rescaled where they grow."""
    from measureflow.plotting import Record

    return Record(run, run.series, run.title, run.look, run.word_name, lambda mu, t: seen(mu, run.look, t))


def letter(look: Look) -> str:
    """What the coordinates are called: z in the rescaled frame."""
    return "z" if look.rescaled else "x"


def frame_note(look: Look) -> str:
    """In which frame tokens are seen, if it is not their own."""
    if not look.rescaled:
        return ""
    growth = np.asarray(look.growth or 0.0)
    partly = growth.ndim == 2 and np.linalg.matrix_rank(growth) < len(growth)
    return f"Frame z = exp(−tV) x{', V on growing directions' if partly else ''}."


def final_clusters(run: "Recorded") -> "Clusters":
    """The clusters of the last frame."""
    from measureflow.diagnostics import clusters

    return clusters(as_seen(run).at(-1), run.look.tolerance, size=run.look.extent)


def _told(found: "Clusters") -> str:
    """How many clusters, how large, and how many tokens are in none."""
    sizes, alone = found.sizes, int(np.count_nonzero(found.labels < 0))
    named = ", ".join(map(str, sizes[:MOST_SIZES])) + (", ..." if len(sizes) > MOST_SIZES else "")
    return (
        f"{len(sizes)}"
        + (f" (sizes {named})" if len(sizes) else "")
        + (f", and {alone} token{'s' if alone > 1 else ''} alone" if alone else "")
    )


def size(mu: "AbstractCloud") -> "Array":
    """How far out tokens are: the root of their mean squared norm."""
    import jax.numpy as jnp

    largest = jnp.maximum(jnp.abs(mu.points).max(), jnp.finfo(mu.points.dtype).tiny)  # squares would overflow
    return largest * jnp.sqrt(mu.expect(lambda x: jnp.sum((x / largest) ** 2)))


def seen(mu: "AbstractCloud", look: Look, t: float) -> "AbstractCloud":
    """Tokens as they are looked at, at a time; on the host."""
    if look.directions:
        return directions(mu)
    return mu if look.growth is None else rescaled(mu, np.asarray(look.growth), t)


def rescaled(mu: "AbstractCloud", growth: np.ndarray, t: float) -> "AbstractCloud":
    """The tokens `e^{-tG} x`, for a rate of growth or a matrix of such."""
    import equinox as eqx
    import jax.numpy as jnp
    from scipy.linalg import expm

    points = np.asarray(mu.points)
    bounded = points * np.exp(-t * growth) if growth.ndim == 0 else points @ expm(-t * growth).T
    return eqx.tree_at(lambda m: m.tokens.points, mu, jnp.asarray(bounded, points.dtype))


def directions(mu: "AbstractCloud") -> "AbstractCloud":
    """The directions of tokens, as a cloud on the sphere."""
    import equinox as eqx

    from measureflow.fields import Unit
    from measureflow.spaces import Sphere

    return eqx.tree_at(lambda m: m.tokens.space, mu.push(Unit()), Sphere(mu.space.dim))

"""Random connected graphs, runs of networks on them from many seeds at once, and rates over the residual strength."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy import sparse

from measureflow.fields import Graph
from measureflow.networks import AbstractWeights, log_modes, log_similarities, mode_similarities
from measureflow.plotting import Curve, draw_curves, label_axes
from measureflow.plotting.colours import FAINT, INK, PALETTE


def connected(rng: np.random.Generator, n: int = 30, share: float = 0.2) -> sparse.csr_array:
    """The adjacency of a graph whose edges are there with one probability, drawn until it is connected."""
    while True:
        half = np.triu(rng.random((n, n)) < share, 1)
        A = sparse.csr_array((half + half.T).astype(float))
        if sparse.csgraph.connected_components(A)[0] == 1:
            return A


def runs(
    graph: Graph, weights: AbstractWeights, depth: int, keys: Array, alpha: float | None = None
) -> Float[Array, "r k"]:
    """Logarithms of similarities over the layers, one row for each key."""
    return jax.vmap(lambda key: log_similarities(graph, weights, depth, alpha=alpha, key=key))(keys)


def mode_runs(
    values: np.ndarray, weights: AbstractWeights, depth: int, keys: Array, alpha: float | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Growths of eigencoordinates over the second half of the layers, `(r, n)`, and logarithms of similarities `(r, k)`."""
    one = lambda key: log_modes(jnp.asarray(values), weights, depth, alpha=alpha, key=key)  # noqa: E731
    logs = np.asarray(jax.vmap(one)(keys))
    growths = (logs[:, -1] - logs[:, depth // 2]) / (depth - depth // 2)
    return growths, mode_similarities(logs)


def draw_rates(ax: Any, measured: tuple, law: tuple, name: str, level: float, word: str) -> None:
    """Measured rates as dots, their formula as a line over a finer grid, and a level with its name."""
    ax.plot(*measured, "o", color=PALETTE[0], markersize=6, label=name, gid="found")
    ax.plot(*law, "--", color=PALETTE[0], linewidth=1.4, label="formula", gid="law")
    ax.axhline(level, color=FAINT, linewidth=1, zorder=0)
    ax.annotate(
        word, (0.02, level), xycoords=("axes fraction", "data"), xytext=(0, 4), textcoords="offset points", color=INK
    )
    label_axes(ax, "residual strength α", r"rate $\mu^{1/t}$")
    ax.legend(frameon=False, fontsize=10, labelcolor=INK)


def draw_similarities(ax: Any, curves: dict[str, np.ndarray], slopes: dict[str, float], depth: int, title: str) -> None:
    """Logarithms of similarities over the first layers, with slopes that end where they do and stay below 1."""
    layers, shown = np.arange(depth + 1), []
    for name, log_mu in curves.items():
        found = log_mu[: depth + 1] / np.log(10)
        law = found[-1] + (layers - depth) * slopes[name] / np.log(10)
        shown.append(Curve(name, layers, found, np.where(law <= 1e-9, law, np.nan)))
    draw_curves(ax, shown, "layer t", "log₁₀ of the similarity μ", law="slope of the formula", title=title)

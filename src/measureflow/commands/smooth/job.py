"""Oversmoothing of a graph network on a graph of one's own: rates, runs, and which residual strength keeps features."""

import functools
from dataclasses import dataclass
from pathlib import Path

import jax
import numpy as np

from measureflow.fields import Graph
from measureflow.networks import (
    AbstractWeights,
    BoundedWeights,
    CommutingWeights,
    FixedWeights,
    GaussianWeights,
    Rate,
    log_modes,
    log_similarities,
    measured_rate,
    mode_similarities,
    smoothing_rate,
    strongest_residual,
)
from measureflow.networks.graphs import FLOOR
from measureflow.runs.session import in_float64
from measureflow.words.files import numbers_in
from measureflow.words.memory import ask
from measureflow.words.settings import InputError
from measureflow.words.table import nearest

NAMED = {
    "karate": "karate_club_graph",
    "les-miserables": "les_miserables_graph",
    "davis": "davis_southern_women_graph",
    "florentine": "florentine_families_graph",
    "petersen": "petersen_graph",
}
"""Graphs that come with networkx."""

WORK = 2e9
"""All runs on the graph together do at most so many products; a large graph has fewer runs."""

DEEPEST = 20_000
"""Rates are measured through at most so many layers."""

KEPT = 4e6
"""At most so many numbers are kept of these layers."""


def graph_of(name: str, *, walk: bool = False) -> Graph:
    """The graph of a name or of a file."""
    try:
        if Path(name).is_file():
            return in_float64(lambda: Graph.read(name, walk=walk))
        if name not in NAMED:
            raise InputError(
                f"`GRAPH` must be one of {', '.join(NAMED)} or a file; there is no file {name!r}{nearest(name, list(NAMED))}."
            )
        import networkx
    except ImportError:
        raise InputError(f"The graph {name!r} comes with networkx: pip install measureflow[graphs].") from None
    except ValueError as error:
        raise error if isinstance(error, InputError) else InputError(str(error)) from None
    return in_float64(lambda: Graph.of_networkx(getattr(networkx, NAMED[name])(), walk=walk))


def weights_of(kind: str, features: int, sigma: float | None, matrix: str | None, seed: int) -> AbstractWeights:
    """The law of the weights that words describe."""
    ask(80.0 * features**2, "This", "make `features` smaller")
    rng, usual = np.random.default_rng(seed), 1 / np.sqrt(features)
    match kind:
        case "gaussian":
            return GaussianWeights(features, sigma or usual)
        case "diagonal":
            return CommutingWeights(np.zeros(features), sigma or 1.0)
        case "bounded":
            return BoundedWeights(features, sigma or 1.0)
    if matrix is None:
        return FixedWeights((sigma or usual) * rng.normal(size=(features, features)))
    held = numbers_in(matrix, "matrix")
    try:
        return FixedWeights(next(iter(held.values())) if isinstance(held, dict) and len(held) == 1 else held)
    except (TypeError, ValueError) as error:
        raise InputError(f"`matrix`: {matrix!r}: {str(error).rstrip('.')}.") from None


@dataclass(frozen=True)
class Smoothing:
    """The smoothing of features on a graph: its spectrum, laws and measured rates without and with residuals, and runs."""

    name: str
    graph: Graph
    weights: AbstractWeights
    alpha: float
    layers: int
    lost: float
    keep: float
    relu: bool
    eigenvalues: np.ndarray
    error: float
    laws: tuple[Rate, Rate]
    measured: tuple[Rate, Rate]
    seeds: int
    deep: int
    runs: tuple[np.ndarray, np.ndarray]
    wanted: float
    enough: float
    free: float
    alphas: np.ndarray
    over: np.ndarray


def smoothing(
    name: str,
    graph: Graph,
    weights: AbstractWeights,
    *,
    alpha: float = 0.3,
    layers: int = 64,
    seeds: int = 10,
    seed: int = 0,
    lost: float = 1e-3,
    keep: float = 0.5,
    relu: bool = False,
) -> Smoothing:
    """Compute rates and runs; of a large graph there are fewer runs than were asked for."""
    each = 20.0 * (graph.n + len(graph.entries)) * weights.dim + 6.0 * seeds * layers
    ask(8 * each, "This", "make `layers`, `seeds` or `features` smaller, or take a smaller graph")
    spectrum = graph.spectrum()
    laws = smoothing_rate(spectrum, weights), smoothing_rate(spectrum, weights, alpha)
    keys = jax.random.split(jax.random.key(seed), seeds)
    few = int(np.clip(WORK / (len(graph.entries) * weights.dim * layers), 2, seeds))
    activation = jax.nn.relu if relu else None

    def on_graph(alpha: float | None) -> np.ndarray:
        run = functools.partial(log_similarities, graph, weights, layers, alpha=alpha, activation=activation)
        return np.stack([np.asarray(run(key=key)) for key in keys[:few]])

    runs = on_graph(None), on_graph(alpha)
    values = _telling(spectrum.rest, weights, layers)
    slowest = max(law.value for law in laws if law.value < 1 or law is laws[0])
    deep = int(np.clip(30 / max(1 - slowest, 1e-9), layers, min(DEEPEST, KEPT / max(len(values), 1))))
    measured = [
        measured_rate(run, FLOOR) if relu or not len(values) else measured_rate(_modes(values, weights, deep, a, keys))
        for run, a in zip(runs, (None, alpha), strict=True)
    ]
    wanted, alphas = keep ** (1 / layers), np.geomspace(1e-2, 10.0, 121)
    return Smoothing(
        name=name,
        graph=graph,
        weights=weights,
        alpha=alpha,
        layers=layers,
        lost=lost,
        keep=keep,
        relu=relu,
        eigenvalues=spectrum.rest,
        error=spectrum.error,
        laws=laws,
        measured=(measured[0], measured[1]),
        seeds=seeds,
        deep=deep,
        runs=runs,
        wanted=wanted,
        enough=strongest_residual(spectrum, weights, wanted),
        free=strongest_residual(spectrum, weights, 1.0),
        alphas=alphas,
        over=np.array([smoothing_rate(spectrum, weights, a).value for a in alphas]),
    )


def _telling(rest: np.ndarray, weights: AbstractWeights, layers: int) -> np.ndarray:
    """The eigenvalues that may decide the rate: all, or some at the ends where growth is largest there."""
    few = np.concatenate([rest[:3], rest[3:][-1:]])
    return few if weights.at_ends or len(rest) * layers > KEPT else rest


def _modes(
    values: np.ndarray, weights: AbstractWeights, depth: int, alpha: float | None, keys: jax.Array
) -> np.ndarray:
    all_ = np.concatenate([[1.0], values])
    return np.stack([mode_similarities(log_modes(all_, weights, depth, alpha=alpha, key=key)) for key in keys])

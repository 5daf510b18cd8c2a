"""Oversmoothing of a graph network on a graph of one's own: rates, runs, and which residual strength keeps features."""

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
from measureflow.wording import Report
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
WORK, DEEPEST, KEPT = 2e9, 20_000, 4e6
"""Products in all runs on the graph, layers at which rates are measured, and numbers kept of them."""


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
    try:
        W = np.load(matrix) if matrix.endswith(".npy") else np.loadtxt(matrix, delimiter=",", ndmin=2)
        return FixedWeights(W)
    except (OSError, ValueError) as error:
        raise InputError(f"`matrix` {matrix!r}: {str(error).rstrip('.')}.") from None


@dataclass(frozen=True)
class Smoothing:
    """What was found: a graph and its spectrum, laws and measured rates without and with residuals, and runs."""

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

    @property
    def report(self) -> Report:
        """The table."""
        return Report(tuple(self._rows()))

    def _rows(self) -> Iterator[tuple[str, str]]:
        yield "graph", f"{self.name}: {self.graph.n} vertices, {self.graph.edges} edges"
        yield "components", _components(self.graph)
        if len(self.eigenvalues):
            low, second = self.eigenvalues[-1], self.eigenvalues[0]
            known = f", known within {self.error:.1g}" if self.error > 1e-7 else ""
            yield "spectrum", f"1, then {second:.5g} down to {low:.5g}{known}"
        for word, law, found, run in zip(self._names, self.laws, self.measured, self.runs, strict=True):
            yield word, f"rate {law}{' of the linear network, for ReLU a guide only' if self.relu else ''}"
            yield "", f"{found} {self._where}"
            yield "", self._lost(law, run)
            if dead := int(np.isnan(run[:, -1]).sum()):
                yield "", f"in {dead} of {len(run)} runs all features became zero"
        yield "what keeps features", self._advice()

    @property
    def _names(self) -> tuple[str, str]:
        return "without residuals", f"residuals, α = {self.alpha:g}"

    @property
    def _where(self) -> str:
        if self.relu:
            return f"on {len(self.runs[0])} runs, above {FLOOR:g}, where rounding begins"
        return f"on {self.seeds} runs of eigencoordinates through {self.deep} layers"

    def _lost(self, law: Rate, run: np.ndarray) -> str:
        """After how many layers features are lost, by runs and by the law."""
        below = ~(run >= np.log(self.lost))  # where all features are zero, they are lost
        gone = np.where(below.any(1), below.argmax(1), np.inf)
        middle = float(np.median(gone))
        seen = f"features are lost (μ < {self.lost:g}) after {middle:.0f} layers" if np.isfinite(middle) else (
            f"features are there after {self.layers} layers (μ = {np.exp(np.nanmedian(run[:, -1])):.3g})"
        )  # fmt: skip
        depth = law.depth(self.lost)
        word = "not before" if law.kind == "at least" else "about"
        seen += f" in the median of {len(run)} runs"
        return seen + (f"; by the rate {word} {depth:.0f}" if np.isfinite(depth) else "; by the rate they stay")

    def _advice(self) -> str:
        keeps = f"keeps μ above {self.keep:g} for {self.layers} layers (rate at least {self.wanted:.5g})"
        most = self.alphas[-1]
        strong = f"every α up to {most:g}" if self.enough >= most else f"α up to {self.enough:.3g}"
        first = "by the linear network, for ReLU a guide only: " if self.relu else ""
        first += f"{strong} {keeps}" if self.enough else f"no α above {self.alphas[0]:.1g} {keeps}"
        if self.free:
            return f"{first}; up to {self.free:.3g} the rate is exactly 1: nothing is lost at any depth"
        near = "the bound" if self.laws[1].kind == "at least" else "the rate"
        return f"{first}; {near} is 1 for no α > 0, and comes near it as α falls"

    @property
    def figure(self) -> Any:
        """The picture."""
        from measureflow.plotting.smoothing import SimilarityDecay, smoothing_figure

        exact = self.laws[1].kind == "exact"
        rates = [None if self.relu or law.kind != "exact" else law.value for law in self.laws]
        return smoothing_figure(
            [SimilarityDecay(*parts) for parts in zip(self._names, self.runs, rates, strict=True)],
            self.alphas,
            self.over,
            chosen=(self.alpha, self.measured[1].value),
            levels={
                "without residuals": self.laws[0].value,
                f"keeps μ at {self.keep:g} for {self.layers} layers": self.wanted,
            },
            lost=self.lost,
            law=("formula" if exact else "lower bound") + (" of the linear network" if self.relu else ""),
            floor=FLOOR if self.relu else None,
            title=f"Oversmoothing on {self.name}",
        )

    def stored(self) -> dict[str, Any]:
        """All numbers, as a JSON file keeps them."""
        both = ("without_residuals", "with_residuals")
        return {
            "graph": {"name": self.name, "vertices": self.graph.n, "edges": self.graph.edges},
            "components": self.graph.sizes.tolist(),
            "eigenvalues": self.eigenvalues.tolist(),
            "eigenvalue_error": self.error,
            "weights": repr(self.weights),
            "alpha": self.alpha,
            "rates": {word: vars(law) for word, law in zip(both, self.laws, strict=True)},
            "measured": {word: vars(found) for word, found in zip(both, self.measured, strict=True)},
            "log_similarities": {word: run.tolist() for word, run in zip(both, self.runs, strict=True)},
            "wanted_rate": self.wanted,
            "strongest_alpha": self.enough,
            "alpha_of_rate_one": self.free,
            "rates_over_alpha": [self.alphas.tolist(), self.over.tolist()],
            "rows": [list(row) for row in self.report.rows],
        }


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


def _components(graph: Graph) -> str:
    if graph.components == 1:
        return "connected"
    sizes = ", ".join(map(str, graph.sizes[:5])) + (", ..." if graph.components > 5 else "")
    return (
        f"{graph.components}, of {sizes} vertices: each keeps a mean of its own, so that nothing is lost across them, and "
        "the rate is that of the slowest"
    )

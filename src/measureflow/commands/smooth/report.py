"""The smoothing of features on a graph as a table, a figure, and numbers for a JSON file."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from measureflow.commands.smooth.job import Smoothing
from measureflow.fields import Graph
from measureflow.networks import Rate
from measureflow.networks.graphs import FLOOR
from measureflow.wording import Report


def table(found: Smoothing) -> Report:
    """The table."""
    return Report(tuple(_rows(found)))


def _rows(found: Smoothing) -> Iterator[tuple[str, str]]:
    yield "graph", f"{found.name}: {found.graph.n} vertices, {found.graph.edges} edges"
    yield "components", _components(found.graph)
    if len(found.eigenvalues):
        low, second = found.eigenvalues[-1], found.eigenvalues[0]
        known = f", known within {found.error:.1g}" if found.error > 1e-7 else ""
        yield "spectrum", f"1, then {second:.5g} down to {low:.5g}{known}"
    for word, law, rate, run in zip(_names(found), found.laws, found.measured, found.runs, strict=True):
        yield word, f"rate {law}{' of the linear network, for ReLU a guide only' if found.relu else ''}"
        yield "", f"{rate} {_where(found)}"
        yield "", _lost(found, law, run)
        if dead := int(np.isnan(run[:, -1]).sum()):
            yield "", f"in {dead} of {len(run)} runs all features became zero"
    yield "what keeps features", _advice(found)


def _names(found: Smoothing) -> tuple[str, str]:
    return "without residuals", f"residuals, α = {found.alpha:g}"


def _where(found: Smoothing) -> str:
    if found.relu:
        return f"on {len(found.runs[0])} runs, above {FLOOR:g}, where rounding begins"
    return f"on {found.seeds} runs of eigencoordinates through {found.deep} layers"


def _lost(found: Smoothing, law: Rate, run: np.ndarray) -> str:
    """After how many layers features are lost, by runs and by the law."""
    below = ~(run >= np.log(found.lost))  # where all features are zero, they are lost
    gone = np.where(below.any(1), below.argmax(1), np.inf)
    middle = float(np.median(gone))
    seen = f"features are lost (μ < {found.lost:g}) after {middle:.0f} layers" if np.isfinite(middle) else (
        f"features are there after {found.layers} layers (μ = {np.exp(np.nanmedian(run[:, -1])):.3g})"
    )  # fmt: skip
    depth = law.depth(found.lost)
    word = "not before" if law.kind == "at least" else "about"
    seen += f" in the median of {len(run)} runs"
    return seen + (f"; by the rate {word} {depth:.0f}" if np.isfinite(depth) else "; by the rate they stay")


def _advice(found: Smoothing) -> str:
    keeps = f"keeps μ above {found.keep:g} for {found.layers} layers (rate at least {found.wanted:.5g})"
    most = found.alphas[-1]
    strong = f"every α up to {most:g}" if found.enough >= most else f"α up to {found.enough:.3g}"
    first = "by the linear network, for ReLU a guide only: " if found.relu else ""
    first += f"{strong} {keeps}" if found.enough else f"no α above {found.alphas[0]:.1g} {keeps}"
    if found.free:
        return f"{first}; up to {found.free:.3g} the rate is exactly 1: nothing is lost at any depth"
    near = "the bound" if found.laws[1].kind == "at least" else "the rate"
    return f"{first}; {near} is 1 for no α > 0, and comes near it as α falls"


def figure(found: Smoothing) -> Any:
    """The picture."""
    from measureflow.plotting.smoothing import SimilarityDecay, smoothing_figure

    exact = found.laws[1].kind == "exact"
    rates = [None if found.relu or law.kind != "exact" else law.value for law in found.laws]
    return smoothing_figure(
        [SimilarityDecay(*parts) for parts in zip(_names(found), found.runs, rates, strict=True)],
        found.alphas,
        found.over,
        chosen=(found.alpha, found.measured[1].value),
        levels={
            "without residuals": found.laws[0].value,
            f"keeps μ at {found.keep:g} for {found.layers} layers": found.wanted,
        },
        lost=found.lost,
        law=("formula" if exact else "lower bound") + (" of the linear network" if found.relu else ""),
        floor=FLOOR if found.relu else None,
        title=f"Oversmoothing on {found.name}",
    )


def numbers(found: Smoothing) -> dict[str, Any]:
    """All numbers, as a JSON file keeps them."""
    both = ("without_residuals", "with_residuals")
    return {
        "graph": {"name": found.name, "vertices": found.graph.n, "edges": found.graph.edges},
        "components": found.graph.sizes.tolist(),
        "eigenvalues": found.eigenvalues.tolist(),
        "eigenvalue_error": found.error,
        "weights": repr(found.weights),
        "alpha": found.alpha,
        "rates": {word: vars(law) for word, law in zip(both, found.laws, strict=True)},
        "measured": {word: vars(rate) for word, rate in zip(both, found.measured, strict=True)},
        "log_similarities": {word: run.tolist() for word, run in zip(both, found.runs, strict=True)},
        "wanted_rate": found.wanted,
        "strongest_alpha": found.enough,
        "alpha_of_rate_one": found.free,
        "rates_over_alpha": [found.alphas.tolist(), found.over.tolist()],
        "rows": [list(row) for row in table(found).rows],
    }


def _components(graph: Graph) -> str:
    if graph.components == 1:
        return "connected"
    sizes = ", ".join(map(str, graph.sizes[:5])) + (", ..." if graph.components > 5 else "")
    return (
        f"{graph.components}, of {sizes} vertices: each keeps a mean of its own, so that nothing is lost across them, and "
        "the rate is that of the slowest"
    )

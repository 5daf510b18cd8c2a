"""With residuals the eigencoordinates of `P` see different matrices `I + alpha lambda W`, and grow by their spectral radii."""

import jax
import jax.numpy as jnp
import numpy as np

from measureflow.fields import Graph
from measureflow.networks import FixedWeights, measured_rate, smoothing_rate
from measureflow.plotting import Figure, panels
from measureflow.studies.base import SMALL, Claim, Size, Verdict, equal
from measureflow.studies.networks.random_graphs import connected, draw_rates, draw_similarities, mode_runs, runs

CLAIM = Claim(
    "With residuals and a fixed weight matrix the rate is the best secondary growth over the leading growth, capped at 1.",
    reference="lin:25",
    where="theorem on graph networks with residuals, deterministic weights; derived in closed form",
)
DEPTH, ALPHA, SHOWN = 3000, 0.3, 120


def of_the_whole_matrix(graph: Graph, W: np.ndarray, alpha: float) -> float:
    """The same from spectral radii of the layer, `I + alpha P ⊗ W^T`, on the complement and on the dominant eigenspace."""
    P, v = np.asarray(graph(jnp.eye(graph.n))), np.asarray(graph.dominant)
    lead = np.outer(v, v) / (v @ v)
    layers = (np.kron(Q, np.eye(len(W))) + alpha * np.kron(Q @ P, W.T) for Q in (np.eye(graph.n) - lead, lead))
    rest, first = (np.abs(np.linalg.eigvals(layer)).max() for layer in layers)
    return min(1.0, rest / first)


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Three matrices on a random graph of 30 vertices, and residuals from weak to strong."""
    rng, keys = np.random.default_rng(seed), jax.random.split(jax.random.key(seed), 4)
    graph = Graph(connected(rng))
    spectrum = graph.spectrum()
    matrices = {
        "diag(1, ½, -½, -1)": np.diag([1.0, 0.5, -0.5, -1.0]),
        "a random matrix": rng.normal(size=(4, 4)),
        "diag(-½, -1, -½, -1)": -np.diag([0.5, 1.0, 0.5, 1.0]),
    }
    laws = {name: smoothing_rate(spectrum, FixedWeights(W), ALPHA).value for name, W in matrices.items()}
    whole = {name: of_the_whole_matrix(graph, W, ALPHA) for name, W in matrices.items()}
    curves = {name: np.asarray(runs(graph, FixedWeights(W), DEPTH, keys, ALPHA)) for name, W in matrices.items()}
    alphas = np.geomspace(0.05, 20.0, size.pick(9, 24))
    weights = FixedWeights(matrices["diag(1, ½, -½, -1)"])
    sweep = [measured_rate(mode_runs(spectrum.values, weights, DEPTH, keys, alpha)[1]).value for alpha in alphas]
    law = [smoothing_rate(spectrum, weights, alpha).value for alpha in alphas]
    fine = np.geomspace(alphas[0], alphas[-1], 200)
    formula = [smoothing_rate(spectrum, weights, alpha).value for alpha in fine]
    return CLAIM.judge(
        # Eigenvalues of a matrix of 120 rows that is not symmetric are good to nine digits.
        equal("rates from the whole matrix", list(whole.values()), list(laws.values()), 1e-8),
        # A pair of complex eigenvalues turns, so that slopes err like the inverse of half the depth.
        *(equal(f"rate, {name}", laws[name], measured_rate(curves[name]).value, 1e-3) for name in matrices),
        equal("rates over α", law, sweep, 1e-3),
        equal("capped at 1", 1.0, laws["diag(-½, -1, -½, -1)"], 0.0),
        data=(curves, laws, (alphas, sweep), (fine, formula), np.abs(spectrum.rest).max()),
    )


def draw(data: tuple) -> Figure:
    """Similarities over the layers, and rates over the residual strength."""
    curves, laws, measured, law, ratio = data
    figure, (left, right) = panels(2, height=4.4)
    firsts, slopes = ({n: one[0] for n, one in curves.items()}, {n: np.log(one) for n, one in laws.items()})
    draw_similarities(left, firsts, slopes, SHOWN, f"α = {ALPHA:g}")
    draw_rates(right, measured, law, "diag(1, ½, -½, -1)", ratio, "without residuals")
    right.set_xscale("log")
    return figure

"""Where residual weights are negative, the smoothest features shrink fastest, and the others are left."""

import jax
import numpy as np
from scipy import sparse

from measureflow.fields import Graph
from measureflow.networks import FixedWeights, measured_rate, smoothing_rate, strongest_residual
from measureflow.plotting import Figure, panels
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_least, at_most, equal
from measureflow.studies.networks.random_graphs import connected, draw_rates, draw_similarities, mode_runs, runs

CLAIM = Claim(
    "With residuals and negative semidefinite fixed weights there is no oversmoothing.",
    reference="lin:25",
    where="theorem on graph networks with residuals, deterministic weights",
)
W, ALPHA, DEPTH, SHOWN = np.diag([0.5, 1.0]), 0.1, 2000, 400


def lazy(A: sparse.csr_array) -> Graph:
    """The graph with a self loop of the degree of each vertex, so that no eigenvalue is negative."""
    return Graph(A + sparse.diags_array(A.sum(1) - 1))


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Weights of both signs on a lazy random graph of 30 vertices, and negative ones with stronger residuals."""
    rng, keys = np.random.default_rng(seed), jax.random.split(jax.random.key(seed), 4)
    graph = lazy(connected(rng))
    spectrum = graph.spectrum()
    signs = {"W negative": FixedWeights(-W), "W positive": FixedWeights(W)}
    laws = {name: smoothing_rate(spectrum, weights, ALPHA).value for name, weights in signs.items()}
    curves = {name: np.asarray(runs(graph, weights, DEPTH, keys, ALPHA)) for name, weights in signs.items()}
    most = strongest_residual(spectrum, signs["W negative"])
    alphas = most * np.linspace(0.1, 2.0, size.pick(9, 30))
    rates = [measured_rate(mode_runs(spectrum.values, signs["W negative"], DEPTH, keys, a)[1]).value for a in alphas]
    law = np.array([smoothing_rate(spectrum, signs["W negative"], a).value for a in alphas])
    fine = np.linspace(alphas[0], alphas[-1], 400)
    formula = [smoothing_rate(spectrum, signs["W negative"], a).value for a in fine]
    return CLAIM.judge(
        at_least("least eigenvalue", 0.0, spectrum.values.min(), slack=1e-12),  # of rounding
        equal("rate by the formula", 1.0, laws["W negative"], 0.0),
        # What is left of the start after 2000 layers bends slopes by less than a thousandth.
        equal("rate, W negative", 1.0, measured_rate(curves["W negative"]).value, 1e-3),
        at_least("similarity after 2000 layers, W negative", 0.999, np.exp(curves["W negative"][:, -1])),
        equal("rate, W positive", laws["W positive"], measured_rate(curves["W positive"]).value, 1e-3),
        at_most("similarity after 2000 layers, W positive", 1e-6, np.exp(curves["W positive"][:, -1])),
        equal("rates over α", law, rates, 2e-3),
        data=(curves, laws, (alphas, rates), (fine, formula), most),
    )


def draw(data: tuple) -> Figure:
    """Similarities under weights of both signs, and how strong residuals may be."""
    curves, laws, measured, law, most = data
    figure, (left, right) = panels(2, height=4.4)
    firsts, slopes = ({n: one[0] for n, one in curves.items()}, {n: np.log(one) for n, one in laws.items()})
    draw_similarities(left, firsts, slopes, SHOWN, f"α = {ALPHA:g}")
    draw_rates(right, measured, law, "W negative", 1.0, "nothing is lost")
    right.set_title(f"rate 1 up to α = {most:.3g}", fontsize=12)
    return figure

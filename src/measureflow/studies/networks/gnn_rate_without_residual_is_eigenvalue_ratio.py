"""Without residuals all eigencoordinates see one product of weights, which cancels: what is left are powers of eigenvalues."""

import jax
import numpy as np

from measureflow.fields import Graph
from measureflow.networks import (
    AbstractWeights,
    BoundedWeights,
    CommutingWeights,
    GaussianWeights,
    measured_rate,
    smoothing_rate,
)
from measureflow.plotting import Curve, Figure, draw_curves, panels
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_most, equal
from measureflow.studies.networks.random_graphs import connected, mode_runs, runs

CLAIM = Claim(
    "Without residuals the similarity of the vertices decays like (|λ₂|/|λ₁|)^t, whatever the random weights.",
    reference="lin:25",
    where="theorem on graph networks without residuals",
)
DEPTH = 2000


def families() -> dict[str, AbstractWeights]:
    """Laws of weights whose products have one leading direction."""
    return {
        "Gaussian": GaussianWeights(4, 1.0),
        "bounded": BoundedWeights(4, 2.0),
        "commuting": CommutingWeights([2.0, 0.5, -0.5, -1.0], 0.5),
    }


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """A random graph on 30 vertices with three laws of weights, and more graphs with Gaussian ones."""
    rng, keys = np.random.default_rng(seed), jax.random.split(jax.random.key(seed), (3, 10))
    graph, weights = Graph(connected(rng)), families()
    spectrum = graph.spectrum()
    sizes = np.sort(np.abs(spectrum.rest))[::-1]
    law = smoothing_rate(spectrum, weights["Gaussian"]).value
    curves = {
        name: np.asarray(runs(graph, one, DEPTH, k)) for (name, one), k in zip(weights.items(), keys, strict=True)
    }
    found = {name: measured_rate(log_mu) for name, log_mu in curves.items()}
    # Products of weights become of rank one and cancel up to rounding; the next eigenvalue has a share of (λ₃/λ₂)^{2t} left of
    # the square, times a squared ratio of two normal numbers, which is above a million once in 1500 draws.
    left = 1e6 * (sizes[1] / sizes[0]) ** DEPTH / DEPTH
    shares = np.linspace(0.15, 0.8, size.pick(8, 24))
    spectra = [Graph(connected(rng, share=share)).spectrum() for share in shares]
    ratios = np.array([np.abs(one.rest).max() for one in spectra])
    others = [mode_runs(one.values, weights["Gaussian"], DEPTH, keys[0, :2])[1] for one in spectra]
    rates = np.array([measured_rate(log_mu).value for log_mu in others])
    return CLAIM.judge(
        *(equal(f"rate, {name} weights", law, rate.value, 1e-8 + left) for name, rate in found.items()),
        at_most("spread over ten draws", 1e-8 + left, max(rate.error for rate in found.values())),
        # Two eigenvalues of one graph may be close; over 320 graphs the largest error is 6e-8.
        equal("rates of other graphs", ratios, rates, 1e-5),
        data=(curves, np.log(law), ratios, rates),
    )


def draw(data: tuple) -> Figure:
    """Similarities of one run of each law over the first layers, and rates of graphs from sparse to dense."""
    curves, slope, ratios, rates = data
    figure, (left, right) = panels(2, height=4.4)
    layers, end = np.arange(25), min(log_mu[0, -1] for log_mu in curves.values()) / np.log(10)
    shown = [
        Curve(name, layers, log_mu[0, :25] / np.log(10), (log_mu[0, 24] + slope * (layers - 24)) / np.log(10))
        for name, log_mu in curves.items()
    ]
    title = f"after {DEPTH} layers $\\mu = 10^{{{end:.0f}}}$"
    draw_curves(
        left, shown, "layer t", "log₁₀ of the similarity μ", law=r"slope $\log_{10}|\lambda_2/\lambda_1|$", title=title
    )
    draw_curves(
        right,
        [Curve("random graphs", ratios, rates, ratios)],
        r"$|\lambda_2/\lambda_1|$",
        r"rate $\mu^{1/t}$",
        law="equal",
    )
    return figure

"""Gaussian weights are isotropic, so that a residual layer multiplies a row by an independent `|e + alpha lambda sigma z|`.

The growth is the mean of its logarithm, half of that of a noncentral chi-square law.
"""

from typing import Any

import jax
import numpy as np
from scipy.stats import t as student

from measureflow.fields import Graph
from measureflow.networks import GaussianWeights, Rate, smoothing_rate
from measureflow.plotting import Curve, Figure, draw_curves, panels
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_least, at_most, equal
from measureflow.studies.networks.random_graphs import connected, draw_rates, mode_runs

CLAIM = Claim(
    "With residuals and Gaussian weights the rate follows a noncentral chi-square formula and exceeds that without residuals.",
    reference="lin:25",
    where="theorem on graph networks with residuals, Ginibre weights; derived in closed form",
)
FEATURES, SEEDS = 4, 64
CHANCE = 1e-4
"""How often each check fails by chance."""


def mean(values: np.ndarray, checks: int = 1) -> tuple[Any, Any]:
    """Means over runs, and how far off they are but for chance, shared by several checks."""
    wide = student.ppf(1 - CHANCE / checks / 2, len(values) - 1)
    return values.mean(0), wide * values.std(0, ddof=1) / np.sqrt(len(values))


def slopes(log_mu: np.ndarray) -> np.ndarray:
    """Slopes over the second half of the layers."""
    half = (log_mu.shape[1] - 1) // 2
    return (log_mu[:, -1] - log_mu[:, half]) / (log_mu.shape[1] - 1 - half)


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Two scales of weights on a random graph of 30 vertices, then residuals from weak to strong."""
    rng, keys = np.random.default_rng(seed), jax.random.split(jax.random.key(seed), SEEDS)
    spectrum, depth = Graph(connected(rng)).spectrum(), size.pick(2000, 10_000)
    ratio, checks, growths, laws = float(np.abs(spectrum.rest).max()), [], {}, []
    for sigma in (0.5, 2.0):
        weights = GaussianWeights(FEATURES, sigma)
        law: Rate = smoothing_rate(spectrum, weights, 1.0)
        each, log_mu = mode_runs(spectrum.values, weights, depth, keys, 1.0)
        found, off = mean(slopes(log_mu))
        growth, wide = mean(each, len(spectrum.values))
        growths[sigma] = spectrum.values, growth, weights.growth(spectrum.values).low
        laws.append(law.value)
        checks += [
            equal(f"rate, σ = {sigma:g}", law.value, float(np.exp(found)), float(law.value * off)),
            equal(f"growths at all eigenvalues, σ = {sigma:g}", growths[sigma][2], growth, wide),
            at_most(f"what is allowed of the rate, σ = {sigma:g}", 0.01, float(law.value * off)),
            at_least(f"rate above that without residuals, σ = {sigma:g}", ratio, law.value),
        ]
    alphas = np.geomspace(0.3, 30.0, size.pick(7, 20))
    weights = GaussianWeights(FEATURES, 1.0)
    over = [float(np.exp(slopes(mode_runs(spectrum.values, weights, depth, keys, a)[1]).mean())) for a in alphas]
    fine = np.geomspace(alphas[0], alphas[-1], 200)
    law_over = [smoothing_rate(spectrum, weights, a).value for a in alphas]
    return CLAIM.judge(
        *checks,
        at_least("depth over 30 / (1 - rate)", 1.0, depth * (1 - max(laws)) / 30),
        # Sixty-four runs of two thousand layers err by 0.002; all strengths share the seeds.
        equal("rates over α", law_over, over, 0.01),
        data=(growths, (alphas, over), (fine, [smoothing_rate(spectrum, weights, a).value for a in fine]), ratio),
    )


def draw(data: tuple) -> Figure:
    """Growths over eigenvalues, and rates over the residual strength."""
    growths, measured, law, ratio = data
    figure, (left, right) = panels(2, height=4.4)
    curves = []
    for sigma, (values, found, formula) in growths.items():
        order = np.linspace(0, len(values) - 1, 25).round().astype(int)
        curves.append(Curve(f"σ = {sigma:g}", values[order], found[order], formula[order]))
    draw_curves(left, curves, "eigenvalue λ", "growth per layer", law="noncentral chi-square", title="α = 1")
    draw_rates(right, measured, law, "σ = 1", ratio, "without residuals")
    right.set_xscale("log")
    return figure

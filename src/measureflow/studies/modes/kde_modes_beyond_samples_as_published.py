"""Modes beyond a place are not bounded by the samples beyond it: a mode is pulled towards the other samples."""

import numpy as np
from scipy.optimize import brentq

from measureflow.diagnostics import line_modes
from measureflow.plotting import Curve, Figure, draw_curves, panels
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_least, at_most, equal

CLAIM = Claim(
    "As published: the number of modes beyond a is at most the number of samples beyond a.",
    reference="geshkovski:24",
    where="lemma on the modes in the tails, as published",
)

SAMPLES, BETA, A = np.array([0.0, 2.0]), 2.0, 0.02


def estimate(t: np.ndarray) -> np.ndarray:
    """The density estimate, up to a factor."""
    return np.exp(-BETA * (t[:, None] - SAMPLES) ** 2 / 2).sum(1)


def first_mode() -> float:
    """The root of `-x + (2 - x) e^{-β ((2 - x)² - x²)/2}`, the slope over the kernel of the left sample."""
    return float(np.asarray(brentq(lambda x: -x + (2 - x) * np.exp(-BETA * (2 - 2 * x)), 0.0, 0.5, xtol=1e-14)))


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Count the modes of two samples, and look for other violations among random samples."""
    found, rng = line_modes(SAMPLES, BETA), np.random.default_rng(seed)
    clouds = [np.sort(rng.normal(size=3)) for _ in range(size.pick(100, 1000))]
    # The worst place for the bound is just left of a mode.
    broken = [
        any((each >= t).sum() > (cloud >= t).sum() for t in each)
        for cloud in clouds
        for each in [line_modes(cloud, 9.0)]
    ]
    left = first_mode()
    return CLAIM.judge(
        at_most("modes beyond 0.02 of samples 0 and 2 at beta = 2", int((SAMPLES > A).sum()), int((found > A).sum())),
        instead=(
            equal("modes", [left, 2 - left], found, 1e-10),  # rounding over the curvature at the top
            equal("the same, as printed", [0.0425, 1.9575], found, 5e-5),
            at_most("modes, as many as samples", len(SAMPLES), len(found)),
            # Whenever all samples have their modes, that of the first is pulled past it: about half of all draws.
            at_least("share of samples of 3 that violate it for some a", 0.1, float(np.mean(broken))),
        ),
        reason="Modes are pulled towards the bulk: both modes, 0.0425 and 1.9575, exceed 0.02, and one sample does.",
        data=found,
    )


def draw(found: np.ndarray) -> Figure:
    """The estimate of two samples with its modes, and the place between a sample and its mode."""
    figure, (left, right) = panels(2)
    for ax, t in ((left, np.linspace(-2.0, 4.0, 301)), (right, np.linspace(-0.05, 0.1, 101))):
        draw_curves(ax, [Curve("", t, estimate(t))], "t", "density estimate")
        seen = found[(found > t[0]) & (found < t[-1])]
        ax.plot(seen, estimate(seen), "o", color="#D55E00", markersize=8, label="mode", gid="ends")
        base = ax.get_ylim()[0]
        inside = SAMPLES[np.abs(SAMPLES - t.mean()) < np.ptp(t) / 2]
        ax.plot(inside, np.full(len(inside), base), "^", color="#2E3440", markersize=9, clip_on=False, label="sample")
        ax.axvline(A, color="#9A9A9A", linestyle="--", linewidth=1.0, label="a = 0.02")
        ax.legend(frameon=False, fontsize=10)
    return figure

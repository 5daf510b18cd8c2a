"""Modes of density estimates of 1000 tokens, against formulas for finite n.

The density of Kac and Rice takes the slope of the estimate for a Gaussian process. Where a bandwidth has few tokens that is
wrong, so it must not be integrated there: far out it hardly falls, as if noise went on for ever. Shot noise takes its place.
"""

import jax
import numpy as np

from measureflow.diagnostics import line_modes
from measureflow.plotting import Curve, Figure, draw_curves, panels
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_least, at_most, equal
from measureflow.studies.modes.drawn import counted
from measureflow.theory import modes

CLAIM = Claim(
    "Finite-n mode counts match the shot-noise formula, and the Gaussian Kac-Rice density may be integrated only inside "
    "|t|<=√(2log n-log β).",
    reference="geshkovski:24",
    where="derived for the setting of the main theorem",
)

N, BETAS = 1000, np.array([20.0, 100.0, 1e3, 1e4])
FULL_DRAWS, SMALL_DRAWS = 400, (120, 60, 12, 6)
BINS = np.linspace(-5.0, 5.0, 41)


def shot(tokens: float, length: float, rng: np.random.Generator) -> float:
    """Modes per bandwidth of Poisson shot noise, by simulation."""
    return len(line_modes(np.sort(length * rng.random(rng.poisson(tokens * length))), 1.0)) / length


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Count modes for four bandwidths, and those of shot noise itself."""
    rng = np.random.default_rng(seed)
    draws = size.pick(SMALL_DRAWS, (FULL_DRAWS,) * 4)
    found = [counted(N, beta, many, rng) for beta, many in zip(BETAS, draws, strict=True)]
    means, errors = np.array(found).T
    formula = np.asarray(modes.count(N, BETAS))
    window, far, farther = (np.asarray(modes.kac_rice_count(N, BETAS, reach)) for reach in (None, 7.0, 9.0))
    further = (farther - far) / (4 * modes.DENSE * np.sqrt(BETAS))
    length = size.pick(4000.0, 100000.0)
    few = np.array([0.1, 0.4, 1.0])
    expected = np.asarray(modes.shot_noise(few))
    noise = np.array([shot(tokens, length, rng) for tokens in few])
    # The formula is good to 3 %, at beta = 20 to 20 %, where there is little more than the mode of the normal law itself. Counts
    # scatter by at most 0.6 of their root, less than independent events.
    slack = np.array([0.2, 0.03, 0.03, 0.03]) * formula + 4 * 0.6 * np.sqrt(formula / np.array(draws))
    return CLAIM.judge(
        equal("modes of 1000 tokens, beta = 20, 100, 1e3, 1e4", formula, means, slack),
        equal(
            "the formula, as printed", [1.44, 8.85, 37.08, 104.6], formula, 0.03 * formula
        ),  # its table of shot noise differs
        equal("Kac-Rice inside the window, as printed", [1.23, 7.33, 31.8, 83.6], window, 0.02 * window),
        at_least("Kac-Rice up to |t| = 7, over what there is", 2.0, far / means),
        # Where tokens are tilted by the place, terms of the size of its square over beta lower the noise.
        equal("Kac-Rice from 7 to 9 over stationary noise, beta >= 100", 1.0, further[1:], 0.1),
        at_most("Kac-Rice inside the window, over what there is", 1.0, window / means),
        # Counts scatter less than those of independent events; the table has .001.
        equal(
            "modes of shot noise per bandwidth, .1, .4, 1 tokens",
            expected,
            noise,
            4 * np.sqrt(expected / length) + 0.003,
        ),
        data={"means": means, "errors": errors, "formula": formula, "window": window, "places": places(rng)},
    )


def places(rng: np.random.Generator) -> np.ndarray:
    """Where modes are at beta = 1000: their mean number in bins, per unit of length."""
    found = np.concatenate([line_modes(np.sort(rng.normal(size=N)), 1e3) for _ in range(12)])
    return np.histogram(found, BINS)[0] / 12 / np.diff(BINS)


def draw(found: dict[str, np.ndarray]) -> Figure:
    """Counts against formulas, and where the modes are."""
    figure, (left, right) = panels(2)
    curves = [
        Curve("drawn", BETAS, found["means"], found["formula"]),
        Curve("Kac-Rice, in the window", BETAS, found["window"]),
    ]
    draw_curves(left, curves, "β", f"modes of {N} tokens", log="xy", law="shot noise")
    t = np.linspace(-5.0, 5.0, 201)
    middle = (BINS[1:] + BINS[:-1]) / 2
    density = np.asarray(jax.vmap(lambda x: modes.kac_rice(x, float(N), 1e3))(t))
    draw_curves(
        right,
        [Curve("drawn", middle, found["places"]), Curve("Kac-Rice", t, density)],
        "place t",
        "modes per unit",
        title="β = 1000",
    )
    edge = float(modes.edge(N, 1e3))
    for side in (-edge, edge):
        right.axvline(side, color="#9A9A9A", linewidth=0.9, linestyle="--")
    right.set_ylim(0.0, 1.6 * found["places"].max())
    return figure

"""On text the Lipschitz constant of trained attention was seen to grow like the fourth root of the length: is it the tokens?

An exploration. Four models of tokens meet the weights of a fresh layer, whose scores have the standard deviation one, and
scores four times as sharp. Each draw of weights and tokens gives an exponent; a model has the mean of them with its 95%
interval. At the deviation one constants settle for every model. Sharp scores let them grow: in full by exponents about 0.1, and
about 0.3, with one quarter in the interval, for words that repeat by Zipf's law.
"""

from collections.abc import Sequence

import numpy as np
from scipy.stats import t as student

from measureflow.models.synthetic_clouds import SYNTHETIC_CLOUDS, SyntheticCloud
from measureflow.plotting import Figure, label_axes, panels
from measureflow.plotting.colours import FAINT, INK, PALETTE
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_least, at_most, equal, slope
from measureflow.studies.smoothness.adversarial import tempting
from measureflow.studies.smoothness.jacobian import jacobian, norm

CLAIM = Claim(
    "With the weights of a fresh layer no model of tokens (independent, mixture, AR(1), Zipf) gives the growth n^{1/4} of the "
    "Lipschitz constant seen on text; sharper scores make it grow, and no faster than the √n of adversarial tokens.",
    reference="castin:24",
    where="explored: open question on the experiments with text, part IV of the talk",
)
GAINS = (1.0, 4.0)
"""Deviations of the scores."""


def weights(rng: np.random.Generator, d: int, gain: float) -> tuple[np.ndarray, np.ndarray]:
    """The form `A = g K^T Q / √d` and the values of a fresh layer."""
    Q, K, V = rng.normal(size=(3, d, d)) / np.sqrt(d)
    return gain * K.T @ Q / np.sqrt(d), V


def exponents(
    rng: np.random.Generator, model: SyntheticCloud, gain: float, sizes: Sequence[int], d: int, draws: int
) -> np.ndarray:
    """The exponents in the number of tokens of several draws of weights and tokens."""
    found = []
    for _ in range(draws):
        A, V = weights(rng, d, gain)
        found.append(slope(sizes, [norm(A, V, model(rng, n, d), "plain") for n in sizes]))
    return np.array(found)


def interval(values: np.ndarray) -> tuple[float, float, float]:
    """The mean with the lower and upper end of its 95% interval, by Student's law."""
    half = student.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values))
    return float(values.mean() - half), float(values.mean()), float(values.mean() + half)


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Fit exponents for 32 to 288 tokens in 16 coordinates, 8 draws each; in full 32 to 2048 in 32 coordinates."""
    rng = np.random.default_rng(seed)
    sizes, d, draws = size.pick(((32, 96, 288), 16, 8), ((32, 128, 512, 2048), 32, 6))
    found = {
        gain: np.array([interval(exponents(rng, model, gain, sizes, d, draws)) for model in SYNTHETIC_CLOUDS.values()])
        for gain in GAINS
    }
    fresh, sharp = (found[gain] for gain in GAINS)
    repelling = np.diag([-2.0, 0.5, 0.3])
    steep = [norm(repelling, np.eye(3), tempting(repelling, 2.0, n), "plain") for n in (32, 64, 128)]
    A, V = weights(rng, 8, 4.0)
    tokens = SYNTHETIC_CLOUDS["independent"](rng, 32, 8)
    written = np.linalg.norm(jacobian(A, V, tokens, "plain"), 2)
    return CLAIM.judge(
        at_most("upper ends of the exponents, fresh weights, by model", 0.25, fresh[:, 2]),
        # Intervals of so few draws are wide; none may lie above one half as a whole.
        at_most("lower ends of the exponents, scores four times as sharp, by model", 0.5, sharp[:, 0]),
        # About 0.2; means over four models and eight draws scatter by 0.03.
        at_least(
            "mean exponent at sharp scores less that at fresh weights", 0.05, sharp[:, 1].mean() - fresh[:, 1].mean()
        ),
        equal("exponent of adversarial tokens, in n - 1", 0.5, slope([31, 63, 127], steep), 0.02),
        # Lanczos steps end at 1e-3.
        equal(
            "constant by Lanczos steps over that of the full Jacobian", 1.0, norm(A, V, tokens, "plain") / written, 1e-2
        ),
        data=found,
    )


def draw(found: dict[float, np.ndarray]) -> Figure:
    """The exponents of the models with their 95% intervals, beside one quarter and one half."""
    figure, (ax,) = panels(width=7.2, height=4.2)
    for shift, colour, (gain, rows) in zip((0.12, -0.12), PALETTE, found.items(), strict=False):
        low, middle, high = rows.T
        y = np.arange(len(rows))[::-1] + shift
        name = f"scores of deviation {gain:g}"
        ax.errorbar(
            middle, y, xerr=[middle - low, high - middle], fmt="o", color=colour, capsize=4, label=name, gid="found"
        )
    for value, name in ((0.25, "text"), (0.5, "adversarial")):
        ax.axvline(value, color=INK if value == 0.5 else FAINT, linestyle="--", linewidth=1.2, gid="law")
        ax.text(value + 0.005, len(SYNTHETIC_CLOUDS) - 0.1, name, fontsize=10, color=INK)
    ax.set_yticks(np.arange(len(SYNTHETIC_CLOUDS))[::-1], list(SYNTHETIC_CLOUDS))
    ax.set_ylim(-0.6, len(SYNTHETIC_CLOUDS) + 0.3)
    ax.set_xlim(right=0.66)
    ax.legend(frameon=False, fontsize=10, loc="upper left")
    label_axes(ax, "exponent of the Lipschitz constant in the number of tokens", "")
    return figure

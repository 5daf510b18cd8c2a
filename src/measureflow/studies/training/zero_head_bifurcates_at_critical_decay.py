"""Weight decay holds the zero head until it falls below the largest singular value of `G_0`."""

import jax.numpy as jnp
import numpy as np

from measureflow.plotting import Curve, Figure, curves_figure, draw_allowed
from measureflow.studies.base import SMALL, Claim, Size, Verdict, equal
from measureflow.theory import heads
from measureflow.training import Ridge, fixtures
from measureflow.training.perturbation import critical_decay, observed_rate

CLAIM = Claim(
    "The zero head is stable exactly when the decay exceeds σ_max(G_0).",
    reference="heads:26",
    where="derived: theorem 7.5 at the zero head",
)
RATIOS = (1.5, 1.1, 0.9)


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """16 heads at noise 1e-3 under decays above and below the critical one."""
    risk = fixtures.f1()
    G = heads.zero_head_matrix(risk.tokens, np.argmax(risk.targets, -1), risk.unembedding)
    critical = float(jnp.linalg.norm(G, 2))
    noise = jnp.asarray(1e-3 * np.random.default_rng(seed).standard_normal((16, 24)))
    # The slower the leading mode, the longer the others take to vanish beside it.
    windows = {1.5: (14.0, 18.0), 1.1: (8.0, 12.0), 0.9: (8.0, 12.0)}
    rates = [
        observed_rate(risk + Ridge(ratio * critical), jnp.zeros(24), _outputs(noise), windows[ratio])
        for ratio in RATIOS
    ]
    predicted = [float(heads.zero_head_rate(ratio * critical, critical)) for ratio in RATIOS]
    return CLAIM.judge(
        equal("critical decay", 0.7066840280, critical, 1e-9),
        equal("critical decay of the library", critical, critical_decay(risk), 1e-12),
        # What is left of other modes in the window, and the square of the noise.
        equal("rates at λ/λ_c = 1.5, 1.1, 0.9", predicted, rates, 1e-3),
        data=(critical, rates),
    )


def _outputs(noise):
    """Noise on values and outputs: queries and keys only decay, and would hide the slow mode for long."""
    return noise.at[:, :12].set(0.0)


def draw(data: tuple[float, list[float]]) -> Figure:
    """The rate at which heads leave zero, against the decay: it changes sign at the critical one."""
    critical, rates = data
    predicted = np.array([float(heads.zero_head_rate(ratio * critical, critical)) for ratio in RATIOS])
    curve = Curve("measured", RATIOS, rates, predicted, (predicted - 1e-3, predicted + 1e-3))
    figure = curves_figure([curve], "λ/λ_c", "rate", law="theory", title="band: the zero head is stable")
    draw_allowed(figure.axes[0], -np.inf, 0.0)
    return figure

"""One-sample descent fluctuates like the root of the step, and more heads do not help: all see the same sample."""

import jax.numpy as jnp
import numpy as np

from measureflow.measures import Particles
from measureflow.plotting import Curve, Figure, curves_figure
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_least, equal
from measureflow.studies.training.crowd import FIELD, TIMES, heads
from measureflow.training.chaos import power_law, sample_error

CLAIM = Claim(
    "Theorem 5.2, martingale term: one-sample SGD fluctuates like √ε and this does not shrink with the number of heads.",
    reference="heads:26",
    where="theorem 5.2",
)
STEPS = np.array([0.0125, 0.00625, 0.003125, 0.0015625])
"""At 0.05 the bias of descent on samples, of the order of the step, is as large as the fluctuation of the risk."""


def eights(many: Particles) -> list[Particles]:
    """Eight heads each, as eight copies of them: the same measure in the shape that is compiled already."""
    return [Particles(many.space, jnp.tile(block, (8, 1))) for block in many.points.reshape(8, 8, -1)]


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Stochastic against full descent with the same step, for 64 heads and for each eight of them."""
    many, seeds = heads(64, seed), size.pick(300, 1200)
    errors = [sample_error(FIELD, many, float(step), TIMES, seeds=seeds, key=seed + 1) for step in STEPS]
    parts = {name: np.array([getattr(e, name) for e in errors], float) for name in ("heads", "risk")}
    each, risk = (power_law(STEPS, part).exponent for part in parts.values())
    few = [sample_error(FIELD, mu, float(STEPS[0]), TIMES, seeds=seeds, key=seed + 1).heads for mu in eights(many)]
    return CLAIM.judge(
        # Slopes of 300 repetitions have standard errors of .015 and .033; bias of the order of the step, which alone would
        # have slope one, adds .02 to that of the risk.
        equal("slope of heads in the mean square", 0.5, each, 0.12),
        equal("slope of the risk", 0.5, risk, 0.15),
        # Independent samples for each head would shrink it to .35; it scatters by two per cent.
        at_least("distance of 64 heads over that of 8", 0.8, float(errors[0].heads) / np.sqrt(np.mean(np.square(few)))),
        data=parts,
    )


def draw(errors: dict[str, np.ndarray]) -> Figure:
    """The errors against the step."""
    curves = [Curve(name, STEPS, e, e[0] * np.sqrt(STEPS / STEPS[0])) for name, e in errors.items()]
    return curves_figure(curves, "step ε", "distance of one-sample to full descent", log="xy", law=r"$\propto ε^{1/2}$")

"""The rate `1/N` needs no square loss: cross-entropy is smooth, and that is enough."""

import jax
import jax.numpy as jnp
import numpy as np

from measureflow.plotting import Curve, Figure, curves_figure
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_most, equal
from measureflow.studies.heads.draws import COUNTS, biases, drawn_heads
from measureflow.theory import heads
from measureflow.training import fixtures
from measureflow.training.chaos import power_law

CLAIM = Claim(
    "As published (Remark 4.2): the 1/N rate needs square-loss structure, cross-entropy gives the 1/√N scale.",
    reference="heads:26",
    where="remark 4.2",
)
REASON = (
    "The cross-entropy is convex and 1/2-smooth in the logits, so the excess risk of N heads drawn from a law is at most "
    "its variance over 4N: the slope is -1."
)


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """The bias of 4 to 128 drawn heads and its slope."""
    bias, _, coefficient = biases(size, seed)
    slope = power_law(COUNTS, bias).exponent
    risk = fixtures.f1()
    largest = float(
        jnp.linalg.norm(jax.jit(jax.vmap(risk.features))(jnp.asarray(drawn_heads(200, seed))), axis=-1).max()
    )
    return CLAIM.judge(
        equal("slope of the excess risk of N heads", -0.5, slope, 0.1),
        instead=(
            at_most("slope of the excess risk", -0.9, slope),
            # The largest feature of a sample stands for its supremum, which can only be larger.
            at_most("excess over T C_0^2/(4N)", 1.0, bias / heads.sharp_static_gap_bound(4, largest, COUNTS)),
            at_most(
                "coefficient over T C_0^2/4", 1.0, coefficient / float(heads.sharp_static_gap_bound(4, largest, 1))
            ),
        ),
        reason=REASON,
        data=(bias, np.asarray(heads.sharp_static_gap_bound(4, largest, COUNTS))),
    )


def draw(found: tuple[np.ndarray, np.ndarray]) -> Figure:
    """The excess risk of drawn heads below its bound, and the published scale."""
    bias, bound = found
    curves = [
        Curve("excess risk", COUNTS, bias, bias[0] * np.sqrt(COUNTS[0] / COUNTS)),
        Curve("bound T C₀²/(4N)", COUNTS, bound),
    ]
    return curves_figure(curves, "heads N", "excess risk", log="xy", law=r"as published, $\propto N^{-1/2}$")

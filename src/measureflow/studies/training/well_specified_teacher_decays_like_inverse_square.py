"""When the labels come from a teacher of the same kind, the last of the risk goes slowly, like the inverse square of time.

At the teacher `Psi` is flat, `H = 0`: only the mean of the heads is pulled, their spread `s` falls through terms of higher
order, `gap ~ s^4` and `D ~ s^6`.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from measureflow.flows import Adaptive, evolve
from measureflow.measures import Particles
from measureflow.plotting import Curve, Figure, draw_curves, panels
from measureflow.spaces import Euclidean
from measureflow.studies.base import SMALL, Claim, Size, Verdict, equal
from measureflow.theory import heads
from measureflow.training import Descent, HeadRisk, ScoreHeads, dissipation, fixtures
from measureflow.training.convergence import decay_exponent, divergence_gap, kl_exponent
from measureflow.training.perturbation import coupling, matrix, splitting

CLAIM = Claim(
    "Theorem 6.10 for α>1/2: with realisable labels the exponent is 3/4 and the gap decays like t^{-2}.",
    reference="heads:26",
    where="theorem 6.10",
)
WINDOWS = (20.0, 200.0, 2000.0, 20000.0)


def taught() -> tuple[HeadRisk, jnp.ndarray]:
    """F2 with one-parameter heads `M = θ I` of scale two and the labels of the head `θ = 1`; and the teacher's logits."""
    data = fixtures.f2()
    student = ScoreHeads(2 * jnp.eye(2), jnp.eye(2)[None])
    logits = data.with_heads(student).features(jnp.ones(1))
    return HeadRisk(data.tokens, jax.nn.softmax(logits), data.unembedding, student), logits


def run(size: Size = SMALL) -> Verdict:
    """Two heads at 1.6 and 0.5, followed for a very long time."""
    risk, logits = taught()
    mu = Particles(Euclidean(1), [[1.6], [0.5]])
    times = np.concatenate([[0.0], np.geomspace(WINDOWS[0], WINDOWS[-1], 91)])
    path = evolve(Descent(risk), mu, times, Adaptive(1e-10, 1e-13)).since(1)
    gap, lost = (
        np.asarray(x)
        for x in eqx.filter_jit(path.map)(lambda m: (divergence_gap(risk, logits, m), dissipation(risk, m)))
    )
    spread = np.asarray(
        path.map(lambda m: jnp.sqrt(m.expect(lambda x: jnp.sum(x**2)) - jnp.sum(m.expect(lambda x: x) ** 2)))
    )
    teacher = Particles(Euclidean(1), [[1.0]])
    H, K = (float(matrix(make, risk, teacher)[0, 0]) for make in (splitting, coupling))
    last = slice(60, None)
    return CLAIM.judge(
        # Rounding, and printed digits.
        equal("H and K at the teacher", [0.0, 0.425164], [H, K], 1e-6),
        equal("risk of the teacher", 2.976313669675, risk(teacher), 1e-11),
        # The last of three windows of a decade each; the approach is algebraic.
        equal("α on t in [2000, 20000]", 0.75, kl_exponent(gap[last], lost[last], windows=1).value, 0.03),
        equal(
            "exponent of the gap",
            heads.decay_exponent(0.75),
            decay_exponent(path.times[last], gap[last], 1).value,
            0.03,
        ),
        equal("exponent of the spread", -0.5, decay_exponent(path.times[last], spread[last], 1).value, 0.03),
        data=(np.asarray(path.times), gap, spread),
    )


def draw(found: tuple[np.ndarray, np.ndarray, np.ndarray]) -> Figure:
    """The gap of the risk and the spread of the heads over a very long time."""
    t, gap, spread = found
    figure, (left, right) = panels(2)
    law = gap[-1] * (t[-1] / t) ** 2
    draw_curves(
        left, [Curve("gap", t, gap, law)], "time t", "risk above the teacher's", log="xy", law=r"$\propto t^{-2}$"
    )
    law = spread[-1] * (t[-1] / t) ** 0.5
    draw_curves(
        right, [Curve("spread", t, spread, law)], "time t", "spread of the heads", log="xy", law=r"$\propto t^{-1/2}$"
    )
    return figure

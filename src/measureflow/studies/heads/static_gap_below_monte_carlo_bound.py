"""The best `N` heads are never better than the best measure, and worse by at most a Monte-Carlo error."""

import jax
import jax.numpy as jnp
import numpy as np

from measureflow.plotting import Curve, Figure, curves_figure
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_least, at_most
from measureflow.studies.heads.balls import RISK, balls, optimum
from measureflow.theory import heads
from measureflow.training.optimum import slide

CLAIM = Claim(
    "Theorem 4.1: the best N-head risk exceeds the mean-field optimum by at most C/√N, with C=√2·T·C_0, and never lies "
    "below it.",
    reference="heads:26",
    where="theorem 4.1",
)
COUNTS = np.array([1, 2, 4, 8])


def best_of(N: int, starts: int, steps: int, seed: int) -> float:
    """The least risk of `N` equal heads that projected descent finds from random starts."""
    risk, space = RISK(), balls()
    keys = jax.random.split(jax.random.key(10 * seed + N), starts * N)
    points = jax.vmap(space.sample)(keys).reshape(starts, N, -1)
    weights = jnp.full(N, 1 / N)
    ends = jax.vmap(lambda atoms: slide(risk, space, atoms, weights, steps))(points)
    features = jax.jit(jax.vmap(jax.vmap(risk.features)))(ends)
    return float(jax.jit(jax.vmap(lambda f: risk.loss(f.mean(0))))(features).min())


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """One to eight heads in balls against the certified optimum."""
    best, risk = optimum(size), RISK()
    found = np.array([best_of(int(N), size.pick(24, 128), size.pick(200, 600), seed) for N in COUNTS])
    gap = found - best.lower_bound
    largest = heads.feature_bound(
        jnp.linalg.norm(risk.tokens, axis=-1).max(), 1.0, jnp.linalg.norm(risk.unembedding, 2)
    )
    bound = np.asarray(heads.static_gap_bound(4, largest, COUNTS))
    return CLAIM.judge(
        # The certified solver leaves the optimum within 5e-7.
        at_least("gap, N = 1, 2, 4, 8", np.zeros(4), gap, slack=1e-6),
        at_most("gap over √2·T·C_0/√N", np.ones(4), gap / bound),
        # The multi-start finds measures that get better with more heads, so the comparison is not empty.
        at_most("gap of eight heads over that of one", 0.5, gap[-1] / gap[0]),
        data=(gap, bound),
    )


def draw(found: tuple[np.ndarray, np.ndarray]) -> Figure:
    """What the best heads lack against their number, and the bound."""
    gap, bound = found
    return curves_figure(
        [Curve("best N heads found", COUNTS, gap, bound)], "heads N", "risk above the optimum", log="xy", law="bound"
    )

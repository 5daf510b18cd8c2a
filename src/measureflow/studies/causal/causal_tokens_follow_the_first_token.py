"""The first token sees only itself and rests; in the end all others come to it, whatever queries and keys are.

Near the end token `k` sees `k` equal scores and approaches the mean of its past at the rate `1 - 1/k`, so the distance of all
falls like `e^{-t/2}`, the rate of the second token.
"""

import jax.numpy as jnp
import numpy as np

from measureflow.plotting import Curve, Figure, curves_figure
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_least, at_most, equal
from measureflow.studies.causal.waiting import farthest, matrices, rates, uniform, velocities, wait

CLAIM = Claim(
    "With V=I and any Q,K all causal tokens converge to the first token.",
    reference="karagodin:24",
    where="main theorem, V the identity",
)
RUNS, N, DIM = 6, 10, 3
GOAL = 1e-10


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Follow ten tokens on the sphere for six random pairs of queries and keys (60 in full), as long as it takes."""
    rng, runs = np.random.default_rng(seed), size.pick(RUNS, 10 * RUNS)
    A, V, tokens = matrices(rng, runs, DIM), np.tile(np.eye(DIM), (runs, 1, 1)), uniform(rng, (runs, N, DIM))
    times, far, last = wait(A, V, tokens, lambda now: farthest(now, tokens[:, :1]), GOAL)
    field = np.asarray(rates(*map(jnp.asarray, (A, V, tokens))))
    return CLAIM.judge(
        at_most("largest distance from the first token at the end", GOAL, far[:, -1]),
        at_least("largest distance from the first token at the start", 0.5, far[:, 0]),
        # Rounding of a token that no other moves.
        equal("way of the first token", 0.0, np.abs(last[:, 0] - tokens[:, 0]).max(), 1e-13),
        equal(
            "velocities at the start against their formula", 0.0, np.abs(field - velocities(A, V, tokens)).max(), 1e-13
        ),
        data=(times, far[:RUNS]),
    )


def draw(found: tuple[np.ndarray, np.ndarray]) -> Figure:
    """The largest distance from the first token over time, down to rounding."""
    times, far = found
    early = times <= 64
    law = [np.exp(-times[early] / 2), *[None] * (len(far) - 1)]
    curves = [
        Curve("" if i else "six choices of Q and K", times[early], way[early], line)
        for i, (way, line) in enumerate(zip(far, law, strict=True))
    ]
    return curves_figure(curves, "time t", "largest distance from the first token", log="y", law=r"$e^{-t/2}$")

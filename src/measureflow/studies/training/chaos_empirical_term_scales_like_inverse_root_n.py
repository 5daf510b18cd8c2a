"""Propagation of chaos: a few heads follow the flow of very many, with an error like the inverse root of their number."""

import numpy as np

from measureflow.flows import RK4, evolve
from measureflow.plotting import Curve, Figure, curves_figure
from measureflow.studies.base import SMALL, Claim, Size, Verdict, equal
from measureflow.studies.training.crowd import FIELD, TIMES, heads
from measureflow.training import empirical_error, power_law

CLAIM = Claim(
    "Theorem 5.2 (24)-(25), empirical term: N heads follow the limiting law with error N^{-1/2} for a fixed test function "
    "and for the risk.",
    reference="heads:26",
    where="theorem 5.2, equations (24)-(25)",
)
COUNTS = np.array([8, 16, 32, 64, 128])


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Blocks of 8 to 128 heads, each against its own heads in the flow of the whole pool."""
    pool, solver = heads(size.pick(2048, 8192), seed), RK4(size.pick(0.1, 0.02))
    whole = evolve(FIELD, pool, TIMES, solver)
    # Blocks enough for the mean of an error that scatters by about its own size.
    errors = [
        empirical_error(FIELD, pool, int(N), TIMES, solver, blocks=size.pick(16, 64), reference=whole) for N in COUNTS
    ]
    parts = {name: np.array([getattr(e, name) for e in errors], float) for name in ("heads", "risk", "test")}
    each, risk, test = (power_law(COUNTS, part).exponent for part in parts.values())
    return CLAIM.judge(
        # Sampling of a slope over sixteen-fold numbers from at least sixteen blocks; the pool itself is finite.
        equal("slope of heads in the mean square", -0.5, each, 0.1),
        equal("slope of the risk", -0.5, risk, 0.1),
        equal("slope of a fixed test function", -0.5, test, 0.1),
        data=dict(zip(("heads", "risk", "test function"), parts.values(), strict=True)),
    )


def draw(errors: dict[str, np.ndarray]) -> Figure:
    """The errors against the number of heads."""
    curves = [Curve(name, COUNTS, e, e[0] * np.sqrt(COUNTS[0] / COUNTS)) for name, e in errors.items()]
    return curves_figure(curves, "heads N", "distance to the flow of the pool", log="xy", law=r"$\propto N^{-1/2}$")

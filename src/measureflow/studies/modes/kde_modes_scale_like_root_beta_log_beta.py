"""The number of modes of a density estimate, from bandwidths that see many tokens to those that see few.

The order sqrt(β log β) is a theorem; the constant is that of two belts of stationary noise, and is reached only like 1/log n.
So counts are compared within a factor, and the formula for finite n is followed to numbers of tokens that no one draws.
"""

import numpy as np

from measureflow.plotting import Curve, Figure, curves_figure
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_least, at_most
from measureflow.studies.modes.drawn import counted
from measureflow.theory import modes

CLAIM = Claim(
    "The expected number of modes is of order √(β log β) for n^c << β << n^{2-c}.",
    reference="geshkovski:24",
    where="main theorem; the constant is derived",
)

SETTINGS = [(1000, 100.0), (1000, 1000.0), (1000, 10000.0)]
LARGER = [(10000, 464.0), (10000, 10000.0)]


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Count modes for 1000 tokens, in full for 10 000 as well, and divide by the law."""
    rng = np.random.default_rng(seed)
    settings = size.pick(SETTINGS, SETTINGS + LARGER)
    # Counts at the first beta scatter by a fifth, at the others by less than a tenth.
    draws = [size.pick(48 if beta <= 100 else 8, 40) for _, beta in settings]
    found = np.array([counted(n, beta, many, rng).mean for (n, beta), many in zip(settings, draws, strict=True)])
    n, beta = np.array(settings).T
    ratios = found / np.asarray(modes.law(n, beta))
    tokens = np.array([1e3, 1e6, 1e12, 1e24])
    finite = np.asarray(modes.count(tokens, tokens) / modes.law(tokens, tokens))
    return CLAIM.judge(
        # Between .74 and 1.24 in the mean, and three standard errors from the bounds; a law without the logarithm, or with
        # another constant in front, is outside.
        at_least("modes over C(a) sqrt(β log β)", 0.6, ratios),
        at_most("the same, from above", 1.4, ratios),
        at_most(
            "distance of the finite formula from the law at β = n, n = 1e3 to 1e24", [0.2, 0.12, 0.07, 0.04], finite - 1
        ),
        at_least("the same, from below", 0.0, finite - 1),
        data={"n": n, "beta": beta, "found": found},
    )


def draw(found: dict[str, np.ndarray]) -> Figure:
    """Counts over β against the law and the formula for finite n."""
    curves = []
    for n in np.unique(found["n"]):
        some = found["n"] == n
        beta = found["beta"][some]
        curves.append(Curve(f"{n:g} tokens", beta, found["found"][some], modes.law(n, beta)))
    fine = np.geomspace(30.0, 3e5, 60)
    curves.append(Curve("formula for 1000 tokens", fine, modes.count(1000.0, fine)))
    return curves_figure(curves, "β", "modes", log="xy", law="C(a) √(β log β)")

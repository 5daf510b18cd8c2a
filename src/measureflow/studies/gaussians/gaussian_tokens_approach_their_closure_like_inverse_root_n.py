"""Tokens drawn from a Gaussian against the closed equations of its mean and covariance.

Softmax, L2 and Sinkhorn attention keep Gaussians, so the limit of many tokens is a matrix equation; n tokens differ from it
by a Monte Carlo error. The weights contract, because limits that expand can blow up where tokens never do.
"""

import numpy as np

from measureflow.diagnostics import ChaosRate, chaos_rate
from measureflow.fields import AbstractField, L2Attention, SinkhornAttention, SoftmaxAttention
from measureflow.flows import RK4
from measureflow.measures import Gaussian
from measureflow.plotting import Curve, Figure, curves_figure
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_most, equal
from measureflow.studies.gaussians.moments import COV, MEAN, A, V

CLAIM = Claim(
    "Mean and covariance of n tokens drawn from a Gaussian follow the closed equations of softmax, L2 and Sinkhorn attention "
    "up to an error of order n^{-1/2}.",
    reference="castin:25",
    where="derived: sampling error of the proposition on Gaussian initial data",
)
QUERY, KEY = np.array([[0.5, 0.1], [0.0, 0.4]]), -np.array([[0.6, 0.0], [0.1, 0.5]])
FIELDS: dict[str, AbstractField] = {
    "softmax": SoftmaxAttention(A, V),
    "L2": L2Attention(QUERY, KEY, V),
    "Sinkhorn": SinkhornAttention(A, V, tolerance=1e-8),
}
NUMBERS = [50, 800]


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Fit the rate between 50 and 800 tokens for each of the three variants."""
    law = Gaussian(MEAN, COV)
    times, runs = [0.0, 1.0], size.pick(24, 96)
    found = {
        name: chaos_rate(field, law, NUMBERS, times, RK4(0.5), runs=runs, key=seed + 3, confidence=0.99)
        for name, field in FIELDS.items()
    }
    margins = {name: (each.interval[1] - each.interval[0]) / 2 for name, each in found.items()}
    return CLAIM.judge(
        # Half the widths of the intervals of 99 % confidence that the runs give.
        *(equal(f"rate, {name}", 0.5, each.rate, margins[name]) for name, each in found.items()),
        at_most("half the widths of the intervals", 0.2, list(margins.values())),
        data=found,
    )


def draw(found: dict[str, ChaosRate]) -> Figure:
    """The distance of moments to the closure against the number of tokens."""
    curves = [
        Curve(name, each.ns, each.rms, each.rms[0] * np.sqrt(each.ns[0] / each.ns)) for name, each in found.items()
    ]
    return curves_figure(curves, "tokens n", "distance to the closure at t = 1", log="xy", law=r"$\propto n^{-1/2}$")

"""Three kernels that expand very differently contract alike: on a small variance all are softmax to first order."""

import numpy as np

from measureflow.fields import L2Attention, SinkhornAttention, SoftmaxAttention
from measureflow.flows import Adaptive, evolve
from measureflow.measures import Gaussian
from measureflow.plotting import Curve, Figure, curves_figure
from measureflow.studies.base import SMALL, Claim, Size, Verdict, equal
from measureflow.theory import gaussian as theory

CLAIM = Claim(
    "Softmax, L2 and Sinkhorn behave alike when they converge: the variance decays like 1/t.",
    reference="castin:25",
    where="slide that compares attention variants, part III of the talk; the law is derived",
)
TIMES = np.concatenate([[0.0], np.geomspace(0.1, 1e4, 16)])
V, A, Q, K = -0.8, 1.3, 0.7, 1.1


def run(size: Size = SMALL) -> Verdict:
    """One dimension until t = 1e4, with V < 0: the mean is then stable too."""
    fields = {
        "softmax": SoftmaxAttention([[A]], [[V]]),
        "L2": L2Attention([[Q]], [[K]], [[V]]),
        "Sinkhorn": SinkhornAttention([[A]], [[V]], symmetric=True),
    }
    paths = {
        name: evolve(f, Gaussian([0.0], [[2.0]]), TIMES, Adaptive(rtol=1e-10, atol=1e-14)) for name, f in fields.items()
    }
    s = {name: np.asarray(path.map(lambda mu: mu.cov)[:, 0, 0]) for name, path in paths.items()}
    limits = {"softmax": 1 / (2 * abs(V * A)), "L2": 1 / (4 * abs(V * Q * K)), "Sinkhorn": 1 / (2 * abs(V * A))}
    return CLAIM.judge(
        # Corrections are of relative order log(t)/t.
        *(equal(f"{name}: t·s at t = 1e4 over its limit", 1.0, 1e4 * s[name][-1] / limits[name], 0.01) for name in s),
        # The relative tolerance of the solver, over some hundred steps.
        equal(
            "softmax: s over s_0/(1-2va s_0 t)",
            np.ones(len(TIMES)),
            s["softmax"] / theory.scalar_covariance(TIMES, 2.0, V * A),
            1e-8,
        ),
        data={name: (s[name], limits[name]) for name in s},
    )


def draw(found: dict[str, tuple[np.ndarray, float]]) -> Figure:
    """The variances over time and the hyperbolas they come to follow."""
    t = TIMES[1:]
    curves = [Curve(name, t, s[1:], limit / t) for name, (s, limit) in found.items()]
    return curves_figure(curves, "time t", "variance", log="xy", law="limit law C/t")

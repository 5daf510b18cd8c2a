"""A head with a positive definite Hessian attracts its neighbours, at the rates of `H` when apart and `H_tr` together."""

import jax.numpy as jnp
import numpy as np

from measureflow.measures import Particles
from measureflow.plotting import Curve, Figure, curves_figure
from measureflow.spaces import Euclidean
from measureflow.studies.base import SMALL, Claim, Size, Verdict, equal
from measureflow.training import Ridge, fixtures, stability
from measureflow.training.perturbation import (
    distances_over_time,
    matrix,
    observed_rate,
    rest_point,
    splitting,
    translation,
)

CLAIM = Claim(
    "Theorem 7.5: a Dirac head with positive definite H attracts nearby laws exponentially.",
    reference="heads:26",
    where="theorem 7.5",
)
TIMES = np.linspace(0.0, 5.0, 9)
APART = [0.232870, 0.280480, 0.311642, 0.460502]
TOGETHER = [0.313545, 0.375379, 0.440957, 0.807942]


def run(size: Size = SMALL) -> Verdict:
    """F2 with ridge 0.3: a centred pair and a shifted head along the slowest directions."""
    risk = fixtures.f2()
    energy = risk + Ridge(0.3)
    rest = rest_point(energy, jnp.zeros(4))
    mu = Particles(Euclidean(4), rest[None])
    found = stability(energy, risk.heads, mu)
    apart, together = (
        1e-3 * jnp.asarray(np.linalg.eigh(np.asarray(matrix(make, energy, mu)))[1][:, 0])
        for make in (splitting, translation)
    )
    pair = observed_rate(energy, rest, jnp.stack([apart, -apart]), (0.0, 5.0))
    shift = observed_rate(energy, rest, together[None], (0.0, 5.0))
    return CLAIM.judge(
        # Printed digits.
        equal("rest point", [-0.339828, 0.070092, -0.024014, -0.432983], rest, 1e-6),
        equal("eigenvalues of H", APART, found.splitting, 1e-6),
        equal("eigenvalues of H_tr", TOGETHER, found.translation, 1e-6),
        equal("classified as stable", 1, int(found.kind == "stable"), 0),
        # Second order in the displacement.
        equal("rate of a centred pair", -2 * found.splitting[0], pair, 1e-3),
        equal("rate of a shifted head", -2 * found.translation[0], shift, 1e-3),
        equal("published rates", [-0.465740, -0.62709], [pair, shift], 1e-3),
        data=[
            ("pair apart", distances_over_time(energy, rest, jnp.stack([apart, -apart]), TIMES), found.splitting[0]),
            ("one head aside", distances_over_time(energy, rest, together[None], TIMES), found.translation[0]),
        ],
    )


def draw(data: list[tuple[str, np.ndarray, float]]) -> Figure:
    """How far displaced heads are from where they rest, on a logarithmic scale, and the rates of both Hessians."""
    curves = [
        Curve(name, TIMES, away, away[0] * np.exp(-2 * least * TIMES),
              tuple(away[0] * np.exp((-2 * least + room) * TIMES) for room in (-1e-3, 1e-3)))
        for name, away, least in data
    ]  # fmt: skip
    return curves_figure(
        curves, "time t", "distance from the rest point", log="y", law=r"$e^{-2λ_{\min}t}$ of $H$, $H_{tr}$"
    )

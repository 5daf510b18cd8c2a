"""Tokens that all meet at one angle keep doing so, and the angle obeys a scalar equation solved in closed form."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from measureflow.fields import AbstractAttention, SoftmaxAttention, UnnormalisedAttention
from measureflow.flows import RK4, evolve
from measureflow.measures import Particles
from measureflow.plotting import Curve, Figure, curves_figure
from measureflow.spaces import Sphere
from measureflow.studies.base import SMALL, Claim, Size, Verdict, equal
from measureflow.theory import equiangular

CLAIM = Claim(
    "Tokens with equal pairwise inner products keep that symmetry and obey one scalar equation.",
    reference="geshkovski:25",
    where="section on the reduction for equal inner products",
)

BETAS = np.array([0.0, 1.0, 4.0])
SA_AT_2 = [0.816342358568, 0.093652133992]
USA_AT_TENTH = [0.027317295474, 0.028575837301]
TIMES_TO_999 = np.array([5.1863, 5.2703, 5.4584, 5.8976, 6.9535, 9.5443, 15.9953, 32.2331, 73.4457, 178.73])


def overlaps(model: type[AbstractAttention], time: float) -> Float[Array, "betas pairs"]:
    """All inner products of 8 tokens a while after they were orthogonal, for each beta."""

    @eqx.filter_jit
    @jax.vmap
    def at(beta):
        mu = evolve(model.isotropic(8, beta), Particles(Sphere(8), jnp.eye(8)), [0.0, time], RK4(time / 400)).final
        return (mu.points @ mu.points.T)[np.triu_indices(8, 1)]

    return at(jnp.asarray(BETAS))


def inverse_quadrature(beta: np.ndarray, n: int = 32, gamma: float = 0.999) -> np.ndarray:
    """The time from orthogonal tokens to an overlap, by Gauss-Legendre quadrature in `u = -log(1 - g)`."""
    nodes, weights = np.polynomial.legendre.leggauss(200)
    end = -np.log(1 - gamma)
    gap = np.exp(-end * (nodes + 1) / 2)
    return end / 2 * ((np.exp(np.outer(beta, gap)) + n - 1) / (2 * ((n - 1) * (1 - gap) + 1))) @ weights


def run(size: Size = SMALL) -> Verdict:
    """Follow 8 orthogonal tokens and compare with the digits of the sheet and with the scalar equation."""
    sa, usa = np.asarray(overlaps(SoftmaxAttention, 2.0)), np.asarray(overlaps(UnnormalisedAttention, 0.1))
    law = equiangular.overlap(2.0, 8, BETAS), equiangular.overlap(0.1, 8, BETAS, model=equiangular.unnormalised)
    flat = [(np.exp(2 * t) - 1) / (np.exp(2 * t) + 7) for t in (2.0, 0.1)]
    tens = np.arange(10.0)
    # 1e-9: the error of RK4 with 400 steps; 1e-4 relative: the digits printed.
    return CLAIM.judge(
        equal("SA at t = 2, beta = 1, 4", SA_AT_2, sa[1:, 0], 1e-9),
        equal("USA at t = 0.1, beta = 1, 4", USA_AT_TENTH, usa[1:, 0], 1e-9),
        equal("beta = 0, SA and USA", flat, [sa[0, 0], usa[0, 0]], 1e-9),
        equal("scalar equation, SA, beta = 0, 1, 4", law[0], sa[:, 0], 1e-9),
        equal("scalar equation, USA, beta = 0, 1, 4", law[1], usa[:, 0], 1e-9),
        equal("spread of the overlaps", 0.0, max(np.ptp(sa, axis=1).max(), np.ptp(usa, axis=1).max()), 1e-9),
        equal(
            "signs of the change with beta, SA and USA",
            [-1.0, 1.0],
            np.sign([sa[2, 0] - sa[1, 0], usa[2, 0] - usa[1, 0]]),
            0,
        ),
        equal("times to .999 by quadrature", TIMES_TO_999, inverse_quadrature(tens), 1e-4 * TIMES_TO_999),
        equal("times to .999 in closed form", TIMES_TO_999, equiangular.time_to(0.999, 32, tens), 1e-4 * TIMES_TO_999),
        data=inverse_quadrature(tens),
    )


def draw(times: np.ndarray) -> Figure:
    """The time to consensus against the inverse temperature."""
    curve = Curve("by quadrature", np.arange(10.0), times, TIMES_TO_999)
    return curves_figure([curve], "β", "time to overlap 0.999 of 32 tokens", log="y", law="printed table")

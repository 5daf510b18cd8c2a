"""The zero head can be exponentially stable while another head far away is better: rest is local, optimality is not."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import minimize_scalar

from measureflow.measures import Particles
from measureflow.plotting import Curve, Figure, curves_figure
from measureflow.spaces import Euclidean
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_most, equal
from measureflow.training import Ridge, fixtures
from measureflow.training.certificates import ridge_criterion
from measureflow.training.perturbation import observed_rate

CLAIM = Claim(
    "Remarks 6.4-6.5 and section 8: stationary, even exponentially stable, does not mean globally optimal.",
    reference="heads:26",
    where="remarks 6.4 and 6.5, section 8",
)
DECAY, RADIUS = 1.0, 2.0
SHARES = np.linspace(1e-3, 0.4, 40)
"""Of the better head."""


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Decay one on values and outputs, queries and keys in a ball of radius two."""
    risk = fixtures.f1()
    energy = risk + Ridge(risk.heads.by_block(value=DECAY, output=DECAY))
    zero = Particles(Euclidean(24), jnp.zeros((1, 24)))
    response = ridge_criterion(risk, zero, RADIUS, starts=size.pick(48, 192))
    value = eqx.filter_jit(energy)

    def along(share):
        scale = jnp.sqrt(share) * jnp.ones(24).at[:12].set(1 / jnp.sqrt(share))
        return float(value(Particles(zero.space, (scale * response.particle)[None])))

    found: Any = minimize_scalar(along, bounds=(1e-3, 1.0), method="bounded", options={"xatol": 1e-9})
    noise = 1e-3 * jax.random.normal(jax.random.key(seed), (4, 24)).at[:, :12].set(0.0)
    return CLAIM.judge(
        # Printed digits of the sheet; the better head comes from many starts.
        equal("risk of the zero head", 5.54517744, value(zero), 1e-7),
        equal(
            "rate of return to the zero head", -0.58663, observed_rate(energy, jnp.zeros(24), noise, (5.0, 9.0)), 1e-3
        ),
        equal("Ψ of the best unit head", -1.573700, response.value, 1e-5),
        at_most("Ψ of the best unit head is below -λ", -DECAY, response.value),
        equal("risk with that head", 5.48441567, found.fun, 1e-5),
        at_most("risk with that head is below that of zero", float(value(zero)) - 0.05, found.fun),
        data=([along(share) for share in SHARES], float(value(zero)), (found.x, found.fun)),
    )


def draw(data: tuple[list[float], float, tuple[float, float]]) -> Figure:
    """The risk on the way from the zero head to another: nothing below is near, and something is far away."""
    along, zero, (share, least) = data
    curves = [Curve("towards the better head", SHARES, along, zero), Curve("least", [share], [least])]
    return curves_figure(
        curves, "share of the better head", "risk with decay", law="risk of the zero head, which is stable"
    )

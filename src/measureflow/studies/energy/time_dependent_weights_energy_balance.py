"""When weights change with depth, energy is lost to the motion and gained or lost with the weights.

For symmetric heads `F_t = -½ sum_h ∬ e^{<A_h(t) x, y>} dmu dmu`, and along `v = sum_h A_h ∫ y e^{<A_h x, y>} dmu` the balance is
`d/dt F_t(mu_t) = (d_t F_t)(mu_t) - ∫ |v|^2 dmu`. The left side is also measured along the flow itself.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Real

from measureflow.diagnostics import energy_balance
from measureflow.energies import AbstractEnergy, BilinearEnergy, GradientFlow
from measureflow.fields import AbstractField, UnnormalisedAttention, Varying
from measureflow.flows import Adaptive, evolve
from measureflow.measures import Particles
from measureflow.spaces import Euclidean
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_least, equal

CLAIM = Claim(
    "With time-dependent symmetric heads the energy changes by its explicit time derivative minus the dissipation.",
    reference="energybalance:26",
    where="energy balance of the abstract",
)

MOMENT = 0.7
FORMS = np.array([[[0.5, 0.2], [0.2, -0.3]], [[-0.4, 0.1], [0.1, 0.6]]])


def heads(t: Real[Array, ""]) -> list[Float[Array, "d d"]]:
    """Two symmetric heads, one that oscillates and one that fades."""
    return [jnp.sin(t) * FORMS[0], jnp.exp(-t) * FORMS[1]]


def energy(t: Real[Array, ""]) -> AbstractEnergy:
    """The energy of the moment."""
    first, second = heads(t)
    return -(BilinearEnergy(first) + BilinearEnergy(second))


def attention(t: Real[Array, ""]) -> AbstractField:
    """The two heads of the moment, without normalisation."""
    first, second = heads(t)
    return UnnormalisedAttention(first, first) + UnnormalisedAttention(second, second)


def written_out(t: float, x: np.ndarray) -> tuple[float, float]:
    """The explicit derivative and the dissipation, as sums over pairs of tokens."""
    A, rates = (np.reshape(c, (2, 1, 1)) * FORMS for c in ([np.sin(t), np.exp(-t)], [np.cos(t), -np.exp(-t)]))
    n, kernels = len(x), np.exp(x @ A @ x.T)
    v = (kernels @ x @ A).sum(0) / n
    return -float((x @ rates @ x.T * kernels).sum()) / (2 * n**2), float((v**2).sum()) / n


def slope_along_flow(mu: Particles, h: float = 0.004) -> tuple[float, Particles]:
    """The derivative of the energy along the flow by a difference over five frames, and the tokens at the middle one."""
    times = MOMENT + h * np.arange(-2.0, 3.0)
    path = evolve(Varying(attention), mu, times, Adaptive(1e-12, 1e-13))
    values = np.asarray(jax.vmap(lambda t, frame: energy(t)(frame))(path.times, path.measures))
    middle = path.at(2)
    return float(values @ np.array([1, -8, 0, 8, -1])) / (12 * h), middle


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Compare both sides of the balance at one time, for 6 tokens in the plane."""
    slope, mu = slope_along_flow(Particles.iid(Euclidean(2), 6, key=seed))
    balance = energy_balance(energy, mu, MOMENT)
    explicit, dissipation = written_out(MOMENT, np.asarray(mu.points))
    flow, velocity = (f(MOMENT, mu.points, mu) for f in (GradientFlow(energy(jnp.array(MOMENT))), Varying(attention)))
    # 1e-8: the difference over five frames is off by h^4, and the solver by 1e-12; the rest is rounding.
    return CLAIM.judge(
        equal("change of the energy along the flow", explicit - dissipation, slope, 1e-8),
        equal("change of the energy by the diagnostic", explicit - dissipation, balance.change, 1e-8),
        equal("explicit part and dissipation", [explicit, dissipation], [balance.explicit, balance.dissipation], 1e-8),
        equal("attention against the gradient flow", 0.0, jnp.abs(velocity - flow).max(), 1e-8),
        at_least("both parts matter", 1e-2, [abs(explicit), dissipation]),
    )

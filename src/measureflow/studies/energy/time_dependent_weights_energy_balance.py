"""When weights change with depth, energy is lost to the motion and gained or lost with the weights.

For symmetric heads `F_t = -½ sum_h ∬ e^{<A_h(t) x, y>} dmu dmu`, and along `v = sum_h A_h ∫ y e^{<A_h x, y>} dmu` the balance is
`d/dt F_t(mu_t) = (d_t F_t)(mu_t) - ∫ |v|^2 dmu`. The left side is also measured along the flow itself.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Real

from measureflow.diagnostics import energy_balance
from measureflow.energies import AbstractEnergy, BilinearEnergy, GradientFlow
from measureflow.fields import AbstractField, UnnormalisedAttention, Varying
from measureflow.flows import Adaptive, evolve
from measureflow.measures import Particles
from measureflow.plotting import Figure, checks_figure
from measureflow.spaces import Euclidean
from measureflow.studies.base import SMALL, Check, Claim, Size, Verdict, at_least, equal

CLAIM = Claim(
    "With time-dependent symmetric heads the energy changes by its explicit time derivative minus the dissipation.",
    reference="energybalance:26",
    where="energy balance of the abstract",
)

MOMENT, STRIDE = 0.7, 0.002
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


@eqx.filter_jit
@jax.vmap
def found_at(points: Float[Array, "n d"]) -> dict[str, Array]:
    """The derivative of the energy along the flow by a difference over five frames, and what is said of the middle one."""
    times = MOMENT + STRIDE * np.arange(-2.0, 3.0)
    path = evolve(Varying(attention), Particles(Euclidean(2), points), times, Adaptive(1e-12, 1e-13))
    values = jax.vmap(lambda t, frame: energy(t)(frame))(path.times, path.measures)
    mu, now = path.at(2), jnp.array(MOMENT)
    balance = energy_balance(energy, mu, MOMENT)
    flow, velocity = (f(MOMENT, mu.points, mu) for f in (GradientFlow(energy(now)), Varying(attention)))
    return {
        "points": mu.points,
        "slope": values @ jnp.array([1.0, -8.0, 0.0, 8.0, -1.0]) / (12 * STRIDE),
        "parts": jnp.stack([balance.explicit, balance.dissipation]),
        "change": balance.change,
        "defect": jnp.abs(velocity - flow).max(),
    }


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Compare both sides of the balance at one time, for 20 clouds of 6 tokens in a square of the plane."""
    starts = np.random.default_rng(seed).uniform(-1.5, 1.5, (20, 6, 2))
    found = {name: np.asarray(each) for name, each in found_at(jnp.asarray(starts)).items()}
    parts = np.array([written_out(MOMENT, points) for points in found["points"]])
    change = parts[:, 0] - parts[:, 1]
    # 1e-8: the difference over five frames is off by h^4, and the solver by 1e-12; the rest is rounding.
    return CLAIM.judge(
        equal("change of the energy along the flow", change, found["slope"], 1e-8),
        equal("change of the energy by the diagnostic", change, found["change"], 1e-8),
        equal("explicit part and dissipation", parts, found["parts"], 1e-8),
        equal("attention against the gradient flow", 0.0, found["defect"].max(), 1e-8),
        # The explicit part has either sign and is this small in one cloud of five; not in all of twenty.
        at_least("both parts matter in some cloud", 1e-2, np.abs(parts).min(1).max()),
        data=[
            equal("change of the energy along the flow", change, found["slope"], 1e-8),
            equal("explicit part and dissipation", parts, found["parts"], 1e-8),
        ],
    )


def draw(data: list[Check]) -> Figure:
    """The change of the energy of each cloud against the balance, and its two parts."""
    return checks_figure(data)

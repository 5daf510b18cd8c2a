"""Random tokens on the circle meet in one point wherever that is proved, and the criterion may speak of an L1 norm.

Tokens move by the kernel `k(cos x) = f(x) / sin x`, which works for every interaction `f`; for attention it must give the
velocities of attention. A flow is continued in legs, each twice as long as the one before: no final time is fixed.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.integrate import quad

from measureflow.diagnostics import order_parameter
from measureflow.fields import KernelAttention, UnnormalisedAttention
from measureflow.flows import Adaptive, evolve
from measureflow.measures import Particles
from measureflow.plotting import Curve, Figure, draw_curves, panels
from measureflow.spaces import Sphere
from measureflow.studies.base import SMALL, Claim, Size, Verdict, equal
from measureflow.studies.synchronization.thirds import third
from measureflow.theory import synchronization

CLAIM = Claim(
    "Random starts synchronize for β in the earlier range [0,1] and at β=-0.16, and ∫(f''')_+ is half the L1 norm.",
    reference="polyanskiy:25",
    where="theorem on the criterion and its application in the abstract",
)

BETAS = (-0.16, 0.0, 0.5, 1.0, 3.0)
TOKENS = 10
TOGETHER, PATIENCE = 0.999, 1e4
FRAMES = 24


@eqx.filter_jit
def leg(betas: Float[Array, " k"], clouds: Float[Array, "k n 2"], duration: Float[Array, ""]) -> tuple[Array, Array]:
    """The order parameters over a while, and the tokens at its end."""

    def one(beta, points):
        attention = KernelAttention(synchronization.kernel(lambda x: synchronization.attention(x, beta)))
        times = duration * jnp.linspace(0.0, 1.0, FRAMES)
        path = evolve(attention, Particles(Sphere(2), points), times, Adaptive(1e-6))
        return path.map(order_parameter), path.final.points

    return jax.vmap(one)(betas, clouds)


def until_they_meet(betas: np.ndarray, clouds: Float[Array, "k n 2"]) -> tuple[np.ndarray, np.ndarray]:
    """The times and order parameters of all flows, until each is above the bound or patience ends."""
    duration, since, times, orders = 8.0, 0.0, [], []
    while duration < PATIENCE and not (orders and (orders[-1][:, -1] > TOGETHER).all()):
        order, clouds = leg(jnp.asarray(betas), clouds, jnp.asarray(duration))
        times.append(since + duration * np.linspace(0.0, 1.0, FRAMES))
        orders.append(np.asarray(order))
        since, duration = since + duration, 2 * duration
    return np.concatenate(times), np.concatenate(orders, axis=1)


@jax.jit
@jax.vmap
def slips(beta: Float[Array, ""], points: Float[Array, "n 2"]) -> Float[Array, ""]:
    """How far the velocities of the kernel are from those of attention."""
    mu = Particles(Sphere(2), points)
    kernel = KernelAttention(synchronization.kernel(lambda x: synchronization.attention(x, beta)))
    return jnp.abs(kernel(0.0, points, mu) - UnnormalisedAttention.isotropic(2, beta)(0.0, points, mu)).max()


@jax.jit
@jax.vmap
def rises(beta: Float[Array, ""]) -> Float[Array, ""]:
    """∫(f''')_+ as the criterion has it, over f'(0)."""
    found = synchronization.criterion(lambda x: synchronization.attention(x, beta))
    return found.rise / found.slope


def norm(beta: float) -> float:
    """∫|f'''| by quadrature, where f'(0) = 1."""
    return 2 * float(
        quad(lambda x: abs(third(np.array([x]), beta)[0]), 0.0, np.pi, limit=400, epsabs=0.0, epsrel=1e-12)[0]
    )


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Follow 6 starts (20 in full) of 10 tokens for each beta until they have met, and integrate the third derivative."""
    starts = size.pick(6, 20)
    keys = jax.random.split(jax.random.key(seed), len(BETAS) * starts)
    clouds = jax.vmap(lambda key: Particles.iid(Sphere(2), TOKENS, key=key).points)(keys)
    betas = np.repeat(BETAS, starts)
    times, orders = until_they_meet(betas, clouds)
    met = (orders[:, -1] > TOGETHER).reshape(len(BETAS), starts).sum(1)
    ratios = np.asarray(rises(jnp.array(BETAS))) / [norm(beta) for beta in BETAS]
    return CLAIM.judge(
        equal(f"starts of {starts} that meet, beta = -.16, 0, .5, 1, 3", [starts] * len(BETAS), met, 0),
        equal("∫(f''')_+ over the L1 norm", [0.5] * len(BETAS), ratios, 1e-11),  # the tolerance of the quadrature
        # Ten terms, each a rounding of the kernel or of the angle that it takes from the score.
        equal("velocities of the kernel against attention", 0.0, float(slips(jnp.asarray(betas), clouds).max()), 1e-11),
        data={"times": times, "orders": orders.reshape(len(BETAS), starts, -1)},
    )


def draw(found: dict[str, np.ndarray]) -> Figure:
    """How order grows from each start, for each β."""
    figure, axes = panels(len(BETAS), width=3.0, height=3.2)
    for ax, beta, orders in zip(axes, BETAS, found["orders"], strict=True):
        late = found["times"] > 0.3
        curves = [Curve("", found["times"][late], order[late]) for order in orders]
        draw_curves(ax, curves, "time t", "order parameter", log="x", title=f"β = {beta:g}")
        for line in ax.lines:
            line.set(color="#0072B2", alpha=0.5, marker="")
        ax.set_ylim(0.0, 1.05)
    return figure

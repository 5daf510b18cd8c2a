"""On the sphere unnormalised attention climbs the interaction energy as fast as it can, and softmax climbs it too.

The energy of tokens with weights is `E = 1/(2 beta) Σ_i w_i Z_i` with `Z_i = Σ_j w_j e^{beta <x_i, x_j>}`. Unnormalised attention
is its gradient at token `i`, over `w_i`; softmax is its gradient in the metric that weighs token `i` by `w_i Z_i`. With equal
weights these are the factors `n` and `Z / n²` of the papers. What the library computes is compared with tangent projections
and energies in NumPy, and the climb is what the energy gains along geodesics.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from measureflow.energies import InteractionEnergy
from measureflow.fields import SoftmaxAttention, UnnormalisedAttention
from measureflow.measures import Particles
from measureflow.plotting import Figure, checks_figure
from measureflow.spaces import Sphere
from measureflow.studies.base import SMALL, Check, Claim, Size, Verdict, at_least, equal

CLAIM = Claim(
    "Projected unnormalised attention is a gradient flow on the sphere, and both sphere models ascend the interaction "
    "energy.",
    reference="geshkovski:25",
    where="section on the interaction energy; slide on layer normalisation of the lecture deck",
)
KINDS = "USA", "SA"
CLOUDS, TOKENS, STEP = 20, 8, 1e-5


@eqx.filter_jit
@jax.vmap
def found(
    points: Float[Array, "n d"], weights: Float[Array, " n"], beta: Float[Array, ""]
) -> tuple[Float[Array, "n d"], Float[Array, "n d"], Float[Array, ""]]:
    """The velocities of both models and the energy of one cloud, as the library computes them."""
    mu = Particles(Sphere(3), points, weights)
    usa, sa = UnnormalisedAttention.isotropic(3, beta), SoftmaxAttention.isotropic(3, beta)
    fast, slow = (mu.transport(lambda xs, field=field: field(0.0, xs, mu)).points for field in (usa, sa))
    return fast, slow, InteractionEnergy(beta)(mu)


def masses(x: np.ndarray, weights: np.ndarray, beta: np.ndarray) -> np.ndarray:
    """`Z_i` for each token of each cloud."""
    return np.einsum("kij,kj->ki", np.exp(beta[:, None, None] * x @ np.swapaxes(x, 1, 2)), weights)


def energy(x: np.ndarray, weights: np.ndarray, beta: np.ndarray) -> np.ndarray:
    """The interaction energy of each cloud, written out."""
    return (weights * masses(x, weights, beta)).sum(1) / (2 * beta)


def projected_gradient(x: np.ndarray, weights: np.ndarray, beta: np.ndarray) -> np.ndarray:
    """The gradient of the energy in each token over its weight, tangent to the sphere: `P_x Σ_j w_j e^{beta <x, x_j>} x_j`."""
    kernel = np.exp(beta[:, None, None] * x @ np.swapaxes(x, 1, 2)) * weights[:, None, :]
    ambient = kernel @ x
    return ambient - (ambient * x).sum(2, keepdims=True) * x


def climb(x: np.ndarray, v: np.ndarray, weights: np.ndarray, beta: np.ndarray) -> np.ndarray:
    """What the energy gains a unit of time when tokens follow the great circles of their velocities."""

    def moved(t):
        speed = np.linalg.norm(v, axis=2, keepdims=True)
        return np.cos(t * speed) * x + np.sin(t * speed) * v / speed

    return (energy(moved(STEP), weights, beta) - energy(moved(-STEP), weights, beta)) / (2 * STEP)


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Check the identities on 20 clouds of 8 weighted tokens at beta = 1 and 4."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(2 * CLOUDS, TOKENS, 3))
    x /= np.linalg.norm(x, axis=2, keepdims=True)
    weights = rng.uniform(0.5, 1.5, (2 * CLOUDS, TOKENS))
    weights /= weights.sum(1, keepdims=True)
    beta = np.repeat([1.0, 4.0], CLOUDS)
    usa, sa, value = (np.asarray(part) for part in found(*map(jnp.asarray, (x, weights, beta))))
    gradient, Z = projected_gradient(x, weights, beta), masses(x, weights, beta)
    squares = weights * (usa**2).sum(2), weights * Z * (sa**2).sum(2)
    climbs = [climb(x, v, weights, beta) for v in (usa, sa)]
    errors = [np.abs(up - square.sum(1)).max() for up, square in zip(climbs, squares, strict=True)]
    return CLAIM.judge(
        # Exact identities; at beta = 4 the velocities are of size e^4 and rounding is still far below.
        equal("USA velocity - P∇E/w", 0.0, np.abs(usa - gradient).max(), 1e-10),
        equal("SA velocity - P∇E/(wZ)", 0.0, np.abs(sa - gradient / Z[..., None]).max(), 1e-10),
        equal("energy of the library - E", 0.0, np.abs(value - energy(x, weights, beta)).max(), 1e-10),
        # Central differences of an energy of size e^4: rounding over the step, and the step squared times e^12.
        equal("USA climb - Σw|v|²", 0.0, errors[0], 1e-6),
        equal("SA climb - ΣwZ|v|²", 0.0, errors[1], 1e-6),
        at_least("least climb", 0.0, min(map(np.min, climbs))),
        data=[
            equal("SA velocity against P∇E/(wZ)", gradient / Z[..., None], sa, 1e-10),
            *(equal(f"{kind} climb", s.sum(1), up, 1e-6) for kind, s, up in zip(KINDS, squares, climbs, strict=True)),
        ],
    )


def draw(data: list[Check]) -> Figure:
    """Velocities against gradients of the energy, and what the energy gains against the squared speeds."""
    return checks_figure(data)

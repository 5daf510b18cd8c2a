"""A head displaced along a negative direction of `H_tr` leaves, with the speed that the Hessian predicts.

Any head is stationary under weight decay towards the anchor `θ + grad Psi / λ`, and it is not zero, so that `H_tr = H + K + λ I`
differs from `H`. The prediction is the Hessian of the one-head risk, written out.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from measureflow.energies import AbstractEnergy
from measureflow.measures import Particles
from measureflow.plotting import Curve, Figure, curves_figure
from measureflow.spaces import Euclidean
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_least, at_most, equal
from measureflow.training import Constant, Descent, Ridge, fixtures
from measureflow.training.perturbation import distances_over_time, matrix, observed_rate, splitting, translation

CLAIM = Claim(
    "Theorem 7.8: a negative direction of H_tr makes the Dirac unstable with initial speed -4ξη^2 v^TH_tr v.",
    reference="heads:26",
    where="theorem 7.8",
)
SIZE, DECAY, RATE = 1e-4, 0.1, 0.7
TIMES = np.linspace(0.0, 1.0, 9)


def one_head_risk(theta: Float[Array, " D"], x: Float[Array, "S T d"], targets: Array, W: Array) -> Array:
    """The cross-entropy of a single head on all sequences, written out."""
    query, key, value = (theta[i : i + 6].reshape(3, 2) for i in (0, 6, 12))
    kernel = (
        jnp.exp(jnp.einsum("sti,ik,jk,suj->stu", x, query, key, x) / 2**0.5) * jnp.tri(x.shape[1], dtype=x.dtype)[None]
    )
    seen = (kernel / kernel.sum(2, keepdims=True)) @ x
    logits = seen @ value @ theta[18:].reshape(2, 3) @ W
    return jnp.sum(jnp.log(jnp.exp(logits).sum(-1)) - (targets * logits).sum(-1), axis=1).mean()


@jax.jit
def written_out(theta: Array, *data: Array) -> tuple[Array, Array]:
    """Gradient and Hessian of the one-head risk."""
    return jax.grad(one_head_risk)(theta, *data), jax.hessian(one_head_risk)(theta, *data)


@eqx.filter_jit
def speed(energy: AbstractEnergy, theta: Array, h: Array) -> Array:
    """The rate of `|h|²` where a single head stands at `theta + h`, over `|h|²`."""
    moved = Particles(Euclidean(24), (theta + h)[None])
    return 2 * h @ Descent(energy, Constant(RATE))(0.0, moved.points, moved)[0] / (h @ h)


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """A random head of F1 at rest under anchored decay, and the eigenvector of the most negative eigenvalue."""
    risk, rng = fixtures.f1(), np.random.default_rng(seed)
    theta = jnp.asarray(0.3 * rng.standard_normal(24))
    gradient, H = map(np.asarray, written_out(theta, risk.tokens, risk.targets, risk.unembedding))
    energy = risk + Ridge(DECAY, anchor=theta + gradient / DECAY)
    values, vectors = np.linalg.eigh(H + DECAY * np.eye(24))
    dirac = Particles(Euclidean(24), theta[None])
    found, frozen = (np.asarray(matrix(make, energy, dirac)) for make in (translation, splitting))
    v = jnp.asarray(vectors[:, 0])
    speeds = [float(speed(energy, theta, h)) for h in (SIZE * v, -SIZE * v)]
    growth = observed_rate(energy, theta, SIZE / 100 * v[None], (0.0, 1.0))
    leaving = distances_over_time(energy, theta, SIZE / 100 * v[None], TIMES)
    return CLAIM.judge(
        equal(
            "H_tr against the Hessian of the one-head risk", 0.0, np.abs(found - H - DECAY * np.eye(24)).max(), 1e-12
        ),
        # The mean over both sides is even in the displacement, so its error is of second order.
        equal("d/dt|h|²/η² at the start", -4 * RATE * values[0], float(np.mean(speeds)), 1e-5),
        # Of first order in a displacement of 1e-6, which grows to 1e-5 at most.
        equal("exponential growth up to t = 1", -2 * values[0], growth, 1e-3),
        at_most("least eigenvalue of H_tr", -0.05, values[0]),
        # So the head is not one for which moving together and apart are the same.
        at_least("largest entry of H_tr - H", 1e-3, np.abs(found - frozen).max()),
        data=(leaving, float(values[0])),
    )


def draw(data: tuple[np.ndarray, float]) -> Figure:
    """How far the head is from where it rested, on a logarithmic scale, and the rate of the Hessian within its tolerance."""
    away, least = data
    laws = [away[0] * np.exp((-2 * least + room) * TIMES) for room in (0.0, -1e-3, 1e-3)]
    curve = Curve("displaced head", TIMES, away, laws[0], (laws[1], laws[2]))
    return curves_figure([curve], "time t", "distance from the rest point", log="y", law=r"$e^{-2λ_{\min}(H_{tr})t}$")

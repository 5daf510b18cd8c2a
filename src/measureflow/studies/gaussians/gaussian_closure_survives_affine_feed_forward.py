"""A feed-forward layer without activation is affine, so Gaussians stay Gaussian through whole layers.

The moments of the closure are compared with the moment equations, integrated by SciPy, and with those of many clouds of tokens:
their mean over independent clouds differs from the closure by a few of its own standard errors.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.integrate import solve_ivp

from measureflow.fields import AbstractField, Perceptron, SoftmaxAttention
from measureflow.flows import RK4, Adaptive, evolve
from measureflow.measures import Gaussian, Particles
from measureflow.plotting import Figure, checks_figure
from measureflow.spaces import Euclidean
from measureflow.studies.base import SMALL, Check, Claim, Size, Verdict, at_most, equal
from measureflow.theory import gaussian as theory

CLAIM = Claim(
    "Adding an affine feed-forward term keeps Gaussians and rank.",
    reference="feedforward:26",
    where="theorem of the abstract",
)
END = 0.5


def identity(x):
    """No activation."""
    return x


def setting(rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """A contracting attention whose matrices are not symmetric, and an affine layer: `A, V, W, b`."""
    q, turn, W, noise = rng.uniform(-0.5, 0.5, (4, 2, 2))
    A = -q.T @ q - 0.2 * np.eye(2) + (turn - turn.T) / 2
    # Large tilts, which only rare tokens feel, would bias finite clouds.
    return A, np.eye(2) + noise / 2, W, rng.uniform(-1, 1, 2)


def layer(A: np.ndarray, V: np.ndarray, W: np.ndarray, b: np.ndarray) -> AbstractField:
    """Attention and `Wx + b`, the latter as two perceptrons without activation."""
    linear = Perceptron(W, np.eye(2), np.zeros(2), identity)
    return SoftmaxAttention(A, V) + linear + Perceptron(np.eye(2), np.zeros((2, 2)), b, identity)


def moment_equations(mean: np.ndarray, cov: np.ndarray, A, V, W, b) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance at the end, from `α' = V(I + ΣA)α + Wα + b` and `Σ' = (VΣA + W)Σ + transpose`."""

    def rates(_, y):
        m, S = y[:2], y[2:].reshape(2, 2)
        slope = (V @ S @ A + W) @ S
        return np.append(V @ (m + S @ A @ m) + W @ m + b, slope + slope.T)

    end = solve_ivp(rates, (0.0, END), np.append(mean, cov), method="DOP853", rtol=1e-12, atol=1e-13).y[:, -1]
    return end[:2], end[2:].reshape(2, 2)


def off(law: Gaussian, moments: tuple[np.ndarray, np.ndarray]) -> float:
    """The worst entry by which a Gaussian misses given moments."""
    return max(np.abs(law.mean - moments[0]).max(), np.abs(law.cov - moments[1]).max())


@eqx.filter_jit
def token_moments(field: AbstractField, clouds: Float[Array, "k n d"]) -> Float[Array, "k five"]:
    """Mean and covariance of the tokens of each cloud at the end, as five numbers."""

    def moments(cloud):
        x = evolve(field, Particles(Euclidean(2), cloud), jnp.array([0.0, END]), RK4(0.1)).final.points
        return jnp.append(x.mean(0), jnp.cov(x.T)[jnp.triu_indices(2)])

    return jax.lax.map(moments, clouds)


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Random contracting attention with a random affine layer; then the same from a start of rank one."""
    rng = np.random.default_rng(seed)
    A, V, W, b = setting(rng)
    field, mean, root = layer(A, V, W, b), rng.uniform(-1, 1, 2), 0.5 * np.eye(2) + rng.uniform(-0.3, 0.3, (2, 2))
    start = Gaussian(mean, root @ root.T)
    m, S, Aj, Vj, Wj, bj = map(jnp.asarray, (mean, root @ root.T, A, V, W, b))
    softmax = theory.moment_rates(theory.softmax(m, S, Aj, Vj), m, S)
    rate = start.transport(lambda xs: field(0.0, xs, start))
    extra = rate.mean - softmax[0], rate.root @ start.root.T + start.root @ rate.root.T - softmax[1]
    thin = np.outer(root[0], root[0])
    laws = [evolve(field, Gaussian(mean, cov), [0.0, END], Adaptive(1e-10, 1e-12)).final for cov in (S, thin)]
    errors = [
        off(law, moment_equations(mean, cov, A, V, W, b)) for law, cov in zip(laws, (root @ root.T, thin), strict=True)
    ]
    truth = moment_equations(mean, root @ root.T, A, V, W, b)
    count, n = size.pick((20, 500), (40, 4000))
    clouds = mean + rng.normal(size=(count, n, 2)) @ root.T
    closure = np.append(laws[0].mean, np.asarray(laws[0].cov)[np.triu_indices(2)])
    found = np.asarray(token_moments(field, jnp.asarray(clouds))) - closure
    deviation = np.abs(found.mean(0)) / (found.std(0, ddof=1) / np.sqrt(count))
    return CLAIM.judge(
        equal("extra rate of the mean - (Wα+b)", 0.0, float(jnp.abs(extra[0] - Wj @ m - bj).max()), 1e-13),  # rounding
        equal(
            "extra rate of the covariance - (WΣ+ΣW^T)", 0.0, float(jnp.abs(extra[1] - Wj @ S - S @ Wj.T).max()), 1e-13
        ),
        equal("moments at the end against the moment equations", 0.0, max(errors), 1e-8),  # both integrators
        equal("rank after a start of rank one", 1, int(theory.rank(laws[1].cov, 1e-9)), 0),
        # Student's t with 19 degrees of freedom: each of five is beyond 6.5 with probability 3e-6. The bias of finitely many
        # tokens is of order 1/n, below one standard error of the mean of 20 clouds.
        at_most("mean moments of clouds of tokens off the closure, in standard errors", np.full(5, 6.5), deviation),
        # Otherwise the last part would say little.
        at_most("largest standard error of these", 0.05, (found.std(0, ddof=1) / np.sqrt(count)).max()),
        data=[
            equal("mean and covariance at the end", np.append(truth[0], truth[1][np.triu_indices(2)]), closure, 1e-8),
            at_most("clouds off the closure, in standard errors", 6.5, deviation),
        ],
    )


def draw(data: list[Check]) -> Figure:
    """The moments of the closure against their equations, and how far clouds of tokens are from it."""
    return checks_figure(data)

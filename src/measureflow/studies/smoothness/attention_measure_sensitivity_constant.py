"""How much the output of attention at one query changes when the cloud does."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from measureflow.fields import SoftmaxAttention
from measureflow.measures import Particles
from measureflow.plotting import Figure, checks_figure
from measureflow.spaces import Euclidean
from measureflow.studies.base import SMALL, Check, Claim, Size, Verdict, at_most
from measureflow.theory import bounds

CLAIM = Claim(
    "Estimate 3 holds with c(x,R)=‖V‖(1+2‖A‖|x|R)e^{2‖A‖|x|R}.",
    reference="castin:25",
    where="estimate 3, part II of the talk; the constant is derived",
)


@eqx.filter_jit
@jax.vmap
def change(A: Array, V: Array, x: Float[Array, " d"], clouds: Float[Array, "2 n d"]) -> Float[Array, ""]:
    """The distance between the outputs at one query when it sees one cloud and when it sees the other."""
    one, other = (SoftmaxAttention(A, V)(0.0, x[None, :], Particles(Euclidean(2), cloud)) for cloud in clouds)
    return jnp.linalg.norm(one - other)


def wasserstein(xs: np.ndarray, ys: np.ndarray) -> float:
    """The distance W_1 of two clouds with equally many tokens of equal weight: the best assignment."""
    costs = cdist(xs, ys)
    return costs[linear_sum_assignment(costs)].mean()


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Compare outputs on 300 pairs of clouds in the unit ball, some nearly equal and some far apart."""
    rng = np.random.default_rng(seed)
    A, V = rng.normal(size=(2, 300, 2, 2))
    A *= (rng.uniform(0, 8, 300) / np.linalg.norm(A, 2, axis=(1, 2)))[:, None, None]
    clouds = rng.normal(size=(300, 2, 4, 2))
    # From nearly equal to far apart, and more of a common shift than of single ones: that comes near the bound.
    apart = 10 ** rng.uniform(-4, 0.5, (300, 1, 1))
    clouds[:, 1] = clouds[:, 0] + apart * (rng.normal(size=(300, 1, 2)) + 0.3 * clouds[:, 1])
    clouds /= np.linalg.norm(clouds, axis=3).max((1, 2))[:, None, None, None]
    x = rng.normal(size=(300, 2))
    x *= (rng.uniform(size=300) ** 3 / np.linalg.norm(x, axis=1))[:, None]  # many near zero, where the bound is sharp
    norms = np.linalg.norm(V, 2, axis=(1, 2)), np.linalg.norm(A, 2, axis=(1, 2)), np.linalg.norm(x, axis=1)
    changes = np.asarray(change(*map(jnp.asarray, (A, V, x, clouds))))
    distances = np.array([wasserstein(*pair) for pair in clouds])
    limits = bounds.sensitivity(*norms, 1.0) * distances
    # An inequality, so no slack.
    return CLAIM.judge(
        at_most("change over c(x,R) W_1", 1.0, (changes / limits).max()),
        data=[at_most("change of the output, at most c(x,R) W₁", limits, changes)],
    )


def draw(data: list[Check]) -> Figure:
    """The change of the output for each pair of clouds against its bound."""
    return checks_figure(data)

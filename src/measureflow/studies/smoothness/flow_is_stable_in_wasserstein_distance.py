"""Two clouds that start close stay close: their distance grows at most by Dobrushin's factor, huge as that is."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from measureflow.fields import SoftmaxAttention
from measureflow.flows import evolve
from measureflow.measures import Particles
from measureflow.spaces import Euclidean
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_most, equal
from measureflow.theory import bounds

CLAIM = Claim(
    "Two solutions stay within the Dobrushin factor of their initial distance.",
    reference="castin:25",
    where="well-posedness, part II of the talk; the constant is derived",
)
TIMES = np.linspace(0.0, 2.0, 5)


@eqx.filter_jit
@eqx.filter_vmap(in_axes=(None, 0))
def tokens_over_time(field: SoftmaxAttention, tokens: Float[Array, "n d"]) -> Float[Array, "times n d"]:
    """The tokens of one cloud at all times."""
    measures = evolve(field, Particles(Euclidean(2), tokens), TIMES).measures
    return measures.points


def wasserstein(xs: np.ndarray, ys: np.ndarray, p: int) -> float:
    """The distance W_p of two clouds with equally many tokens of equal weight: the best assignment."""
    costs = cdist(xs, ys) ** p
    return costs[linear_sum_assignment(costs)].mean() ** (1 / p)


def log_distances(field: SoftmaxAttention, clouds: np.ndarray) -> dict[int, np.ndarray]:
    """The logarithm of the distance of two clouds at all times, in W_1 and W_2."""
    paths = np.asarray(tokens_over_time(field, jnp.asarray(clouds)))
    return {p: np.log([wasserstein(x, y, p) for x, y in zip(*paths, strict=True)]) for p in (1, 2)}


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Follow 40 and 30 tokens of the unit disc, with random A and V of norm 1/2, up to time 2."""
    rng = np.random.default_rng(seed)
    A, V = rng.normal(size=(2, 2, 2))
    A, V = A / np.linalg.norm(A, 2) / 2, V / np.linalg.norm(V, 2) / 2
    tokens = rng.normal(size=(70, 2))
    tokens /= np.linalg.norm(tokens, axis=1).max()
    # As 120 tokens each, copied three and four times, so that a best assignment is a best coupling.
    clouds = np.stack([np.repeat(tokens[:40], 3, axis=0), np.repeat(tokens[40:], 4, axis=0)])
    general = log_distances(SoftmaxAttention(A, V), clouds)
    sharp = log_distances(SoftmaxAttention(np.zeros((2, 2)), np.eye(2) / 2), np.stack([clouds[0], clouds[0] + 1.0]))
    factor = bounds.dobrushin_exponent(TIMES[1:], 1.0, 0.5, 0.5)
    return CLAIM.judge(
        # Logarithms of both sides, since the factor leaves the range of numbers; an inequality, so no slack.
        *(at_most(f"log growth of W_{p}, t = 0.5, 1, 1.5, 2", factor, w[1:] - w[0]) for p, w in general.items()),
        # Without scores all tokens move with V times the mean, and translates part as fast as they may: e^{‖V‖t}. The
        # tolerance is ten times that of the solver.
        *(equal(f"log growth of W_{p}, A = 0, V = I/2", TIMES[1:] / 2, w[1:] - w[0], 1e-7) for p, w in sharp.items()),
    )

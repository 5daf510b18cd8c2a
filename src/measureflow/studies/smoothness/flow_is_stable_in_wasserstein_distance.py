"""Two clouds that start close stay close: their distance grows at most by Dobrushin's factor, and some grow at its order.

Two starts show how much of the factor there is. Translates of each other without scores part like `e^{‖V‖t}`, as fast as they
may. And where all tokens but a few stand at `-R` and find that score lowest, the few at `R` draw all others: with `V = 1`,
`A = -a` and mass `s -> 0` at `R`, the velocity at `-R` changes by `2 R s e^{2aR^2}`, while `W_1 = 2 R s`. So the logarithm of
`W_1` grows at the rate `e^{2aR^2}`, and the bound at `aR^2 + (1 + 2aR^2) e^{2aR^2}`: the exponential is true, and only the factor
before it is lost.
"""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from measureflow.fields import SoftmaxAttention
from measureflow.flows import evolve
from measureflow.measures import Particles
from measureflow.plotting import Curve, Figure, draw_curves, panels
from measureflow.spaces import Euclidean
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_most, equal
from measureflow.theory import bounds

CLAIM = Claim(
    "Two solutions stay within the Dobrushin factor of their initial distance.",
    reference="castin:25",
    where="well-posedness, part II of the talk; the constant and the starts of its order are derived",
)
TIMES = np.linspace(0.0, 2.0, 5)
SHARP = np.array([0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0])
"""Scores `aR^2` of the tokens at `-R` with each other."""
MASS, SHORT = 1e-7, 3e-5
"""The mass at the other end, and a time in which its pull does not change."""


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


@eqx.filter_jit
@eqx.filter_vmap
def growth(score: Float[Array, ""]) -> Float[Array, ""]:
    """How fast the logarithm of `W_1` grows at first, between all tokens at -1 and all but a small mass at 1."""
    field = SoftmaxAttention(-score[None, None], jnp.eye(1))

    def ends(start):
        return evolve(field, start, [0.0, SHORT]).final.points[:, 0]

    many, few = ends(Particles(Euclidean(1), jnp.array([[-1.0], [1.0]]), jnp.array([1 - MASS, MASS])))
    all_there = ends(Particles(Euclidean(1), jnp.array([[-1.0]])))[0]
    distance = (1 - MASS) * (many - all_there) + MASS * (few - all_there)
    return jnp.log(distance / (2 * MASS)) / SHORT


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Follow 40 and 30 tokens of the unit disc, with random A and V of norm 1/2, up to time 2, and the two sharp starts."""
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
    rates, most = np.asarray(growth(jnp.asarray(SHARP))), np.asarray(bounds.mean_field_lipschitz(1.0, SHARP, 1.0))
    return CLAIM.judge(
        # Logarithms of both sides, since the factor leaves the range of numbers; an inequality, so no slack.
        *(at_most(f"log growth of W_{p}, t = 0.5, 1, 1.5, 2", factor, w[1:] - w[0]) for p, w in general.items()),
        # Without scores all tokens move with V times the mean, and translates part as fast as they may: e^{‖V‖t}. The
        # tolerance is ten times that of the solver.
        *(equal(f"log growth of W_{p}, A = 0, V = I/2", TIMES[1:] / 2, w[1:] - w[0], 1e-7) for p, w in sharp.items()),
        # The next order of the time is half of e^{2aR²} t; rounding of a distance of 1e-7 over so short a time is 1e-4.
        equal("first rate of log W_1 over e^{2aR²}, scores drawn to the far end", np.ones(len(SHARP)), rates / np.exp(2 * SHARP),
              2 * SHORT * np.exp(2 * SHARP) + 1e-3),
        at_most("the same rate over that of the bound", np.ones(len(SHARP)), rates / most, 1e-3),
        data=(rates, most, factor, general),
    )  # fmt: skip


def draw(found: tuple) -> Figure:
    """The rate at the sharp start over the scores, beside its law and the bound; the growth of random clouds below the bound."""
    rates, most, factor, general = found
    figure, (left, right) = panels(2, width=5.4)
    curves = [
        Curve("start drawn to the far end", SHARP, rates, np.exp(2 * SHARP)),
        Curve("rate of the bound", SHARP, most, most),
    ]
    draw_curves(left, curves, "score aR²", "first rate of log W₁", log="y", law=r"$e^{2aR^2}$, and the bound")
    curves = [Curve(f"random clouds, W_{p}", TIMES[1:], np.abs(w[1:] - w[0]), factor) for p, w in general.items()]
    draw_curves(right, curves, "time t", "size of the log growth", log="y", law="bound")
    return figure

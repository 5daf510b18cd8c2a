"""When V has one dominant direction, tokens end on at most three parallel hyperplanes.

Along the eigenvector `phi` scores grow fastest, so in the frame `z = e^{-tV} x` the coordinate `phi*(z)` follows the largest or
the smallest one, whichever has its sign. Only a token that balances between the two can end at 0. Clouds of opposite pairs
stay so: they end on two opposite hyperplanes, and a token at the origin rests between them, a third value that rounding would
upset like `exp(e^{2t})`. Elsewhere one of the two may win all tokens before the scores have grown.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy.linalg import expm

from measureflow.fields import Rescaled, SoftmaxAttention
from measureflow.flows import Adaptive, evolve
from measureflow.measures import Particles
from measureflow.plotting import Curve, Figure, draw_curves, panels
from measureflow.spaces import Euclidean
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_least, at_most, equal

CLAIM = Claim(
    "If V has a simple real positive dominant eigenvalue and <Qφ_1,Kφ_1> >0, the first coordinate of the rescaled tokens "
    "takes at most three limits.",
    reference="geshkovski:23",
    where="theorem on good triples",
)

EIGENVALUES = np.array([1.0, 0.4, 0.2])
TIMES = np.linspace(0.0, 16.0, 81)
STARTS = 5
WIDTH = 1e-2
"""What counts as one value. The second coordinate blurs which token is first up to `e^{-0.6 t}`, here 1e-4 times its size."""


@eqx.filter_jit
def paths(A: jnp.ndarray, V: jnp.ndarray, tokens: jnp.ndarray, weights: jnp.ndarray) -> jnp.ndarray:
    """The rescaled tokens of several clouds at all times."""

    def path(A, V, cloud, heavy):
        mu = Particles(Euclidean(3), cloud, heavy)
        return evolve(Rescaled(SoftmaxAttention(A, V)), mu, TIMES, Adaptive(1e-8, 1e-10)).map(lambda mu: mu.points)

    return jax.lax.map(lambda start: path(*start), (A, V, tokens, weights))


@eqx.filter_jit
@jax.vmap
def pull(A: jnp.ndarray, V: jnp.ndarray, tokens: jnp.ndarray, weights: jnp.ndarray) -> jnp.ndarray:
    """How fast a token at the origin would move at some times, as a multiple of the fastest of a cloud."""
    mu, field = Particles(Euclidean(3), tokens, weights), Rescaled(SoftmaxAttention(A, V))
    speed = jax.vmap(lambda t: jnp.abs(field(t, jnp.concatenate([tokens, jnp.zeros((1, 3))]), mu)).max(1))
    each = speed(jnp.arange(5.0))
    return each[:, -1] / each.max(1)


@eqx.filter_jit
@jax.vmap
def velocities(A: jnp.ndarray, V: jnp.ndarray, tokens: jnp.ndarray, weights: jnp.ndarray) -> jnp.ndarray:
    """The velocities of rescaled tokens at time 1."""
    return Rescaled(SoftmaxAttention(A, V))(1.0, tokens, Particles(Euclidean(3), tokens, weights))


def written_out(A: np.ndarray, V: np.ndarray, z: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The same in NumPy: `z_i' = sum_j P_ij V (z_j - z_i)` with scores `<A e^V z_i, e^V z_j>`."""
    x = z @ expm(V).mT
    kernel = weights[:, None, :] * np.exp(x @ A.mT @ x.mT)
    return (kernel / kernel.sum(2, keepdims=True) @ z - z) @ V.mT


def bases(rng: np.random.Generator) -> np.ndarray:
    """Eigenvectors (columns) near the unit vectors, so that V is neither diagonal nor symmetric."""
    return np.eye(3) + 0.2 * rng.uniform(-1, 1, (STARTS, 3, 3))


def forms(rng: np.random.Generator) -> np.ndarray:
    """Matrices A that are not symmetric, with a positive symmetric part."""
    return np.eye(3) + 0.3 * rng.uniform(-1, 1, (STARTS, 3, 3))


def levels(firsts: np.ndarray) -> list[np.ndarray]:
    """Numbers in groups that no hop below the width connects."""
    firsts = np.sort(firsts)
    return np.split(firsts, np.flatnonzero(np.diff(firsts) > WIDTH) + 1)


def signs(groups: list[np.ndarray]) -> list[int]:
    """The signs of the levels of one cloud, with 0 for a level at 0."""
    return [int(np.sign(group.mean())) * int(abs(group.mean()) > WIDTH) for group in groups]


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Count the levels of the first coordinate from 5 random clouds and 5 of opposite pairs, with weights."""
    rng = np.random.default_rng(seed)
    S, A, half = bases(rng), forms(rng), rng.normal(size=(STARTS, 10, 3))
    dual = np.linalg.inv(S)
    V, weights = S @ np.diag(EIGENVALUES) @ dual, rng.uniform(0.5, 1.5, (STARTS, 20))
    clouds = np.concatenate([rng.normal(size=(STARTS, 20, 3)), np.concatenate([half, -half], axis=1)])
    heavy = np.concatenate([weights, np.tile(weights[:, :10], 2)])
    start = [jnp.asarray(part) for part in (np.tile(A, (2, 1, 1)), np.tile(V, (2, 1, 1)), clouds, heavy)]
    z = np.asarray(paths(*start)) @ np.swapaxes(np.tile(dual, (2, 1, 1)), 1, 2)[:, None]
    frame = np.asarray(velocities(*start)) - written_out(*map(np.asarray, start))
    plain = start[0], jnp.broadcast_to(jnp.eye(3), start[1].shape), *start[2:]
    spread = np.asarray(paths(*plain))[:, -1, :, 0]
    free, paired = ([levels(end) for end in part] for part in np.split(z[:, -1, :, 0], 2))
    opposite = [group[0].mean() + group[-1].mean() for group in paired]
    return CLAIM.judge(
        # One value of each sign and 0 are all there can be.
        at_most("values of one sign, 5 clouds", 1, [max(map(signs(groups).count, (-1, 0, 1))) for groups in free]),
        equal("values of the first coordinate, 5 clouds of opposite pairs", [2] * STARTS, [len(g) for g in paired], 0),
        equal("sum of the two values of opposite pairs", 0.0, np.abs(opposite).max(), WIDTH),
        at_most("widest group of one value", WIDTH, max(np.ptp(group) for g in (*free, *paired) for group in g)),
        # The frame in which all this is seen; exact but for rounding of scores near e^2 times the square of a token.
        equal("velocities at t = 1 against their formula", 0.0, np.abs(frame).max(), 1e-9),
        # The third value, exact but for rounding.
        equal(
            "pull on a token at 0 between opposite pairs", 0.0, float(pull(*(part[5:] for part in start)).max()), 1e-13
        ),
        # The count can fail: without a dominant direction about two clouds in three have four values or more.
        at_least("most values of a cloud when V is the identity", 4, max(len(levels(end)) for end in spread)),
        data=z[:STARTS, :, :, 0],
    )


def draw(paths: np.ndarray) -> Figure:
    """The first coordinates of three clouds over time."""
    figure, axes = panels(3, width=3.8, height=3.4)
    for ax, path in zip(axes, paths, strict=False):
        draw_curves(ax, [Curve("", TIMES, token) for token in path.T], "time t", "first coordinate")
    return figure

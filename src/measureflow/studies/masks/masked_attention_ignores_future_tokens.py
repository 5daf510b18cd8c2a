"""A masked token looks back only: its velocity is that of plain attention on the tokens up to its own."""

import jax
import jax.numpy as jnp
import numpy as np

from measureflow.fields import Causal, SoftmaxAttention
from measureflow.flows import evolve
from measureflow.measures import Particles, Sequence
from measureflow.plotting import Figure, draw_table, panels
from measureflow.spaces import Euclidean
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_least, equal

CLAIM = Claim(
    "Masked attention uses only earlier tokens, equals the measure form on [0,1]×R^d, and moves no position label.",
    reference="castin:25",
    where="slides on masked self-attention, part V of the talk",
)
N, PLANE = 6, Euclidean(2)


def measure_form(A: np.ndarray, V: np.ndarray, tokens: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """The velocity `∫ V y e^{<Ax, y>} 1_{r <= s} / ∫ e^{<Ax, y>} 1_{r <= s}` of each token, as integrals over all of them."""
    kernel = np.exp(tokens @ A.T @ tokens.T) * (positions[None] <= positions[:, None])
    return (kernel / kernel.sum(1, keepdims=True)) @ tokens @ V.T


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Look at one masked layer of six tokens at the positions i/6, and at a flow up to time 1."""
    rng = np.random.default_rng(seed)
    A, V = rng.normal(size=(2, 2, 2))
    tokens, attention = jnp.asarray(rng.normal(size=(N, 2))), SoftmaxAttention(A, V)
    sequence = Sequence(PLANE, tokens)

    def masked(xs):
        return Causal(attention)(0.0, xs, Sequence(PLANE, xs))

    @jax.jit
    def token_by_token(xs):
        """The velocity of each token by plain attention: on the tokens up to it, and on what is seen from its position."""
        prefixes = [attention(0.0, xs[i - 1 : i], Particles(PLANE, xs[:i]))[0] for i in range(1, N + 1)]
        places = zip(xs, sequence.positions, strict=True)
        return prefixes, [attention(0.0, x[None], sequence.seen_from(s))[0] for x, s in places]

    jacobian = np.asarray(jax.jit(jax.jacfwd(masked))(tokens)).transpose(0, 2, 1, 3)
    later = np.triu(np.ones((N, N), bool), 1)
    prefixes, seen = token_by_token(tokens)
    velocity = jax.jit(masked)(tokens)
    integrals = measure_form(A, V, np.asarray(tokens), np.asarray(sequence.positions))
    path = evolve(Causal(attention), sequence, np.linspace(0.0, 1.0, 3))
    last = path.final
    return CLAIM.judge(
        equal("Jacobian blocks of later tokens, largest entry", 0.0, np.abs(jacobian[later]).max(), 0.0),  # exact
        # Not zero: a weight below 1e-9 needs scores that are twenty apart.
        at_least(
            "Jacobian blocks of earlier tokens, smallest norm", 1e-9, np.linalg.norm(jacobian[later.T], axis=(1, 2))
        ),
        # The same sums in another order: rounding.
        equal("velocity against plain attention on x_1..x_i", prefixes, velocity, 1e-12),
        equal("velocity against attention on what is seen from s_i", seen, velocity, 1e-12),
        equal("velocity against the measure form on [0, 1] x R^2", integrals, velocity, 1e-12),
        equal("positions at time 1", sequence.positions, last.positions, 0.0),  # exact
        at_least("distance the tokens moved", 0.1, jnp.linalg.norm(last.points - tokens, axis=1).max()),
        data=np.linalg.norm(jacobian, axis=(2, 3)),
    )


def draw(blocks: np.ndarray) -> Figure:
    """How much the output of each token changes with each other one: not at all with later ones."""
    figure, (ax,) = panels(width=4.2, height=4.2)
    draw_table(ax, blocks, names=("token moved", "output of token"))
    return figure

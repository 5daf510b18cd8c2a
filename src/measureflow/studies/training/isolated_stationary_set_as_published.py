"""Rest points of raw heads are never isolated: the gauge group moves them along paths on which nothing changes."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import expm

from measureflow.energies import AbstractEnergy, GradientFlow
from measureflow.measures import Particles
from measureflow.spaces import Euclidean
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_least, at_most
from measureflow.training import Ridge, fixtures, rest_point

CLAIM = Claim(
    "As published (Theorem 6.6 (5)): the convergence to one point rests on a finite or totally disconnected stationary set, "
    "presented as attainable for heads.",
    reference="heads:26",
    where="theorem 6.6 (5)",
)
REASON = (
    "Turning queries against keys leaves the features alone, so a stationary head of the raw model lies on a path of "
    "stationary heads; with weight decay rotations still do it. The set is totally disconnected only on the quotient."
)
SHARES = np.linspace(0.0, 1.0, 21)


def path_of(theta: jnp.ndarray, A: np.ndarray) -> jnp.ndarray:
    """The head turned by `(W_Q e^{sA}, W_K e^{-sA^T})` for s from 0 to 1."""
    heads = fixtures.f1().heads
    blocks = heads.unfold(theta)

    def turned(s):
        moved = {"query": blocks["query"] @ expm(s * A), "key": blocks["key"] @ expm(-s * A.T)}
        return heads.fold({**blocks, **moved})

    return jax.jit(jax.vmap(turned))(jnp.asarray(SHARES))


@eqx.filter_jit
def slopes(energy: AbstractEnergy, thetas: jnp.ndarray):
    """The size of the gradient at each head, as a measure of its own."""
    return jax.vmap(lambda x: jnp.abs(GradientFlow(energy)(0.0, x[None], Particles(Euclidean(24), x[None]))).max())(
        thetas
    )


def run(size: Size = SMALL) -> Verdict:
    """A raw head without output, turned by any matrix, and the best head with decay 0.05, turned by a rotation."""
    rng = np.random.default_rng(0)
    raw, ridged = fixtures.f1(), fixtures.f1() + Ridge(0.05)
    dead = jnp.asarray(rng.standard_normal(24)).at[12:].set(0.0)
    best = rest_point(ridged, jnp.asarray(0.5 * rng.standard_normal(24)))
    paths = path_of(dead, rng.standard_normal((2, 2))), path_of(best, np.array([[0.0, 1.0], [-1.0, 0.0]]))
    lengths = [float(np.linalg.norm(np.diff(np.asarray(p), axis=0), axis=1).sum()) for p in paths]
    largest = [float(slopes(e, p).max()) for e, p in zip((raw, ridged), paths, strict=True)]
    return CLAIM.judge(
        # Were the set totally disconnected, a path in it would have no length.
        at_most("length of a path of stationary heads, raw", 1e-8, lengths[0]),
        instead=(
            at_most("gradient along the paths, raw and with decay", 1e-8, largest),
            at_least("lengths of the paths", 0.1, lengths),
        ),
        reason=REASON,
    )

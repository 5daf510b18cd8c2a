"""Rest points of raw heads are never isolated: the gauge group moves them along paths on which nothing changes.

Live heads show it: a raw head that is its own teacher, whose risk feels every change of the features, and the best head under
weight decay. If queries turn and keys do not, both leave their rest.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import expm

from measureflow.energies import AbstractEnergy, GradientFlow
from measureflow.measures import Particles
from measureflow.plotting import Curve, Figure, draw_allowed, draw_curves, panels
from measureflow.spaces import Euclidean
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_least, at_most
from measureflow.theory import heads as theory
from measureflow.training import HeadRisk, Ridge, fixtures
from measureflow.training.perturbation import rest_point

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


def taught(theta: jnp.ndarray) -> HeadRisk:
    """The data of F1 with the predictions of a head as labels: for this risk the head is stationary."""
    risk = fixtures.f1()
    logits = jax.jit(jax.vmap(lambda x: theory.features(x, **risk.heads.unfold(theta), unembedding=risk.unembedding)))
    return HeadRisk(risk.tokens, jax.nn.softmax(logits(risk.tokens)), risk.unembedding, risk.heads)


@eqx.filter_jit
def path_of(theta: jnp.ndarray, A: jnp.ndarray, turn_keys: bool = True) -> jnp.ndarray:
    """The head turned by `(W_Q e^{sA}, W_K e^{-sA^T})` for s from 0 to 1, or its queries alone."""
    heads = fixtures.f1().heads
    blocks = heads.unfold(theta)

    def turned(s):
        key = blocks["key"] @ expm(-s * A.T) if turn_keys else blocks["key"]
        return heads.fold({**blocks, "query": blocks["query"] @ expm(s * A), "key": key})

    return jax.vmap(turned)(jnp.asarray(SHARES))


@eqx.filter_jit
def slopes(energy: AbstractEnergy, thetas: jnp.ndarray):
    """The size of the gradient at each head, as a measure of its own."""
    return jax.vmap(lambda x: jnp.abs(GradientFlow(energy)(0.0, x[None], Particles(Euclidean(24), x[None]))).max())(
        thetas
    )


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """A raw head that is its own teacher, turned by any matrix, and the best head with decay 0.05, turned by a rotation."""
    rng = np.random.default_rng(seed)
    teacher = jnp.asarray(rng.standard_normal(24))
    energies = taught(teacher), fixtures.f1() + Ridge(0.05)
    heads = teacher, rest_point(energies[1], jnp.asarray(0.5 * rng.standard_normal(24)))
    turns = jnp.asarray(rng.standard_normal((2, 2))), jnp.array([[0.0, 1.0], [-1.0, 0.0]])
    paths = [path_of(theta, A) for theta, A in zip(heads, turns, strict=True)]
    wrong = [path_of(theta, A, turn_keys=False) for theta, A in zip(heads, turns, strict=True)]
    lengths = [float(np.linalg.norm(np.diff(np.asarray(p), axis=0), axis=1).sum()) for p in paths]
    along, beside = ([np.asarray(slopes(e, p)) for e, p in zip(energies, ways, strict=True)] for ways in (paths, wrong))
    largest, astray = ([float(each.max()) for each in ways] for ways in (along, beside))
    return CLAIM.judge(
        # Were the set totally disconnected, a path in it would have no length.
        at_most("length of a path of stationary heads, raw", 1e-8, lengths[0]),
        instead=(
            at_most("gradient along the paths, raw and with decay", 1e-8, largest),
            at_least("lengths of the paths", 0.1, lengths),
            # The gradient sees what heads compute: here it is of the size of the heads themselves.
            at_least("gradient where queries turn alone", 1e-3, astray),
        ),
        reason=REASON,
        data=list(zip(along, beside, strict=True)),
    )


def draw(data: list[tuple[np.ndarray, np.ndarray]]) -> Figure:
    """The gradient along the paths of heads: zero where queries and keys turn together, and not where queries turn alone."""
    figure, axes = panels(2)
    for ax, title, (together, alone) in zip(axes, ("raw head", "with weight decay"), data, strict=True):
        curves = [
            Curve("queries and keys turn", SHARES, np.maximum(together, 1e-18)),
            Curve("queries alone", SHARES[1:], alone[1:]),
        ]
        draw_curves(ax, curves, "share of the turn", "size of the gradient", log="y", title=title)
        ax.set_ylim(1e-19, 1e2)
        draw_allowed(ax, 1e-19, 1e-8)
    return figure

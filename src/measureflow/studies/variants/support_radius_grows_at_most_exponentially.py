"""Normalised attention is an average of values, so tokens cannot leave a ball that grows with the norm of `V` alone."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from measureflow.fields import (
    AbstractField,
    Causal,
    L2Attention,
    MultiHead,
    Scaled,
    SinkhornAttention,
    SoftmaxAttention,
    Sum,
    Varying,
)
from measureflow.flows import evolve
from measureflow.measures import Particles, Sequence
from measureflow.plotting import Curve, Figure, draw_curves, draw_paths, panels
from measureflow.spaces import Euclidean
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_most
from measureflow.theory import bounds

CLAIM = Claim(
    "Estimate 1 (the attention output is at most ‖V‖R at every query) and hence the support stays in the ball of radius "
    "R_0·exp(∫‖V‖), for softmax, L2, Sinkhorn, masked and multi-head attention.",
    reference="castin:25",
    where="estimate 1 and well-posedness, part II of the talk",
)
KINDS = ("softmax", "L2", "Sinkhorn", "masked", "multi-head")
TIMES = np.linspace(0.0, 2.0, 41)


class Weights(NamedTuple):
    """Matrices for every kind of attention: interaction, query, key and value, and those of three heads of size one."""

    A: Float[Array, "... d d"]
    Q: Float[Array, "... d d"]
    K: Float[Array, "... d d"]
    V: Float[Array, "... d d"]
    A_h: Float[Array, "... 3 d d"]
    V_h: Float[Array, "... 3 1 d"]
    W_h: Float[Array, "... 3 d 1"]

    @staticmethod
    def random(rng: np.random.Generator, d: int, *batch: int) -> "Weights":
        """Independent normal entries."""
        shapes = [(d, d)] * 4 + [(3, d, d), (3, 1, d), (3, d, 1)]
        return Weights(*(jnp.asarray(rng.normal(size=(*batch, *shape))) for shape in shapes))

    def fields(self) -> list[AbstractField]:
        """One field of each kind."""
        heads = [SoftmaxAttention(*pair) for pair in zip(self.A_h, self.V_h, strict=True)]
        softmax = SoftmaxAttention(self.A, self.V)
        sinkhorn = SinkhornAttention(self.A, self.V, sweeps=100)  # the bound does not wait for convergence
        return [softmax, L2Attention(self.Q, self.K, self.V), sinkhorn, Causal(softmax), MultiHead(heads, self.W_h)]

    def norms(self) -> np.ndarray:
        """The norm that bounds each kind: of the value, and for several heads the sum of `‖W_h V_h‖`."""
        value = np.linalg.norm(self.V, 2, axis=(-2, -1))
        heads = np.linalg.norm(np.asarray(self.W_h @ self.V_h), 2, axis=(-2, -1)).sum(-1)
        return np.stack([value, value, value, value, heads], -1)


@eqx.filter_jit
@jax.vmap
def outputs(weights: Weights, tokens: Float[Array, "n d"], queries: Float[Array, "m d"], position) -> Array:
    """The largest output of each kind at some queries; with a mask they see the tokens up to a position."""
    softmax, l2, sinkhorn, _, several = weights.fields()
    mu = Sequence(Euclidean(3), tokens)
    seen = [(softmax, mu), (l2, mu), (sinkhorn, mu), (softmax, mu.seen_from(position)), (several, mu)]
    vs = [field(0.0, queries, measure) for field, measure in seen]
    return jnp.linalg.norm(jnp.stack(vs), axis=2).max(1)


@eqx.filter_jit
@eqx.filter_vmap(in_axes=(None, None, 0))
def tokens_over_time(weights: Weights, mu0: Particles, chosen: Float[Array, " kinds"]) -> Float[Array, "times n d"]:
    """Tokens over time under `V(t) = cos(t) V_0`, for the kind with the entry one of a unit vector."""

    def at(t):  # attention is linear in its values
        return Sum(tuple(Scaled(f, jnp.cos(t) * c) for f, c in zip(weights.fields(), chosen, strict=True)))

    measures = evolve(Varying(at), mu0, TIMES).measures
    return measures.points


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Look at outputs on 300 random clouds with queries up to 10 times their radius, then follow a flow of each kind."""
    rng = np.random.default_rng(seed)
    weights, flow_weights = Weights.random(rng, 3, 300), Weights.random(rng, 2)
    tokens = rng.normal(size=(300, 12, 3)) * rng.uniform(size=(300, 1, 1))
    R = np.linalg.norm(tokens, axis=2).max(1)
    directions = rng.normal(size=tokens.shape)
    distances = R[:, None, None] * np.linspace(0, 10, 12)[None, :, None]
    queries = distances * directions / np.linalg.norm(directions, axis=2, keepdims=True)
    out = np.asarray(outputs(weights, jnp.asarray(tokens), jnp.asarray(queries), rng.uniform(1 / 12, 1, 300)))

    start = Particles.iid(Euclidean(2), 20, key=seed + 1)
    paths = np.asarray(tokens_over_time(flow_weights, start, jnp.eye(len(KINDS))))
    radius = np.linalg.norm(paths, axis=3).max(2)
    exposure = flow_weights.norms()[:, None] * np.where(np.pi / 2 > TIMES, np.sin(TIMES), 2 - np.sin(TIMES))  # ∫|cos|
    # After the start, where both are equal.
    allowed = np.asarray(bounds.support_radius(exposure, radius[:, :1]))
    grown = (radius / allowed)[:, 1:]
    slack = 1e-9  # allowed by the catalogue for rounding and the solver
    output_ratios = dict(zip(KINDS, (out / bounds.output(weights.norms(), R[:, None])).max(0), strict=True))
    radius_ratios = dict(zip(KINDS, grown.max(1), strict=True))
    return CLAIM.judge(
        *(at_most(f"largest output over ‖V‖R, {kind}", 1.0, ratio, slack) for kind, ratio in output_ratios.items()),
        *(
            at_most(f"largest radius over its bound, {kind}", 1.0, ratio, slack)
            for kind, ratio in radius_ratios.items()
        ),
        data=dict(zip(KINDS, zip(paths, allowed, strict=True), strict=True)),
    )


def draw(found: dict[str, tuple[np.ndarray, np.ndarray]]) -> Figure:
    """The same tokens under each kind of attention, and their radius below its bound."""
    figure, axes = panels(len(KINDS), 2, width=3.2, height=3.0)
    for above, below, (kind, (paths, bound)) in zip(axes, axes[len(KINDS) :], found.items(), strict=False):
        draw_paths(above, paths, title=kind)
        radius = np.linalg.norm(paths, axis=2).max(1)
        draw_curves(below, [Curve("radius", TIMES, radius, bound)], "time t", "radius", log="y", law="bound")
    return figure

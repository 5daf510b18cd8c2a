"""Features of attention heads and two of their derivatives are bounded on bounded sets, whatever the length of a sequence.

Row softmax differentiates into cumulants of the tokens under attention: scores of size `s = B_x^2 B / sqrt(d_k)` turn a value
of size `v` into at most `s v` at first order, by covariance, and into at most `2 s^2 v` at second, by the third cumulant. With
the product rule this bounds each block of the second derivative, in pairs of the four matrices; the norm of the 4 x 4 matrix of
these bounds is one of the whole. The proof of theorem 5.2 uses it.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from measureflow.plotting import Curve, Figure, draw_curves, panels
from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_most, equal
from measureflow.theory import heads as oracle
from measureflow.training import FullHeads

CLAIM = Claim(
    "Proposition 3.4: features and derivatives are bounded on bounded sets; the bounds can be chosen without the sequence "
    "length.",
    reference="heads:26",
    where="proposition 3.4, remark 3.5; two derivatives, as the proof of theorem 5.2 uses them",
)
LENGTHS = (2, 8, 64)
NORMS = (0.5, 1.0, 2.0)
"""Operator norms of the four matrices."""
TOKEN = 2.0
HEADS = FullHeads(3, 2, 2)
NAMES = "feature", "first derivative", "second derivative"


def hessian_bound(token: float, block: float, unembedding: float, key_dim: int) -> float:
    """A bound of the second derivative of features in a head, as a bilinear form; free of the length."""
    x, B, e, root = token, block, unembedding, key_dim**0.5
    score, value = x**2 * B / root, x * B**2 * e
    twice, mixed = 2 * score**2 * value, score * x * B * e
    same = twice + x**2 / root * value
    blocks = [
        [twice, same, mixed, mixed],
        [same, twice, mixed, mixed],
        [mixed, mixed, 0, x * e],
        [mixed, mixed, x * e, 0],
    ]
    return float(np.linalg.norm(blocks, 2))


def drawn_heads(rng: np.random.Generator, count: int) -> jnp.ndarray:
    """Heads whose four matrices have operator norm one, which is where the bounds are tight."""
    blocks = {name: rng.normal(size=(count, *shape)) for name, shape in HEADS.shapes.items()}
    unit = {name: block / np.linalg.norm(block, 2, axis=(1, 2), keepdims=True) for name, block in blocks.items()}
    return jnp.concatenate([jnp.asarray(block).reshape(count, -1) for block in unit.values()], axis=1)


@eqx.filter_jit
def largest(thetas: Float[Array, "n D"], x: Float[Array, "T d"], W: Float[Array, "d V"]) -> Float[Array, " 3"]:
    """The largest norms of features and of two derivatives, over heads and positions; the second along its worst output."""

    def one(theta):
        features = lambda theta: HEADS.mix(theta, x) @ W  # noqa: E731
        slopes = jax.jacfwd(features)(theta)
        bends = jax.jacfwd(jax.jacfwd(features))(theta)
        sizes = jnp.linalg.norm(features(theta), axis=-1), jnp.linalg.norm(slopes, ord=2, axis=(-2, -1))
        return jnp.stack([size.max() for size in (*sizes, strongest(bends))])

    return jax.lax.map(one, thetas).max(0)


def strongest(bends: Float[Array, "T V D D"]) -> Float[Array, " T"]:
    """The largest `|H[u, w]|` over unit directions found by turns: the best output, then the best directions for it."""
    output = jnp.ones(bends.shape[:2], bends.dtype)
    for _ in range(4):
        values, vectors = jnp.linalg.eigh(
            jnp.einsum("tv,tvij->tij", output / jnp.linalg.norm(output, axis=-1)[:, None], bends)
        )
        top = jnp.take_along_axis(vectors, jnp.abs(values).argmax(-1)[:, None, None], axis=-1)[..., 0]
        output = jnp.einsum("tvij,ti,tj->tv", bends, top, top)
    return jnp.linalg.norm(output, axis=-1)


def aligned(W: np.ndarray) -> tuple[jnp.ndarray, jnp.ndarray]:
    """A head and a token that reach the bound of features: values and outputs turn the token to the strongest logits."""
    far = np.linalg.svd(W)[0][:, 0]
    value, output = np.outer(far, [1.0, 0.0]), np.outer([1.0, 0.0], far)
    return HEADS.fold({"value": jnp.asarray(value), "output": jnp.asarray(output)}), jnp.asarray(TOKEN * far[None])


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Random heads of three sizes and sequences of norm up to two: the largest feature and derivatives against their bounds."""
    rng = np.random.default_rng(seed)
    thetas, W = drawn_heads(rng, size.pick(30, 300)), rng.normal(size=(3, 4))
    norm, ratios = float(np.linalg.norm(W, 2)), np.zeros((3, len(NORMS), len(LENGTHS)))
    for j, T in enumerate(LENGTHS):
        x = rng.normal(size=(T, 3))
        x *= TOKEN / np.linalg.norm(x, axis=1).max()
        for i, B in enumerate(NORMS):
            found = largest(B * thetas, jnp.asarray(x), jnp.asarray(W))
            bounds = [oracle.feature_bound(TOKEN, B, norm), oracle.jacobian_bound(TOKEN, B, norm, HEADS.key_dim)]
            ratios[:, i, j] = np.asarray(found) / np.array(
                [*map(float, bounds), hessian_bound(TOKEN, B, norm, HEADS.key_dim)]
            )
    theta, token = aligned(W)
    reached = float(jnp.linalg.norm(HEADS.mix(theta, token) @ jnp.asarray(W)))
    return CLAIM.judge(
        # Inequalities, so no slack.
        *(at_most(f"largest {name} over its bound, norms 0.5, 1, 2 and T = 2, 8, 64", np.ones((3, 3)), ratio)
          for name, ratio in zip(NAMES, ratios, strict=True)),
        # Rounding: the bound of features is reached.
        equal("feature of an aligned head over its bound", 1.0, reached / (TOKEN * norm), 1e-12),
        data=ratios,
    )  # fmt: skip


def draw(ratios: np.ndarray) -> Figure:
    """The largest feature and derivatives over their bounds, against the length."""
    figure, axes = panels(3, width=4.4)
    for ax, name, ratio in zip(axes, NAMES, ratios, strict=True):
        curves = [Curve(f"norms {B:g}", LENGTHS, one, np.ones(3)) for B, one in zip(NORMS, ratio, strict=True)]
        draw_curves(ax, curves, "length T", f"largest {name} over its bound", log="xy", law="bound")
        ax.set_ylim(1e-3, 2)
    return figure

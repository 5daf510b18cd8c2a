"""Features of attention heads and their derivatives are bounded on bounded sets, whatever the length of a sequence."""

import jax
import jax.numpy as jnp
import numpy as np

from measureflow.studies.base import SMALL, Claim, Size, Verdict, at_most
from measureflow.theory import heads as oracle
from measureflow.training import FullHeads

CLAIM = Claim(
    "Proposition 3.4: features and derivatives are bounded on bounded sets; the bounds can be chosen without the sequence "
    "length.",
    reference="heads:26",
    where="proposition 3.4, remark 3.5",
)
LENGTHS = (2, 8, 64)
HEADS = FullHeads(3, 2, 2)


def drawn_heads(rng: np.random.Generator, count: int) -> jnp.ndarray:
    """Heads whose four matrices have operator norm one, which is where the bounds are tight."""
    blocks = {name: rng.normal(size=(count, *shape)) for name, shape in HEADS.shapes.items()}
    unit = {name: block / np.linalg.norm(block, 2, axis=(1, 2), keepdims=True) for name, block in blocks.items()}
    return jnp.concatenate([jnp.asarray(block).reshape(count, -1) for block in unit.values()], axis=1)


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Random heads and sequences of norm up to two: the largest feature and derivative against their bounds."""
    rng = np.random.default_rng(seed)
    thetas = drawn_heads(rng, size.pick(100, 500))
    W = rng.normal(size=(3, 4))
    ratios = []
    for T in LENGTHS:
        x = rng.normal(size=(T, 3))
        x *= 2 / np.linalg.norm(x, axis=1).max()
        features = jax.jit(jax.vmap(lambda theta, x=x: HEADS.mix(theta, jnp.asarray(x)) @ W))
        slopes = jax.jit(jax.vmap(jax.jacfwd(lambda theta, x=x: HEADS.mix(theta, jnp.asarray(x)) @ W)))
        sizes = np.linalg.norm(features(thetas), axis=-1).max(), np.linalg.norm(slopes(thetas), 2, axis=(-2, -1)).max()
        norm = np.linalg.norm(W, 2)
        limits = oracle.feature_bound(2.0, 1.0, norm), oracle.jacobian_bound(2.0, 1.0, norm, HEADS.key_dim)
        ratios.append([float(a / b) for a, b in zip(sizes, limits, strict=True)])
    features, slopes = np.array(ratios).T
    return CLAIM.judge(
        # Inequalities, so no slack.
        at_most("largest feature over its bound, T = 2, 8, 64", np.ones(3), features),
        at_most("largest derivative over its bound, T = 2, 8, 64", np.ones(3), slopes),
    )

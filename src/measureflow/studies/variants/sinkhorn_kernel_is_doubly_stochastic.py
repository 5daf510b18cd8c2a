"""Dividing a kernel by its row means and its column means in turn makes both equal to one."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from measureflow.fields import SinkhornAttention, SoftmaxAttention
from measureflow.measures import Particles
from measureflow.plotting import Figure, draw_table, panels
from measureflow.spaces import Euclidean
from measureflow.studies.base import SMALL, Claim, Size, Verdict, equal

CLAIM = Claim(
    "The alternating normalisation converges to a kernel with both marginals one, and its first half step is softmax "
    "attention.",
    reference="castin:25",
    where="slide on Sinkhorn attention, part II of the talk",
)
SWEEPS = 500


@eqx.filter_jit
@jax.vmap
def kernels(A: Float[Array, "d d"], V: Float[Array, "d d"], tokens: Float[Array, "n d"]) -> dict[str, Array]:
    """The kernel after all sweeps, after none but the first half, and the two velocities that should then agree."""
    mu = Particles(Euclidean(2), tokens)

    def kernel(attention: SinkhornAttention) -> Float[Array, "n n"]:
        f, g, *_ = attention.potentials(mu)
        return jnp.exp(tokens @ A.T @ tokens.T + f[:, None] + g[None, :])

    half = SinkhornAttention(A, V, sweeps=0)
    return {
        "limit": kernel(SinkhornAttention(A, V, tolerance=1e-13, sweeps=SWEEPS)),
        "half step": kernel(half),
        "half velocity": half(0.0, tokens, mu),
        "softmax velocity": SoftmaxAttention(A, V)(0.0, tokens, mu),
    }


def alternated(A: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """The kernels of many clouds divided by row and column means in turn, as the paper writes it."""
    k = np.exp(tokens @ A.mT @ tokens.mT)
    for _ in range(SWEEPS):
        k /= k.mean(2, keepdims=True)
        k /= k.mean(1, keepdims=True)
    return k


def run(size: Size = SMALL, seed: int = 0) -> Verdict:
    """Normalise the kernels of 20 clouds of 10 tokens."""
    rng = np.random.default_rng(seed)
    A, V = rng.normal(size=(2, 20, 2, 2)) / np.sqrt(2)
    tokens = rng.normal(size=(20, 10, 2))
    found = {name: np.asarray(k) for name, k in kernels(*map(jnp.asarray, (A, V, tokens))).items()}
    limit, half = found["limit"], found["half step"]
    raw = np.exp(tokens @ A.mT @ tokens.mT)
    return CLAIM.judge(
        # Convergence is linear, and 500 sweeps leave less than this for scores of this size.
        equal("row means - 1", 0.0, np.abs(limit.mean(2) - 1).max(), 1e-10),
        equal("column means - 1", 0.0, np.abs(limit.mean(1) - 1).max(), 1e-10),
        equal("kernel - alternating normalisation", 0.0, (np.abs(limit - alternated(A, tokens)) / limit).max(), 1e-10),
        # The same numbers by other roads, so rounding is all that is left.
        equal("first half step / softmax - 1", 0.0, np.abs(half * raw.mean(2, keepdims=True) / raw - 1).max(), 1e-14),
        equal(
            "velocity - softmax velocity", 0.0, np.abs(found["half velocity"] - found["softmax velocity"]).max(), 1e-14
        ),
        data={"exponentials of scores": raw[0], "softmax": half[0], "Sinkhorn": limit[0]},
    )


def draw(kernels: dict[str, np.ndarray]) -> Figure:
    """The kernel of one cloud before, after the first half step and after all: rows, then rows and columns sum to one."""
    figure, axes = panels(3, width=3.4, height=3.6)
    for ax, (name, kernel) in zip(axes, kernels.items(), strict=True):
        draw_table(ax, kernel / kernel.sum(1).max(), name, names=("token seen", "token"))
    return figure

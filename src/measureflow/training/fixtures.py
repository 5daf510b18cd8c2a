"""Small deterministic data sets on which the theory of heads has reference values.

`F1` has full heads of 24 parameters; `F2` trains a merged score matrix with frozen output. Tokens are sines and labels
residues, so that anyone can rebuild them.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from measureflow.precision import keep_all
from measureflow.training.attention import HeadRisk
from measureflow.training.heads import AbstractHeads, FullHeads, ScoreHeads


def f1(reduction="sum") -> HeadRisk:
    """Six sequences of four tokens in three dimensions, four words, full heads with `d_k = d_v = 2`."""
    return _sines(6, 4, 3, 4, FullHeads(3, 2, 2), reduction)


def f2(scale: float = 1.0, reduction="sum") -> HeadRisk:
    """Eight sequences of four tokens in the plane, three words, merged scores and output `scale I`."""
    return _sines(8, 4, 2, 3, ScoreHeads(scale * jnp.eye(2)), reduction)


def f1_heads(count: int) -> Float[Array, "n 24"]:
    """The heads `theta^(i)_n = 0.4 sin(0.3 + 0.9 n + 1.9 i)`."""
    i, n = np.arange(count)[:, None], np.arange(24)[None, :]
    return jnp.asarray(0.4 * np.sin(0.3 + 0.9 * n + 1.9 * i))


def _sines(S: int, T: int, d: int, V: int, heads: AbstractHeads, reduction) -> HeadRisk:
    s, t, j = np.meshgrid(np.arange(S), np.arange(T), np.arange(d), indexing="ij")
    tokens = np.sin(1 + 0.7 * s + 1.3 * t + 2.1 * j + 0.5 * s * t * (j + 1))
    s, t = s[:, :, 0], t[:, :, 0]
    a, v = np.meshgrid(np.arange(d), np.arange(V), indexing="ij")
    labels = (3 * s + 5 * t + s * t) % V
    return HeadRisk(tokens, labels, np.cos(0.5 + 1.1 * a + 1.7 * v), heads, reduction=reduction)


keep_all(globals())

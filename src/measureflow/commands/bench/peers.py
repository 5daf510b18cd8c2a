"""One training step of many heads, ours and as one would write it in PyTorch: what benchmarks set side by side.

Both do the same work: forward, cross-entropy, gradient of every head and the update.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from measureflow import training
from measureflow.measures import Particles

LENGTH = 32
"""The number of positions of a sequence."""

DIM = 16
"""The number of coordinates of a token."""

VOCABULARY = 64
"""The number of different tokens."""

WIDTH = 4
"""The number of coordinates of keys and values."""

STEP = 1e-3
"""The length of a step."""


def _data(sequences: int, dtype: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    tokens = rng.standard_normal((sequences, LENGTH, DIM)).astype(dtype)
    labels = rng.integers(0, VOCABULARY, (sequences, LENGTH))
    return tokens, labels, rng.standard_normal((DIM, VOCABULARY)).astype(dtype)


def _points(heads: int, dtype: str) -> np.ndarray:
    return (0.1 * np.random.default_rng(1).standard_normal((heads, 4 * DIM * WIDTH))).astype(dtype)


def ours(heads: int, sequences: int, dtype: str) -> Callable[[], jax.Array]:
    """A step of our own each time it is called, which gives all heads after it."""
    tokens, labels, unembedding = _data(sequences, dtype)
    risk = training.HeadRisk(tokens, labels, unembedding, training.FullHeads(DIM, WIDTH, WIDTH))
    field = training.Descent(risk)
    mu = Particles(risk.heads.space, _points(heads, dtype))

    @eqx.filter_jit
    def step(field, mu):
        return eqx.tree_at(lambda m: m.points, mu, mu.points + jnp.asarray(STEP, dtype) * field(0.0, mu.points, mu))

    def run() -> jax.Array:
        nonlocal mu
        mu = step(field, mu)
        return mu.points

    return run


def in_torch(heads: int, sequences: int, dtype: str) -> Callable[[], Any]:
    """A step of the same model in PyTorch each time it is called, on the same kind of device."""
    import torch  # pyright: ignore[reportMissingImports]

    device = "cuda" if jax.default_backend() == "gpu" else "cpu"
    x, y, unembedding = (torch.tensor(array, device=device) for array in _data(sequences, dtype))
    theta = torch.tensor(_points(heads, dtype), device=device, requires_grad=True)
    mask = torch.full((LENGTH, LENGTH), float("-inf"), dtype=x.dtype, device=device).triu(1)
    size = DIM * WIDTH

    def run():
        q, k, v = (theta[:, i * size : (i + 1) * size].reshape(heads, 1, DIM, WIDTH) for i in range(3))
        o = theta[:, 3 * size :].reshape(heads, 1, WIDTH, DIM)
        scores = (x @ q) @ (x @ k).transpose(-1, -2) / WIDTH**0.5 + mask
        logits = (scores.softmax(-1) @ (x @ v) @ o).mean(0) @ unembedding
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, VOCABULARY), y.reshape(-1), reduction="sum")
        (gradient,) = torch.autograd.grad(loss / sequences, theta)
        with torch.no_grad():
            theta.sub_(2 * STEP * heads * gradient)
        if device == "cuda":
            torch.cuda.synchronize()
        return theta.detach()

    return run

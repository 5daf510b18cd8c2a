"""Kernel sums side by side: every engine and every installed peer in one interleaved run.

The work is one evaluation of the attention map of `n` tokens on the unit sphere with scores `beta <x, y>`. Peers are what a
user would write or install instead; those that are not installed are named and skipped. Times are medians of interleaved
runs, so that whatever else the machine does hits all alike, and the ratios are what counts.
"""

import importlib.util
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from measureflow.sums import Blockwise, Dense, Native, Pallas, native, pallas

MOST_PAIRS = 2**28
"""Candidates that hold all pairs are left out above this many."""


def compare(ns: list[int], dim: int, beta: float, dtype: str, repeats: int) -> Iterator[dict[str, Any]]:
    """The rows of the table, size by size: engine or peer, median seconds, ratio to the fastest, error."""
    for n in ns:
        points = _tokens(n, dim).astype(dtype)
        truth, sample = _truth(points, beta)
        ready = dict(_candidates(points, beta))
        times: dict[str, list[float]] = {name: [] for name in ready}
        errors = {name: float(np.abs(run()[sample] - truth).max()) for name, run in ready.items()}
        for _ in range(repeats):
            for name, run in ready.items():
                begun = time.perf_counter()
                run(False)
                times[name].append(time.perf_counter() - begun)
        medians = {name: statistics.median(values) for name, values in times.items()}
        best = min(medians.values())
        for name, seconds in sorted(medians.items(), key=lambda item: item[1]):
            yield {
                "n": n,
                "dim": dim,
                "beta": beta,
                "dtype": dtype,
                "name": name,
                "seconds": seconds,
                "ratio": seconds / best,
                "pairs_per_second": n * n / seconds,
                "error": errors[name],
            }


def missing() -> list[str]:
    """The engines and peers that cannot run here."""
    engines = [name for name, there in (("native", native.available()), ("pallas", pallas.available())) if not there]
    return engines + [name for name in ("torch", "pykeops") if importlib.util.find_spec(name) is None]


def _tokens(n: int, dim: int) -> np.ndarray:
    points = np.random.default_rng(0).normal(size=(n, dim))
    return points / np.linalg.norm(points, axis=1, keepdims=True)


def _truth(points: np.ndarray, beta: float) -> tuple[np.ndarray, np.ndarray]:
    """The attention map in float64 for a sample of tokens."""
    sample = np.linspace(0, len(points) - 1, min(len(points), 64)).astype(int)
    exact = points.astype(np.float64)
    kernel = np.exp(beta * (exact[sample] @ exact.T - 1))
    return kernel @ exact / kernel.sum(1, keepdims=True), sample


def _candidates(points: np.ndarray, beta: float) -> Iterator[tuple[str, Callable[..., Any]]]:
    n = len(points)
    y = jnp.asarray(points)
    a, w = jnp.asarray(beta, y.dtype) * y, jnp.full(n, -np.log(n), y.dtype)
    engines: list[Any] = [Blockwise(), *([Native()] if native.available() else [])]
    engines += [Pallas()] if pallas.available() else []
    if n * n <= MOST_PAIRS:
        engines.append(Dense())
        yield "jax naive", _jax(lambda a, y, w: jax.nn.softmax(a @ y.T, axis=1) @ y, a, y, w)
        yield "jax.nn attention", _jax(_jax_attention, a, y, w)
        yield "numpy naive", _numpy(beta, points)
    for engine in engines:
        yield type(engine).__name__.lower(), _jax(lambda a, y, w, engine=engine: engine.attend(a, y, w).mean, a, y, w)
    if importlib.util.find_spec("torch") is not None:
        yield "torch SDPA", _torch(beta, points)
    if importlib.util.find_spec("pykeops") is not None:
        yield "pykeops", _keops(beta, points)


def _jax(f: Callable[..., Any], *arrays: jax.Array) -> Callable[..., Any]:
    compiled = jax.jit(f)

    def run(keep: bool = True) -> np.ndarray | None:
        done = compiled(*arrays).block_until_ready()
        return np.asarray(done) if keep else None

    return run


def _jax_attention(a: jax.Array, y: jax.Array, w: jax.Array) -> jax.Array:
    heads = [x[None, :, None, :] for x in (a, y, y)]
    return jax.nn.dot_product_attention(*heads, scale=1.0)[0, :, 0]


def _numpy(beta: float, points: np.ndarray) -> Callable[..., Any]:
    def run(keep: bool = True) -> np.ndarray:
        scores = beta * (points @ points.T)
        kernel = np.exp(scores - scores.max(1, keepdims=True))
        return kernel @ points / kernel.sum(1, keepdims=True)

    return run


def _torch(beta: float, points: np.ndarray) -> Callable[..., Any]:
    import torch  # pyright: ignore[reportMissingImports]

    device = "cuda" if jax.default_backend() == "gpu" else "cpu"
    x = torch.tensor(points, device=device)[None, None]
    q = beta * x

    def run(keep: bool = True) -> np.ndarray | None:
        with torch.no_grad():
            done = torch.nn.functional.scaled_dot_product_attention(q, x, x, scale=1.0)
        if device == "cuda":
            torch.cuda.synchronize()
        return done[0, 0].cpu().numpy() if keep else None

    return run


def _keops(beta: float, points: np.ndarray) -> Callable[..., Any]:
    from pykeops.numpy import LazyTensor  # pyright: ignore[reportMissingImports]

    def run(keep: bool = True) -> np.ndarray:
        x_i, y_j = LazyTensor(beta * points[:, None, :]), LazyTensor(points[None, :, :])
        return (x_i | y_j).sumsoftmaxweight(y_j, axis=1)

    return run

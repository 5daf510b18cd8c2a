"""Kernel sums side by side: every engine and every installed peer in one interleaved run.

The work is one evaluation of the attention map of `n` tokens on the unit sphere with scores `beta <x, y>`. Peers are what a
user would write or install instead; those that are not installed are named and skipped. Times are medians of interleaved
runs, so that whatever else the machine does hits all alike, and the ratios are what counts. Memory is the growth of the
process during one run.
"""

import functools
import importlib.util
import resource
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import nnls
from scipy.special import ive

from measureflow.sums import AbstractEngine, Cost, KernelSum, engines, fourier, native
from measureflow.sums.blockwise import MOST_PAIRS
from measureflow.sums.choice import TOLERANCE, applicable

STATUS = Path("/proc/self/statm")
"""Where Linux tells the memory of this process."""

PEERS = {"torch": "torch", "pykeops": "pykeops", "FINUFFT": "jax_finufft"}
"""What has to be installed for a peer."""
DIMS = (2, 3, 16)
"""Coordinates of the tokens of a calibration."""

PAUSE = 0.1
"""Seconds before a turn, after which idle threads of the last one no longer spin."""

WARM = 0.01
"""Seconds of runs that are not timed, which wake the threads for a turn."""

TURN = 0.02
"""Seconds that a turn takes at least."""


def compare(ns: list[int], dim: int, beta: float, dtype: str, repeats: int) -> Iterator[dict[str, Any]]:
    """The rows of the table, size by size: engine or peer, median seconds, ratio to the fastest, error."""
    for n in ns:
        points = _tokens(n, dim).astype(dtype)
        truth, sample = _truth(points, beta)
        ours = dict(_engines(points, beta))
        ready = ours | dict(_peers(points, beta))
        times: dict[str, list[float]] = {name: [] for name in ready}
        errors = {name: float(np.abs(run()[sample] - truth).max()) for name, run in ready.items()}
        peaks = {name: _peak(run) for name, run in ready.items()}
        for _ in range(repeats):
            for name, run in ready.items():
                times[name].append(_turn(run))
        medians = {name: statistics.median(values) for name, values in times.items()}
        best = min(medians.values())
        bound = limit(dtype)
        for name, seconds in sorted(medians.items(), key=lambda item: item[1]):
            yield {
                "n": n,
                "dim": dim,
                "beta": beta,
                "dtype": dtype,
                "name": name,
                "ours": name in ours,
                "seconds": seconds,
                "ratio": seconds / best,
                "pairs_per_second": n * n / seconds,
                "error": errors[name],
                "megabytes": peaks[name],
                "limit": None if bound is None else n * n / bound,
            }


def missing() -> list[str]:
    """The engines and peers that cannot run here."""
    absent = [engine.name for engine in engines() if not engine.available()]
    return absent + [peer for peer in PEERS if not _installed(peer)]


def _installed(peer: str) -> bool:
    return importlib.util.find_spec(PEERS[peer]) is not None


@functools.cache
def limit(dtype: str) -> float | None:
    """The pairs that the exponentials alone allow in a second; known for a CPU with the native kernel."""
    return native.limit(dtype) if jax.default_backend() == "cpu" else None


def _tokens(n: int, dim: int) -> np.ndarray:
    points = np.random.default_rng(0).normal(size=(n, dim))
    return points / np.linalg.norm(points, axis=1, keepdims=True)


def _truth(points: np.ndarray, beta: float) -> tuple[np.ndarray, np.ndarray]:
    """The attention map in float64 for a sample of tokens."""
    sample = np.linspace(0, len(points) - 1, min(len(points), 64)).astype(int)
    exact = points.astype(np.float64)
    scores = beta * exact[sample] @ exact.T
    kernel = np.exp(scores - scores.max(1, keepdims=True))
    return kernel @ exact / kernel.sum(1, keepdims=True), sample


def _arrays(points: np.ndarray, beta: float) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Covectors, sources and log weights of the attention map."""
    y = jnp.asarray(points)
    return jnp.asarray(beta, y.dtype) * y, y, jnp.full(len(y), -np.log(len(y)), y.dtype)


def _engines(points: np.ndarray, beta: float) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Every engine that can do the sum, at the tolerance that flows ask of those that have one."""
    n, dim = points.shape
    arrays = _arrays(points, beta)
    for engine in applicable(KernelSum(n, n, dim, points.dtype.name, True, TOLERANCE, abs(beta))):
        yield engine.name, _jax(lambda a, y, w, engine=engine: engine.attend(a, y, w).mean, *arrays)


def _peers(points: np.ndarray, beta: float) -> Iterator[tuple[str, Callable[..., Any]]]:
    arrays = _arrays(points, beta)
    if len(points) ** 2 <= MOST_PAIRS:
        yield "jax naive", _jax(lambda a, y, w: jax.nn.softmax(a @ y.T, axis=1) @ y, *arrays)
        yield "jax.nn attention", _jax(_jax_attention, *arrays)
        yield "numpy naive", _numpy(beta, points)
    if _installed("torch"):
        yield "torch SDPA", _torch(beta, points)
    if _installed("pykeops"):
        yield "pykeops", _keops(beta, points)
    if points.shape[1] == 2 and points.dtype == np.float64 and _installed("FINUFFT"):
        yield "FINUFFT", _jax(_finufft(beta), *arrays)


def _peak(run: Callable[..., Any]) -> float | None:
    """The megabytes by which the process grows at most while it runs; unknown where the system does not tell."""
    if not STATUS.exists():
        return None
    done, sizes = threading.Event(), [_resident()]

    def watch():
        while not done.wait(5e-4):
            sizes.append(_resident())

    watcher = threading.Thread(target=watch)
    watcher.start()
    run(False)
    sizes.append(_resident())
    done.set()
    watcher.join()
    return (max(sizes) - sizes[0]) / 2**20


def _resident() -> int:
    return int(STATUS.read_text().split()[1]) * resource.getpagesize()


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


def _finufft(beta: float) -> Callable[..., Any]:
    """What one would write by hand on the circle: moments by one transform, mass and mean by a pair of them."""
    import jax_finufft

    top = fourier.modes(beta, TOLERANCE)
    bessel = jnp.asarray(
        np.sign(beta) ** np.abs(np.arange(-top, top + 1)) * ive(np.abs(np.arange(-top, top + 1)), abs(beta))
    )

    def attend(a: jax.Array, y: jax.Array, w: jax.Array) -> jax.Array:
        angles = jnp.arctan2(y[:, 1], y[:, 0])
        moments = jax_finufft.nufft1(2 * top + 3, jnp.exp(w).astype(complex), angles, iflag=-1, eps=TOLERANCE)
        pair = jnp.stack([moments[1:-1] * bessel, moments[:-2] * bessel])
        mass, moment = jax_finufft.nufft2(pair, angles, iflag=1, eps=TOLERANCE)
        return jnp.stack([moment.real, moment.imag], 1) / mass.real[:, None]

    return attend


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


def calibrate(dtype: str, repeats: int = 5) -> dict[str, Cost]:
    """The costs of the engines of this machine, fitted to measured times of sums among `n` tokens."""
    served: dict[str, dict[int, AbstractEngine]] = {}
    for dim in DIMS:
        for engine in applicable(KernelSum(1, 1, dim, dtype, True, TOLERANCE)):
            served.setdefault(engine.name, {})[dim] = engine
    return {name: _fitted(by_dim, dtype, repeats) for name, by_dim in sorted(served.items())}


def _fitted(by_dim: dict[int, AbstractEngine], dtype: str, repeats: int) -> Cost:
    """The cost of one engine, made for each number of coordinates that it takes."""
    rows, times = [], []
    for dim, engine in by_dim.items():
        for n in engine.sizes:
            rows.append([1.0, n * n, dim * n * n, 0.0] if engine.exact else [1.0, 0.0, 0.0, 2.0 * n])
            times.append(_seconds(engine, n, dim, dtype, repeats))
    # Each time counts by its relative error: small sums decide the start, large ones the rest.
    weights = 1 / np.array(times)
    return Cost(*map(float, nnls(np.array(rows) * weights[:, None], np.ones(len(times)))[0]))


def _turn(run: Callable[..., Any]) -> float:
    """The seconds of one of several runs in a row, as in a flow."""
    time.sleep(PAUSE)
    _in_a_row(run, WARM)
    return _in_a_row(run, TURN)


def _in_a_row(run: Callable[..., Any], least: float) -> float:
    begun, count = time.perf_counter(), 0
    while count == 0 or time.perf_counter() - begun < least:
        run(False)
        count += 1
    return (time.perf_counter() - begun) / count


def _seconds(engine: AbstractEngine, n: int, dim: int, dtype: str, repeats: int) -> float:
    run = _jax(lambda a, y, w: engine.attend(a, y, w).mean, *_arrays(_tokens(n, dim).astype(dtype), 16.0))
    run()
    times = []
    for _ in range(repeats):
        begun = time.perf_counter()
        run(False)
        times.append(time.perf_counter() - begun)
    return min(times)

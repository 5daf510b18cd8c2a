"""One evaluation of the attention map on the sphere: our engines and what a user would write instead, side by side.

    python benchmarks/attend.py [n ...]

Interleaved runs, medians, ratios to the fastest, and the error against NumPy in float64.
"""

import statistics
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np

from measureflow.sums import Blockwise, Dense

jax.config.update("jax_enable_x64", True)
BETA, DIM, REPEATS = 4.0, 3, 7


def numpy_naive(a, y, w):
    scores = a @ y.T + w
    kernel = np.exp(scores - scores.max(1, keepdims=True))
    return kernel / kernel.sum(1, keepdims=True) @ y


@jax.jit
def jax_naive(a, y, w):
    return jax.nn.softmax(a @ y.T + w, axis=1) @ y


def candidates():
    return {
        "dense": jax.jit(lambda a, y, w: Dense().attend(a, y, w).mean),
        "blockwise": jax.jit(lambda a, y, w: Blockwise().attend(a, y, w).mean),
        "jax naive": jax_naive,
        "numpy naive": numpy_naive,
    }


def seconds(f, arguments):
    begun = time.perf_counter()
    jax.block_until_ready(f(*arguments))
    return time.perf_counter() - begun


def compare(n):
    points = np.random.default_rng(0).normal(size=(n, DIM))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    plain = (BETA * points, points, np.full(n, -np.log(n)))
    traced = tuple(map(jnp.asarray, plain))
    runs = {name: (f, plain if name.startswith("numpy") else traced) for name, f in candidates().items()}
    truth = numpy_naive(*plain)
    errors = {name: np.abs(np.asarray(f(*arguments)) - truth).max() for name, (f, arguments) in runs.items()}
    times = {name: [] for name in runs}
    for _ in range(REPEATS):
        for name, (f, arguments) in runs.items():
            times[name].append(seconds(f, arguments))
    medians = {name: statistics.median(values) for name, values in times.items()}
    best = min(medians.values())
    for name, value in sorted(medians.items(), key=lambda item: item[1]):
        print(f"n = {n:6d}  {name:12s} {1e3 * value:9.2f} ms  {value / best:6.2f} x  error {errors[name]:.1e}")


if __name__ == "__main__":
    for n in map(int, sys.argv[1:] or ["512", "2048", "8192"]):
        compare(n)

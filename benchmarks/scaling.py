"""How one evaluation of attention scales over devices and processes, and a cost model fitted to it.

    python benchmarks/scaling.py

Softmax attention of n tokens on the sphere, d = 3, float64, through `mf.sums.Sharded`, over all pairs by the ring with the native
kernel and below them by moments of harmonics; every process or device has one thread. Strong scaling: the same n for 1 and 2;
weak scaling: pairs, or tokens, for each stay the same. The model for all pairs:

    seconds = pairs / (K speed) + (K - 1) (latency + bytes of a share / bandwidth) + n each

with the speed of the kernel, latency and bandwidth of the ring, and what every process does for every token.
"""

import json
import os
import socket
import subprocess
import sys
import time

CHILD = """
import json, sys, time
import jax
mode, K, i, port, work = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], json.loads(sys.argv[5])
jax.config.update("jax_enable_x64", True)
if mode == "processes" and K > 1:
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize("127.0.0.1:" + port, num_processes=K, process_id=i)
import jax.numpy as jnp, numpy as np
import measureflow as mf
found = {}
for name, n in [(name, n) for name, sizes in work.items() for n in sizes]:
    engine = mf.sums.Sharded(mf.sums.engine(name))
    points = np.random.default_rng(0).normal(size=(n, 3))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    mu = engine.spread(mf.Particles(mf.Sphere(3), points, engine=engine))
    field = mf.SoftmaxAttention.isotropic(3, 4.0)
    step = jax.jit(lambda mu: mu.transport(lambda xs: field(0.0, xs, mu)).points)
    step(mu).block_until_ready()
    taken = []
    for _ in range(7):
        begun = time.perf_counter()
        step(mu).block_until_ready()
        taken.append(time.perf_counter() - begun)
    found.setdefault(name, {})[n] = min(taken)
if i == 0:
    print("FOUND" + json.dumps(found))
"""
STRONG = (4096, 8192, 16384, 32768)
WEAK = (5792, 11586, 23170)
"""Sizes times the root of two, so that two have as many pairs each as one has of the sizes before."""
LINEAR = (10**5, 2 * 10**5, 10**6, 2 * 10**6)
"""Sizes of sums below all pairs."""


def measured(mode, K):
    """Seconds by engine and number of tokens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    one = {"NPROC": "1", "PJRT_NPROC": "1", "OMP_NUM_THREADS": "1"}
    flags = {"XLA_FLAGS": f"--xla_force_host_platform_device_count={K}", "NPROC": str(K), "PJRT_NPROC": str(K)}
    environment = os.environ | one | (flags if mode == "devices" else {})
    count = K if mode == "processes" else 1
    work = json.dumps({"native": sorted((*STRONG, *WEAK)), "harmonics": LINEAR})
    words = [[sys.executable, "-c", CHILD, mode, str(K), str(i), port, work] for i in range(count)]
    started = [
        subprocess.Popen(word, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        for word in words
    ]
    said = [process.communicate()[0] for process in started]
    line = next(line for line in said[0].splitlines() if line.startswith("FOUND"))
    said = json.loads(line.removeprefix("FOUND"))
    return {name: {int(n): seconds for n, seconds in by_size.items()} for name, by_size in said.items()}


def fitted(found):
    """Speed, latency, seconds a byte and seconds a token, by least squares of relative errors with none below zero."""
    import numpy as np
    from scipy.optimize import nnls

    rows, times = [], []
    for K, by_size in found.items():
        for n, seconds in by_size.items():
            rows.append([n**2 / K, K - 1, (K - 1) * 8 * 4 * n / K, n])
            times.append(seconds)
    rows, times = np.array(rows), np.array(times)
    coefficients, _ = nnls(rows / times[:, None], np.ones(len(times)))
    return coefficients, np.abs(rows @ coefficients / times - 1).max()


def main():
    found = {mode: {K: measured(mode, K) for K in (1, 2)} for mode in ("processes", "devices")}
    for mode, by_engine in found.items():
        by_count, linear = ({K: by_engine[K][name] for K in (1, 2)} for name in ("native", "harmonics"))
        print(f"\n{mode}: seconds of an evaluation over all pairs")
        for n in STRONG:
            one, two = by_count[1][n], by_count[2][n]
            print(f"  strong n = {n:6d}: 1: {one:.4f}, 2: {two:.4f}, {one / two:.2f} x, efficiency {one / two / 2:.2f}")
        for n, m in zip(STRONG, WEAK, strict=False):
            one, two = by_count[1][n], by_count[2][m]
            print(f"  weak   n = {n:6d} and {m:6d}: {one:.4f}, {two:.4f}, efficiency {one / two:.2f}")
        (pair, latency, byte, token), off = fitted(by_count)
        print(
            f"  model: {1e-9 / pair:.3g} G pairs/s each, latency {1e6 * latency:.3g} us, "
            f"{(1e-9 / byte if byte else float('inf')):.3g} GB/s, {1e9 * token:.3g} ns a token; off by {100 * off:.0f}% at most"
        )
        print(f"{mode}: seconds of an evaluation by moments")
        for n in LINEAR:
            one, two = linear[1][n], linear[2][n]
            print(f"  strong n = {n:7d}: 1: {one:.4f}, 2: {two:.4f}, {one / two:.2f} x, efficiency {one / two / 2:.2f}")
        for n in LINEAR[::2]:
            one, two = linear[1][n], linear[2][2 * n]
            print(f"  weak   n = {n:7d} and {2 * n:7d}: {one:.4f}, {two:.4f}, efficiency {one / two:.2f}")


if __name__ == "__main__":
    begun = time.perf_counter()
    main()
    print(f"\n{time.perf_counter() - begun:.0f} s")

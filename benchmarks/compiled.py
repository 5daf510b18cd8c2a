"""Kernels for a card, compiled where there is none: registers, what spills, and what their inner loops are made of.

    python benchmarks/compiled.py [WORD...]

Needs JAX's plugin for CUDA (tried with `jax-cuda13-plugin` and `jax-cuda13-pjrt` 0.10.2) and `ptxas` and `nvdisasm` on the path,
but no GPU: XLA compiles for a description of one. Where it finds no CUDA toolkit, `XLA_FLAGS=--xla_gpu_cuda_data_dir=...`
says where that is. That the kernels compile, that they fit the registers, and how many instructions a loop spends on arithmetic
is known without a card; how long they take is not. With words, only programs whose name holds one.
"""

import collections
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

FOLDER = tempfile.TemporaryDirectory()
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = f"--xla_gpu_autotune_level=0 --xla_dump_to={FOLDER.name} " + os.environ.get("XLA_FLAGS", "")

import jax
import jax.numpy as jnp
from jax.experimental import topologies

jax.config.update("jax_enable_x64", True)

from measureflow.sums.devices import ALONE
from measureflow.sums.fourier import CIRCLE
from measureflow.sums.harmonics import SPHERE
from measureflow.sums.pallas import card, heads, lanes, modes, products

H200 = """
gpu_device_info {
  threads_per_block_limit: 1024 threads_per_warp: 32 threads_per_core_limit: 2048 core_count: 132 fpus_per_core: 128
  shared_memory_per_block: 49152 shared_memory_per_core: 233472 shared_memory_per_block_optin: 232448
  registers_per_core_limit: 65536 registers_per_block_limit: 65536 cuda_compute_capability { major: 9 }
  block_dim_limit_x: 2147483647 block_dim_limit_y: 65535 block_dim_limit_z: 65535
  memory_bandwidth: 4800000000000 l2_cache_size: 62914560 clock_rate_ghz: 1.98 device_memory_size: 150000000000
}
platform_name: "CUDA" dnn_version_info { major: 9 minor: 8 } runtime_version { major: 13 }
device_description_str: "NVIDIA H200"
"""
N = 2**16
DTYPES = ("float32", "float64")


def shape(dtype, *sizes):
    return jax.ShapeDtypeStruct(sizes, dtype)


def programs():
    """Functions and the shapes of their arguments, by name."""
    for dtype in DTYPES:
        points, numbers = shape(dtype, 1, N, 3), shape(dtype, 1, N)
        yield f"sum {dtype}", lambda a, y, w: lanes.attend(False, a, y, w), (points, points, numbers)
        yield f"second {dtype}", lambda a, y, w: lanes.attend_second(False, a, y, w), (points, points, numbers)
        yield f"slopes {dtype}", slopes, (points,) * 3 + (numbers,) * 3
        values = shape(dtype, 1, N, 8)
        yield (
            f"average {dtype}",
            lambda *x: lanes.average(False, *x),
            (points, numbers, points, numbers, values),
        )
        theta, sequences = shape(dtype, 4096, 256), shape(dtype, 1, 32, 16)
        yield f"heads {dtype}", trained, (theta, shape(dtype, 4096), sequences, sequences)
    for d, tolerance in ((64, 1e-5), (128, 1e-5), (64, 1e-2)):
        points = shape("float32", 1, N, d)
        call = lambda a, y, w, tolerance=tolerance: products.attend(False, tolerance, a, y, w)  # noqa: E731
        yield f"products {d} {tolerance:g}", call, (points, points, shape("float32", 1, N))
    for name, series in (("circle", CIRCLE), ("sphere", SPHERE)):
        points, values = shape("float64", N, series.dim), shape("float64", N, 4)
        call = lambda x, r, y, u, walk=series.walk: moments(walk, x, r, y, u)  # noqa: E731
        yield name, call, (points, shape("float64", N), points, values)


def slopes(y, a, h, w, b, g):
    return lanes.sloped(False, card.Slopes((y,), (a, h), ((0, 1),)), w, b, None, g, totalled=False)[1]


def trained(theta, weights, x, c):
    options = {"key_dim": 4, "value_dim": 4}
    return heads.total(theta, weights, x, **options), heads.gradient(theta, x, c, **options)


def moments(walk, x, r, y, u):
    sides = modes.Side(x, r), modes.Side(y, None)
    return modes.sums(False, walk, 16, jnp.int32(16), *sides, u, ALONE)


def compile_(f, shapes, sharding):
    for file in Path(FOLDER.name).iterdir():
        file.unlink()
    jax.jit(f, in_shardings=sharding, out_shardings=sharding).lower(*shapes).compile()
    return sorted(Path(FOLDER.name).glob("*.ptx"))


def looked(ptx):
    """Name, registers, spilled bytes and instructions of a kernel; None for one that XLA made."""
    text = ptx.read_text()
    entry = re.search(r"\.entry (\S+?)\(", text)
    if entry is None or re.match(r"(input|loop|wrapped|gemm|fusion|triton)", entry.group(1)):
        return None
    target = re.search(r"\.target (\w+)", text).group(1)
    words = ["ptxas", "-v", f"-arch={target}", str(ptx), "-o", str(ptx.with_suffix(".cubin"))]
    said = subprocess.run(words, capture_output=True, text=True, check=True).stderr
    registers = int(re.search(r"Used (\d+) registers", said).group(1))
    spilled = int(re.search(r"(\d+) bytes spill stores", said).group(1))
    words = ["nvdisasm", "-c", str(ptx.with_suffix(".cubin"))]
    return entry.group(1), registers, spilled, subprocess.run(words, capture_output=True, text=True, check=True).stdout


def loops(code):
    """Instructions by kind of every loop, which is what lies between a label and a branch back to it."""
    labels, seen = {}, []
    for line in code.splitlines():
        if label := re.match(r"\s*(\.L_x_\d+):", line):
            labels[label.group(1)] = len(seen)
        elif word := re.match(r"\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z0-9]+)(.*)", line):
            seen.append(word.group(1))
            if word.group(1) == "BRA" and (back := re.search(r"\.L_x_\d+", word.group(2))) and back.group(0) in labels:
                yield collections.Counter(seen[labels[back.group(0)] :])


def main():
    topology = topologies.get_topology_desc("h200", platform="cuda", target_config=H200, topology="1x1x1")
    sharding = jax.sharding.SingleDeviceSharding(topology.devices[0])
    for name, f, shapes in programs():
        if sys.argv[1:] and not any(word in name for word in sys.argv[1:]):
            continue
        for kernel in filter(None, map(looked, compile_(f, shapes, sharding))):
            print(f"{name:<18} {kernel[0]:<14} {kernel[1]:>4} registers {kernel[2]:>5} bytes spilled", flush=True)
            for loop in loops(kernel[3]):
                if loop.total() > 40 and not loop["SHFL"]:
                    most = ", ".join(f"{count} {kind}" for kind, count in loop.most_common(6))
                    print(f"{'':<24} loop of {loop.total():>4}: {most}")


if __name__ == "__main__":
    main()

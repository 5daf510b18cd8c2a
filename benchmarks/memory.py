"""Peak memory of each attention variant for many tokens, forward and under the gradient.

    python benchmarks/memory.py [n]

Each case runs in a process of its own; what is reported is its peak above that of a process that only makes the tokens.
An array of all pairs would take 8 n^2 bytes, 8.6 GB at n = 32768.
"""

import subprocess
import sys

CASES = {
    "softmax": "mf.SoftmaxAttention.isotropic(3, 4.0)",
    "unnormalised": "mf.UnnormalisedAttention.isotropic(3, 4.0)",
    "l2": "mf.L2Attention.isotropic(3, 4.0)",
    "sinkhorn, 3 sweeps": "mf.SinkhornAttention(4.0 * jnp.eye(3), jnp.eye(3), sweeps=3)",
    "sigmoid": "mf.SigmoidAttention.isotropic(3, 4.0)",
    "linear": "mf.LinearAttention.isotropic(3, 4.0)",
    "relu": "mf.ReLUAttention.isotropic(3, 4.0)",
    "hardmax": "mf.HardmaxAttention.isotropic(3)",
    "own kernel": "mf.KernelAttention(lambda s: 1 / (1 + s**2), normalise=True)",
    "causal": "mf.Causal(mf.SoftmaxAttention.isotropic(3, 4.0))",
    "4 heads": "mf.MultiHead([mf.SoftmaxAttention.isotropic(3, float(b)) for b in range(4)])",
}

SCRIPT = """
import resource, sys, time
import jax, jax.numpy as jnp
jax.config.update("jax_enable_x64", True)
import measureflow as mf
mu = mf.Particles.iid(mf.Sphere(3), {n}, key=0)
def energy(points):
    moved = mf.Particles(mf.Euclidean(3), points)
    return (({field})(0.0, points, moved) ** 2).sum()
task = {task!r}
begun = time.perf_counter()
if task == "forward":
    jax.block_until_ready(jax.jit(energy)(mu.points))
elif task == "gradient":
    jax.block_until_ready(jax.jit(jax.grad(energy))(mu.points))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, time.perf_counter() - begun)
"""


def peak(n, field, task):
    script = SCRIPT.format(n=n, field=field, task=task)
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    return tuple(map(float, done.stdout.split()))


if __name__ == "__main__":
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 32768
    baseline = peak(n, CASES["softmax"], "nothing")[0]
    print(f"n = {n}; all pairs would take {8 * n**2 / 2**20:.0f} MiB")
    for name, field in CASES.items():
        forward, gradient = (peak(n, field, task) for task in ("forward", "gradient"))
        print(
            f"{name:20s} forward {forward[0] - baseline:6.0f} MiB {forward[1]:6.1f} s"
            f"    gradient {gradient[0] - baseline:6.0f} MiB {gradient[1]:6.1f} s"
        )

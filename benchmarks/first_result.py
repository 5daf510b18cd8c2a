"""How long a new user waits: `--help`, a simulation on defaults, the same again with programs that are kept on the disk, and a
sweep against a loop over runs.

python benchmarks/first_result.py
"""

import os
import subprocess
import sys
import tempfile
import time

COMMAND = "from measureflow.cli import program; program()"

SWEEP = """
import time, jax, jax.numpy as jnp
jax.config.update("jax_enable_x64", True)
import measureflow as mf
times, betas, seeds = jnp.linspace(0.0, 5.0, 11), jnp.linspace(0.1, 9.0, 10), jnp.arange(8)
def order(beta, seed):
    start = mf.Particles.iid(mf.Sphere(3), 32, key=jax.random.key(seed))
    path = mf.evolve(mf.SoftmaxAttention.isotropic(3, beta), start, times, mf.RK4(0.1))
    return path.map(mf.diagnostics.order_parameter)
sweep = jax.jit(jax.vmap(jax.vmap(order, (None, 0)), (0, None)))
single = jax.jit(order)
jax.block_until_ready((sweep(betas, seeds), single(betas[0], seeds[0])))
begun = time.perf_counter(); jax.block_until_ready(sweep(betas, seeds)); batched = time.perf_counter() - begun
begun = time.perf_counter()
for beta in betas:
    for seed in seeds:
        jax.block_until_ready(single(beta, seed))
looped = time.perf_counter() - begun
print(f"80 runs of 32 tokens: one sweep {batched:.2f} s, a loop over compiled runs {looped:.2f} s")
"""


def measure(name, *words, **environment):
    begun = time.perf_counter()
    subprocess.run(
        [sys.executable, "-c", COMMAND, *words], check=True, capture_output=True, env=os.environ | environment
    )
    print(f"{name:34s} {time.perf_counter() - begun:6.2f} s")


if __name__ == "__main__":
    measure("measureflow --help", "--help")
    measure("measureflow simulate --help", "simulate", "--help")
    with tempfile.TemporaryDirectory() as folder:
        for name in ("cold", "again", "once more"):
            measure(f"measureflow simulate, {name}", "simulate", "--out", f"{folder}/{name}", XDG_CACHE_HOME=folder)
    subprocess.run([sys.executable, "-c", SWEEP], check=True)

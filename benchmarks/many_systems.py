"""Many small systems in one batch, against the script that one would write in plain JAX.

    python benchmarks/many_systems.py

28 temperatures by 24 seeds of 32 tokens in 128 dimensions, Euler steps of 0.1 and the mean overlap at 121 times. Turns are
interleaved; for its memory each way runs in a process of its own.
"""

import json
import resource
import statistics
import subprocess
import sys
import time

import jax
import jax.numpy as jnp

import measureflow as mf

BETAS, SEEDS, TOKENS, DIM, STEPS, TURNS = 28, 24, 32, 128, 120, 5


def tokens(seed):
    x = jax.random.normal(jax.random.key(seed), (TOKENS, DIM))
    return x / jnp.linalg.norm(x, axis=1, keepdims=True)


def overlap(x):
    return jnp.mean(x @ x.T)


def plain(beta, seed):
    """What a researcher writes."""

    def step(x, _):
        v = jax.nn.softmax(beta * x @ x.T, axis=-1) @ x
        y = x + 0.1 * (v - (v * x).sum(-1, keepdims=True) * x)
        y = y / jnp.linalg.norm(y, axis=1, keepdims=True)
        return y, overlap(y)

    x = tokens(seed)
    return jnp.concatenate([overlap(x)[None], jax.lax.scan(step, x, None, length=STEPS)[1]])


def seen(mu):
    return overlap(mu.points)


def ours(beta, seed):
    """The same with measureflow."""
    mu, field = mf.Particles(mf.Sphere(DIM), tokens(seed)), mf.SoftmaxAttention.isotropic(DIM, beta)
    return mf.evolve(field, mu, 0.1 * jnp.arange(STEPS + 1), mf.Euler(0.1), observe=seen).observed


WAYS = {"plain": plain, "measureflow": ours}


def main():
    betas, seeds = jnp.linspace(0.0, 9.0, BETAS), jnp.arange(SEEDS)
    sweeps = {name: jax.jit(jax.vmap(jax.vmap(way, (None, 0)), (0, None))) for name, way in WAYS.items()}
    values = {name: sweep(betas, seeds).block_until_ready() for name, sweep in sweeps.items()}
    taken = {name: [] for name in sweeps}
    for _ in range(TURNS):
        for name, sweep in sweeps.items():
            begun = time.perf_counter()
            sweep(betas, seeds).block_until_ready()
            taken[name].append(time.perf_counter() - begun)
    seconds = {name: statistics.median(turns) for name, turns in taken.items()}
    off = float(jnp.abs(values["plain"] - values["measureflow"]).max())
    print({name: f"{value:.2f} s, {memory(name):.2f} GB" for name, value in seconds.items()})
    print(f"measureflow / plain: {seconds['measureflow'] / seconds['plain']:.2f}; largest difference {off:.1e}")


def memory(name):
    """The most memory that a process held which did one sweep, in gigabytes."""
    found = subprocess.run([sys.executable, __file__, name], capture_output=True, text=True, check=True)
    return json.loads(found.stdout)


def alone(name):
    jax.jit(jax.vmap(jax.vmap(WAYS[name], (None, 0)), (0, None)))(
        jnp.linspace(0.0, 9.0, BETAS), jnp.arange(SEEDS)
    ).block_until_ready()
    print(json.dumps(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6))


if __name__ == "__main__":
    alone(sys.argv[1]) if len(sys.argv) > 1 else main()

"""A phase diagram as one compiled sweep, against a Python loop over runs.

    python benchmarks/sweep.py

Ninety betas by sixty-four seeds, 32 tokens on the circle, 200 frames each of the share of pairs that have met. The loop calls the
same compiled flow run by run, for a sample of the runs, and its time is scaled up.
"""

import time

import jax
import jax.numpy as jnp

import measureflow as mf

BETAS, SEEDS, SAMPLE = 90, 64, 60


def met(mu):
    """The share of pairs with an inner product above 0.999."""
    return jnp.mean(mu.points @ mu.points.T > 0.999)


def run(beta, key):
    mu = mf.Particles.iid(mf.Sphere(2), 32, key=key)
    path = mf.evolve(mf.SoftmaxAttention.isotropic(2, beta), mu, jnp.linspace(0, 20, 200), mf.RK4(0.1))
    return path.map(met)


def main():
    betas = jnp.linspace(0.1, 9.0, BETAS, dtype=jnp.float32)
    keys = jax.random.split(jax.random.key(0), SEEDS)
    sweep = jax.jit(jax.vmap(jax.vmap(run, (None, 0)), (0, None)))
    sweep(betas, keys).block_until_ready()
    begun = time.perf_counter()
    diagram = sweep(betas, keys).block_until_ready()
    swept = time.perf_counter() - begun
    one = jax.jit(run)
    one(betas[0], keys[0]).block_until_ready()
    begun = time.perf_counter()
    for i in range(SAMPLE):
        one(betas[i % BETAS], keys[i % SEEDS]).block_until_ready()
    looped = (time.perf_counter() - begun) / SAMPLE * BETAS * SEEDS
    print(f"sweep {swept:.2f} s, loop of compiled runs {looped:.2f} s, {looped / swept:.1f} x; diagram {diagram.shape}")
    begun = time.perf_counter()
    for i in range(3):
        run(betas[i], keys[i]).block_until_ready()
    eager = (time.perf_counter() - begun) / 3 * BETAS * SEEDS
    print(f"loop of calls without jit around them {eager:.0f} s, {eager / swept:.0f} x")


if __name__ == "__main__":
    main()

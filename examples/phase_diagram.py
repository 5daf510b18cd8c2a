"""When do tokens meet? One compiled sweep over temperatures and seeds, against the equiangular law."""

import jax
import jax.numpy as jnp

jax.config.update("jax_enable_x64", True)

import measureflow as mf

N, DIM = 32, 128
times = jnp.linspace(0.0, 12.0, 25)


@jax.jit
def met(beta, seed):
    """The share of pairs with overlap above 0.999, at each time."""
    start = mf.Particles.iid(mf.Sphere(DIM), N, key=jax.random.key(seed))
    path = mf.evolve(mf.SoftmaxAttention.isotropic(DIM, beta), start, times, mf.RK4(0.1))
    return path.map(lambda mu: ((mu.points @ mu.points.T > 0.999).sum() - N) / (N * (N - 1)))


betas = jnp.array([0.0, 1.0, 2.0, 3.0, 4.0])
share = jax.vmap(jax.vmap(met, (None, 0)), (0, None))(betas, jnp.arange(8)).mean(1)
for beta, row in zip(betas, share, strict=True):
    half = times[jnp.argmax(row > 0.5)]
    law = mf.theory.equiangular.time_to(0.999, N, beta)
    print(f"beta = {beta:.0f}: half of the pairs have met by t = {half:.1f}; the equiangular law says {law:.2f}")

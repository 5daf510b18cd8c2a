"""Metastable flows: explicit, implicit and merged steps side by side; and the Lipschitz constant against the full Jacobian.

    python benchmarks/long_times.py

Twenty-four tokens on the circle at beta = 12 form clusters that wait for times like e^beta. Times are of the second call, after
compilation, and ratios are to explicit adaptive steps.
"""

import time

import equinox as eqx
import jax
import jax.numpy as jnp

import measureflow as mf


def seconds(run):
    jax.block_until_ready(run())
    begun = time.perf_counter()
    result = jax.block_until_ready(run())
    return time.perf_counter() - begun, result


def metastable():
    mu, field = mf.Particles.iid(mf.Sphere(2), 24, key=0), mf.SoftmaxAttention.isotropic(2, 12.0)
    ways = {
        "explicit": (mf.Adaptive(), None),
        "explicit, merged": (mf.Adaptive(), 1e-5),
        "implicit": (mf.Stiff(), None),
        "implicit, merged": (mf.Stiff(), 1e-5),
    }
    for end in (2e5, 2e6, 1e12):
        chosen = ways if end < 1e7 else {"implicit, merged": ways["implicit, merged"]}
        first = None
        for name, (solver, merge) in chosen.items():
            t, path = seconds(lambda s=solver, m=merge, T=end: mf.evolve(field, mu, [0.0, T], s, merge=m))
            first = first or t
            print(f"t = {end:.0e}  {name:18s} {t:8.2f} s  {first / t:6.1f} x  {path.stats['steps']} steps")


def lipschitz():
    n, d = 128, 16
    space = mf.Euclidean(d)
    keys = jax.random.split(jax.random.key(0), 3)
    mu = mf.Particles(space, jax.random.normal(keys[0], (n, d)))
    field = mf.SoftmaxAttention(*(jax.random.normal(key, (d, d)) / 4 for key in keys[1:]))

    @jax.jit
    def full(points):
        def velocities(points):
            return field(0.0, points, eqx.tree_at(lambda m: m.points, mu, points)).ravel()

        return jnp.linalg.norm(jax.jacrev(velocities)(points).reshape(n * d, n * d), 2)

    (fast, found), (slow, expected) = (
        seconds(lambda: mf.diagnostics.lipschitz(field, mu).value),
        seconds(lambda: full(mu.points)),
    )
    print(
        f"Lipschitz constant, n = {n}, d = {d}: {1e3 * fast:.1f} ms against {slow:.2f} s, {slow / fast:.0f} x", end=", "
    )
    print(f"difference {abs(found - expected):.0e}")


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    metastable()
    lipschitz()

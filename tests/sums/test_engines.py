"""Every engine gives the sums of a plain NumPy double loop."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp

from measureflow.sums import Blockwise, Dense

ENGINES = [Dense(), Blockwise(), Blockwise(pairs=64), Blockwise(pairs=1)]


def cloud(m, n, d, beta, seed=0):
    rng = np.random.default_rng(seed)
    return beta * rng.normal(size=(m, d)), rng.normal(size=(n, d)), np.log(rng.uniform(1e-12, 1, n))


@pytest.mark.parametrize("engine", ENGINES, ids=str)
@pytest.mark.parametrize(("m", "n", "d", "beta"), [(1, 1, 1, 1.0), (7, 13, 3, -2.0), (33, 20, 2, 300.0)])
def test_log_mass_and_mean_match_a_plain_double_loop(engine, m, n, d, beta):
    a, y, w = cloud(m, n, d, beta)
    log_mass = logsumexp(a @ y.T + w, axis=1)
    mean = np.exp(a @ y.T + w - log_mass[:, None]) @ y
    seen = jax.jit(engine.attend)(a, y, w)
    # Scores of size |a||y| carry a rounding error of that many eps into the exponent.
    tolerance = 50 * np.finfo(float).eps * (1 + np.abs(a @ y.T).max())
    np.testing.assert_allclose(seen.log_mass, log_mass, rtol=0, atol=tolerance)
    np.testing.assert_allclose(seen.mean, mean, rtol=0, atol=tolerance * np.abs(y).max())


@pytest.mark.parametrize("engine", ENGINES[1:], ids=str)
def test_derivatives_do_not_depend_on_the_engine(engine):
    a, y, w = map(jnp.asarray, cloud(9, 12, 3, 1.0))

    def observable(engine, a, y):
        log_mass, mean = engine.attend(a, y, w)
        return jnp.sum(log_mass**2) + jnp.sum(mean**3)

    expected = jax.grad(observable, argnums=(1, 2))(Dense(), a, y)
    for got, want in zip(jax.grad(observable, argnums=(1, 2))(engine, a, y), expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-13)
    tangent = jax.jvp(lambda a: observable(engine, a, y), (a,), (a,))[1]
    np.testing.assert_allclose(tangent, jnp.sum(expected[0] * a), rtol=1e-12)


@pytest.mark.parametrize("transform", [lambda f: f, lambda f: jax.grad(lambda a, y, w: f(a, y, w).mean.sum())])
def test_blockwise_never_holds_all_pairs_at_once(transform):
    n = 4096
    shapes = [jax.ShapeDtypeStruct(s, jnp.float64) for s in ((n, 3), (n, 3), (n,))]
    compiled = jax.jit(transform(Blockwise(pairs=2**18).attend)).lower(*shapes).compile()
    # All pairs would take 8 n^2 = 134 MB; a few buffers of 2^18 scores take 2 MB each.
    assert compiled.memory_analysis().temp_size_in_bytes < 2e7

"""Sums over the past in blocks are the masked sums."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import measureflow as mf
from measureflow.sums import Auto, Blockwise, Dense, Past, native


@jax.jit
def masked(a, y, w):
    """The log mass and mean of each token's past, through the square of all pairs."""
    scores = jnp.where(jnp.tri(len(y), dtype=bool), a @ y.T + w[None], -jnp.inf)
    log_mass = jax.nn.logsumexp(scores, axis=1)
    return log_mass, jnp.exp(scores - log_mass[:, None]) @ y


@pytest.mark.parametrize("n", [1, 2, 128, 129, 130, 257, 700])
@pytest.mark.parametrize("engine", [Dense(), Blockwise(pairs=1000), Auto()], ids=str)
def test_blocks_of_the_past_are_the_masked_sums(engine, n):
    rng = np.random.default_rng(n)
    a, y, w = (jnp.asarray(x) for x in (3 * rng.normal(size=(n, 3)), rng.normal(size=(n, 3)), rng.normal(size=n)))
    got, expected = jax.jit(Past(engine).attend)(a, y, w), masked(a, y, w)
    for one, other in zip(got, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)


def derivatives(attend, d):
    """The gradient of an observable of 300 tokens, and its derivative along a direction."""
    rng = np.random.default_rng(0)
    a, y, w = (jnp.asarray(x) for x in (rng.normal(size=(300, d)), rng.normal(size=(300, d)), rng.normal(size=300)))

    def observable(*x):
        log_mass, mean = attend(*x)
        return jnp.sum(mean**3) + jnp.sum(log_mass)

    gradient = jax.grad(observable, (0, 1, 2))
    return jax.tree.leaves(jax.jit(lambda *x: jax.jvp(gradient, x, (x[1], 0.3 * x[0], x[2] + 1)))(a, y, w))


@functools.cache
def masked_derivatives(d):
    return derivatives(masked, d)


@pytest.mark.parametrize("engine", [Dense(), Blockwise(pairs=1000), Auto()], ids=str)
@pytest.mark.parametrize("d", [2, 9])
def test_derivatives_of_the_past_of_both_orders_are_those_of_the_masked_sums(engine, d):
    for one, other in zip(derivatives(Past(engine).attend, d), masked_derivatives(d), strict=True):
        # Roundings of sums of some hundred terms, relative to the largest derivative.
        np.testing.assert_allclose(one, other, atol=1e-12 * (1 + np.abs(other).max()))


@pytest.mark.skipif(not native.available(), reason="the native kernel is not built")
def test_the_gradient_over_the_past_holds_some_hundred_numbers_for_each_token():
    n = 2**14
    shapes = [jax.ShapeDtypeStruct(shape, jnp.float64) for shape in ((n, 3), (n, 3), (n,))]
    gradient = jax.grad(lambda *arrays: Past(Auto()).attend(*arrays).mean.sum(), (0, 1, 2))
    # All pairs would be 2^14 numbers for each token; sixteen triangles of 128 tokens at once are some megabytes more.
    assert jax.jit(gradient).lower(*shapes).compile().memory_analysis().temp_size_in_bytes < n * 8 * 200 + 2e7


@pytest.mark.parametrize(
    "attention",
    [
        mf.SoftmaxAttention.isotropic(3, 4.0),
        mf.UnnormalisedAttention.isotropic(3, 1.0),
        mf.L2Attention.isotropic(3, 2.0),
        mf.MultiHead([mf.SoftmaxAttention.isotropic(3, b) for b in (1.0, 5.0)]),
    ],
    ids=lambda attention: type(attention).__name__,
)
def test_causal_attention_in_blocks_is_causal_attention_row_by_row(attention):
    points = mf.Particles.iid(mf.Sphere(3), 150, key=0).points
    field = mf.Causal(attention)
    # Positions with a tie are not known to be in order: that way goes row by row, and differs at the tie alone.
    positions = np.arange(1, 151) / 150
    positions[1] = positions[0]
    fast = eqx.filter_jit(field)(0.0, points, mf.Sequence(mf.Sphere(3), points))
    slow = eqx.filter_jit(field)(0.0, points, mf.Sequence(mf.Sphere(3), points, positions))
    np.testing.assert_allclose(fast[1:], slow[1:], atol=1e-12)
    assert np.abs(fast[0] - slow[0]).max() > 1e-3

"""Averages of other values under the tilted measures: second moments, and derivatives of every order."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from measureflow.sums import Auto, Blockwise, Dense, Native, native

NATIVE = [Native(), Native(threads=1, level=0), Native(level=1)] if native.available() else []
ENGINES = [Dense(), Blockwise(pairs=64), Auto(), *NATIVE]


def cloud(m=40, n=300, d=3, dtype=np.float64):
    rng = np.random.default_rng(1)
    arrays = rng.normal(size=(m, d)), rng.normal(size=(n, d)), np.log(rng.uniform(1e-12, 1, n))
    return [jnp.asarray(x.astype(dtype)) for x in arrays]


@pytest.mark.parametrize("engine", ENGINES, ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_averages_match_a_plain_matrix_product(engine, dtype):
    a, y, w = cloud(dtype=dtype)
    z = jnp.asarray(np.random.default_rng(2).normal(size=(len(y), 7)).astype(dtype))
    log_mass = jax.jit(engine.attend)(a, y, w).log_mass
    got = jax.jit(engine.average)(a, -log_mass, y, w, z)
    weights = np.exp(
        np.asarray(a, float) @ np.asarray(y, float).T + np.asarray(w, float) - np.asarray(log_mass)[:, None]
    )
    # An exponent of size up to 30 has that many roundings of error, and the log mass as many.
    np.testing.assert_allclose(got, weights @ np.asarray(z, float), atol=200 * np.finfo(dtype).eps)


@pytest.mark.parametrize("engine", ENGINES, ids=str)
def test_the_second_moment_is_the_derivative_of_the_mean(engine):
    @jax.jit
    def variance(a, y, w):
        log_mass, mean = engine.attend(a, y, w)
        squares = (y[:, :, None] * y[:, None, :]).reshape(len(y), -1)
        second = engine.average(a, -log_mass, y, w, squares).reshape(5, 3, 3)
        return second - mean[:, :, None] * mean[:, None, :]

    np.testing.assert_allclose(variance(*cloud(m=5)), hessian(*cloud(m=5)), atol=1e-12)


@jax.jit
def hessian(a, y, w):
    """The derivative of the mean by its covector, through dense sums."""
    return jax.vmap(jax.jacfwd(lambda a: Dense().attend(a[None], y, w).mean[0]))(a)


@pytest.mark.skipif(not NATIVE, reason="the native kernel is not built")
@pytest.mark.parametrize("d", [2, 3, 9])
def test_native_derivatives_of_first_and_second_order_are_those_of_dense_sums(d):
    a, y, w = cloud(m=20, n=30, d=d)

    def observable(engine):
        def f(a, y, w):
            seen = engine.attend(a, y, w)
            return jnp.sum(jnp.sin(seen.mean)) + jnp.sum(seen.log_mass**2)

        return f

    def derivatives(engine):
        gradient = jax.grad(observable(engine), (0, 1, 2))
        return jax.jit(lambda *x: jax.jvp(gradient, x, (x[0] ** 2, 0.3 * x[1], x[2] + 1)))(a, y, w)

    got, want = (jax.tree.leaves(derivatives(engine)) for engine in (Native(), Dense()))
    for one, other in zip(got, want, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-11)


@pytest.mark.skipif(not NATIVE, reason="the native kernel is not built")
@pytest.mark.parametrize("mode", [jax.jacfwd, jax.jacrev])
def test_native_jacobians_share_their_exponentials(mode):
    a, y, w = cloud(m=4, n=6)
    got, want = (jax.jit(mode(lambda y, e=engine: e.attend(a, y, w).mean))(y) for engine in (Native(), Dense()))
    np.testing.assert_allclose(got, want, atol=1e-13)


@pytest.mark.skipif(not NATIVE, reason="the native kernel is not built")
def test_averages_with_every_argument_batched():
    a, y, w = cloud(m=4, n=6)
    scales = jnp.array([0.5, 1.0, 2.0])

    def gradient(engine):
        slope = lambda s: jax.grad(lambda y: engine.attend(s * a, s * y, w).mean.sum())(y)  # noqa: E731
        return jax.jit(jax.vmap(slope))(scales)

    np.testing.assert_allclose(gradient(Native()), gradient(Dense()), atol=1e-13)


@pytest.mark.skipif(not NATIVE, reason="the native kernel is not built")
def test_the_native_gradient_holds_no_pairs():
    shapes = [jax.ShapeDtypeStruct(s, jnp.float64) for s in ((8192, 3), (8192, 3), (8192,))]
    gradient = jax.grad(lambda a, y, w: Native().attend(a, y, w).mean.sum(), (0, 1, 2))
    # A few arrays of 16 numbers for each token; all pairs would take 537 MB.
    assert jax.jit(gradient).lower(*shapes).compile().memory_analysis().temp_size_in_bytes < 8192 * 8 * 100

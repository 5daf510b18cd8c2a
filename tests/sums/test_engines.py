"""Every engine gives the sums of a plain NumPy double loop."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp

from measureflow.sums import Auto, Blockwise, Dense, KernelSum, Native, Pallas, choice, choose, native

NATIVE = [Native(), Native(threads=1), Native(level=0), Native(level=1)] if native.available() else []
ENGINES = [Dense(), Blockwise(), Blockwise(pairs=64), Blockwise(pairs=1), Auto(), *NATIVE]


dense = jax.jit(Dense().attend)


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
    *gradient, tangent = derivatives(engine, a, y, w)
    *expected, _ = derivatives(Dense(), a, y, w)
    for got, want in zip(gradient, expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(tangent, np.sum(np.asarray(expected[0]) * np.asarray(a)), rtol=1e-12)


@functools.partial(jax.jit, static_argnums=0)
def derivatives(engine, a, y, w):
    """The gradient of an observable by covectors and by tokens, and its derivative along the covectors."""

    def observable(a, y):
        log_mass, mean = engine.attend(a, y, w)
        return jnp.sum(log_mass**2) + jnp.sum(mean**3)

    return *jax.grad(observable, (0, 1))(a, y), jax.jvp(lambda a: observable(a, y), (a,), (a,))[1]


@pytest.mark.parametrize("transform", [lambda f: f, lambda f: jax.grad(lambda a, y, w: f(a, y, w).mean.sum())])
def test_blockwise_never_holds_all_pairs_at_once(transform):
    n = 4096
    shapes = [jax.ShapeDtypeStruct(s, jnp.float64) for s in ((n, 3), (n, 3), (n,))]
    compiled = jax.jit(transform(Blockwise(pairs=2**18).attend)).lower(*shapes).compile()
    # All pairs would take 8 n^2 = 134 MB; a few buffers of 2^18 scores take 2 MB each.
    assert compiled.memory_analysis().temp_size_in_bytes < 2e7


def on_sphere(rng, n, d):
    points = rng.normal(size=(n, d))
    return points / np.linalg.norm(points, axis=1, keepdims=True)


def clustered(rng, n, d):
    centres = on_sphere(rng, 3, d)
    points = centres[rng.integers(0, 3, n)] + 1e-3 * rng.normal(size=(n, d))
    return points / np.linalg.norm(points, axis=1, keepdims=True)


def two_alone(rng, n, d):
    """Two tokens far from a crowd that outweighs them."""
    points = np.eye(d)[0] + 1e-2 * rng.normal(size=(n, d))
    points[: min(2, n - 1)] *= -1
    return points / np.linalg.norm(points, axis=1, keepdims=True)


def doubled(rng, n, d):
    return np.repeat(on_sphere(rng, n // 2 + 1, d), 2, axis=0)[:n]


CLOUDS = {"uniform": on_sphere, "clustered": clustered, "two alone": two_alone, "doubled": doubled}
SHAPES = [(1, 3), (2, 1), (2, 2), (37, 3), (300, 2), (301, 4), (300, 5), (257, 17), (520, 64)]


@pytest.mark.parametrize("engine", [Dense(), Blockwise(pairs=1000), *NATIVE], ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_exact_engines_lose_a_few_roundings_and_no_more(engine, dtype):
    """Within 10 eps (1 + |beta|) of float64, whatever the cloud, weights and temperature."""
    rng = np.random.default_rng(0)
    attend = jax.jit(engine.attend)
    for (n, d), beta in zip(SHAPES, [0.0, -2.0, 1.0, 4.0, 1000.0, 64.0, 300.0, 9.0, 30.0], strict=True):
        for cloud in CLOUDS.values():
            y = cloud(rng, n, d).astype(dtype)
            a = (beta * y).astype(dtype)
            w = np.log(rng.uniform(1e-12, 1, n)).astype(dtype)
            y64, scores = y.astype(float), a.astype(float) @ y.astype(float).T + w.astype(float)
            log_mass = logsumexp(scores, axis=1)
            mean = np.exp(scores - log_mass[:, None]) @ y64
            seen = attend(*map(jnp.asarray, (a, y, w)))
            # A score of size |beta| + |log w| has that many roundings of error, which the exponential keeps; summing adds a few.
            bound = 10 * np.finfo(dtype).eps * (1 + abs(beta) + np.abs(w).max())
            assert np.abs(np.asarray(seen.log_mass, float) - log_mass).max() < bound
            assert np.abs(np.asarray(seen.mean, float) - mean).max() < bound


@pytest.mark.parametrize("engine", [Blockwise(), *NATIVE[:1]], ids=str)
@pytest.mark.parametrize("beta", [4.0, 1000.0])
def test_two_tokens_far_from_a_hundred_thousand_are_seen_exactly(engine, beta):
    rng = np.random.default_rng(0)
    y = two_alone(rng, 10**5, 3)
    queries = np.concatenate([y[:2], y[2:1000:50]])
    a, y, w = map(jnp.asarray, (beta * queries, y, np.full(10**5, -np.log(1e5))))
    scores = np.asarray(a) @ np.asarray(y).T - np.log(1e5)
    log_mass = logsumexp(scores, axis=1)
    seen = jax.jit(engine.attend)(a, y, w)
    bound = 10 * np.finfo(float).eps * (1 + beta + np.log(1e5))  # as above
    assert np.abs(seen.log_mass - log_mass).max() < bound
    assert np.abs(seen.mean - np.exp(scores - log_mass[:, None]) @ np.asarray(y)).max() < bound


@pytest.mark.skipif(not NATIVE, reason="the native kernel is not built")
def test_native_results_do_not_depend_on_the_number_of_threads():
    a, y, w = map(jnp.asarray, cloud(5000, 700, 3, 4.0))
    one, three = (Native(threads=k).attend(a, y, w) for k in (1, 3))
    np.testing.assert_array_equal(one.mean, three.mean)
    np.testing.assert_array_equal(one.log_mass, three.log_mass)


@pytest.mark.skipif(not NATIVE, reason="the native kernel is not built")
def test_native_sums_can_be_batched():
    a, y, w = map(jnp.asarray, cloud(9, 12, 3, 1.0))
    scales = jnp.array([0.5, 1.0, 2.0])
    batched = jax.jit(jax.vmap(lambda s: Native().attend(s * a, y, w).mean))(scales)
    expected = jax.jit(jax.vmap(lambda s: Dense().attend(s * a, y, w).mean))(scales)
    np.testing.assert_allclose(batched, expected, rtol=1e-12, atol=1e-14)


def test_tokens_without_weight_are_not_seen():
    a, y, w = cloud(5, 9, 3, 2.0)
    w[4:] = -np.inf
    a, y, w = map(jnp.asarray, (a, y, w))
    expected = dense(a, y[:4], w[:4])
    for engine in ENGINES:
        np.testing.assert_allclose(jax.jit(engine.attend)(a, y, w).mean, expected.mean, rtol=1e-12, atol=1e-14)


def test_a_nan_is_not_hidden():
    a, y, w = cloud(40, 300, 3, 2.0)
    y[7, 1] = np.nan
    a, y, w = map(jnp.asarray, (a, y, w))
    for engine in ENGINES:
        assert np.isnan(jax.jit(engine.attend)(a, y, w).mean).all()


def test_forcing_the_native_engine_where_it_is_not_built_names_those_that_are(monkeypatch):
    monkeypatch.setattr(native, "available", lambda: False)
    with pytest.raises(RuntimeError, match="`Dense` and `Blockwise` work everywhere"):
        Native()
    choice._say_once.cache_clear()
    with pytest.warns(UserWarning, match="native kernel is not built"):
        assert isinstance(choose(KernelSum(10_000, 10_000, 3, "float64")), Blockwise)


GPU_CASES = [
    (np.float32, 50, 3, 4.0, 1.0),  # equal weights
    (np.float32, 600, 3, 4.0, 1e-6),  # more than one tile of sources, and not a whole number of them
    (np.float32, 50, 3, 300.0, 1e-6),  # exponentials would vanish: through blocks
    (np.float32, 40, 8, -9.0, 1e-6),
    (np.float64, 300, 2, 30.0, 1.0),
    (np.float64, 300, 3, 9.0, 1e-6),
    (np.float32, 150, 17, 30.0, 1e-6),  # products of tiles
    (np.float32, 70, 64, 1000.0, 1.0),
]


@pytest.mark.parametrize(("dtype", "n", "d", "beta", "least"), GPU_CASES)
def test_the_gpu_kernels_step_by_step_agree_with_dense(dtype, n, d, beta, least):
    y = on_sphere(np.random.default_rng(0), n, d)
    w = np.log(np.random.default_rng(1).uniform(least, 1, n))
    a, y, w = (jnp.asarray(x.astype(dtype)) for x in (beta * y, y, w))
    expected = dense(*(jnp.asarray(np.asarray(x, float)) for x in (a, y, w)))
    seen = jax.jit(Pallas(interpret=True).attend)(a, y, w)
    bound = 10 * np.finfo(dtype).eps * (1 + abs(beta) + 14)  # as for the other engines; log 1e-6 is -14
    assert np.abs(np.asarray(seen.log_mass, float) - expected.log_mass).max() < bound
    assert np.abs(np.asarray(seen.mean, float) - expected.mean).max() < bound


def test_forcing_the_gpu_engine_without_a_gpu_names_the_others():
    with pytest.raises(RuntimeError, match="`Pallas` needs an NVIDIA GPU; the default device is a cpu"):
        Pallas()

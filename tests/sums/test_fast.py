"""Fast sums keep their tolerance against dense float64 sums, whatever the tokens, weights and temperature."""

import itertools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from measureflow.sums import Blockwise, Dense, KernelSum, isolated, native, nufft, series
from measureflow.sums.devices import ALONE
from measureflow.sums.fourier import CIRCLE, Fourier
from measureflow.sums.harmonics import SPHERE, Harmonics
from measureflow.sums.nufft import Nufft


class Case(NamedTuple):
    engine: type
    series: series.Series
    dim: int
    betas: tuple[float, ...]


CASES = [
    Case(Fourier, CIRCLE, 2, (0.0, -2.0, 1.0, 16.0, 64.0, 1000.0)),
    Case(Harmonics, SPHERE, 3, (0.0, -2.0, 1.0, 16.0, 64.0, 300.0)),
]
on_both = pytest.mark.parametrize("case", CASES, ids=lambda case: case.engine.__name__)


def sphere(rng, n, d):
    points = rng.normal(size=(n, d))
    return points / np.linalg.norm(points, axis=1, keepdims=True)


def crowd(rng, n, d):
    """Nearly all on one side, two on the other."""
    points = np.eye(d)[0] + 0.01 * rng.normal(size=(n, d))
    points[: min(2, n - 1)] *= -1
    return points / np.linalg.norm(points, axis=1, keepdims=True)


def clustered(rng, n, d):
    points = sphere(rng, 3, d)[rng.integers(0, 3, n)] + 1e-3 * rng.normal(size=(n, d))
    return points / np.linalg.norm(points, axis=1, keepdims=True)


def doubled(rng, n, d):
    return np.repeat(sphere(rng, n, d), 2, 0)[:n]


def arc(n, d):
    """From one pole to the other."""
    angles = np.linspace(0, np.pi, n)
    return np.stack([np.cos(angles), np.sin(angles), *np.zeros((d - 2, n))], 1)


@pytest.fixture(params=["native", "jax"])
def road(request, monkeypatch):
    """Both implementations; the exact sums behind them are then those of JAX too."""
    if request.param == "jax":
        monkeypatch.setattr(native, "available", lambda: False)
    elif not native.available():
        pytest.skip("the native kernel is not built")


def alone(case, tolerance, a, y, w):
    """The series without exact sums: log mass, mean, and which covectors it marks as missed."""
    if native.available():
        return series.natively(series.Expansion(case.series, tolerance), a, y, w)
    return jax.jit(series.by_averages, static_argnums=0)(series.Expansion(case.series, tolerance), a, y, w)


dense = jax.jit(Dense().attend)


def close(seen, a, y, w, tolerance, radius=1.0):
    """Within the tolerance, or ten roundings of scores and log weights of this size where that is more."""
    expected = dense(*(jnp.asarray(np.asarray(x, float)) for x in (a, y, w)))
    size = 1 + radius * np.linalg.norm(a.astype(float), axis=1) + np.abs(w).max()
    allowed = np.maximum(tolerance, 10 * np.finfo(a.dtype).eps * size)
    assert (np.abs(np.asarray(seen.log_mass, float) - expected.log_mass) <= allowed).all()
    assert (np.abs(np.asarray(seen.mean, float) - expected.mean).max(1) <= radius * allowed).all()


@on_both
@pytest.mark.usefixtures("road")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_series_keep_their_tolerance(case, dtype):
    rng = np.random.default_rng(0)
    attend = jax.jit(case.engine(tolerance=1e-10).attend)
    for cloud, beta in itertools.product([sphere, clustered, crowd, doubled], case.betas):
        y = cloud(rng, 101, case.dim).astype(dtype)
        w = np.log(rng.uniform(1e-12, 1, len(y))).astype(dtype)
        a = (beta * y).astype(dtype)
        close(attend(*map(jnp.asarray, (a, y, w))), a, y, w, 1e-10)


@on_both
@pytest.mark.usefixtures("road")
@pytest.mark.parametrize("n", [2, 1025])
def test_series_take_covectors_of_all_lengths(case, n):
    rng = np.random.default_rng(n)
    y, w = sphere(rng, n, case.dim), np.log(10 ** rng.uniform(-12, 0, n))
    a = sphere(rng, 100, case.dim) * 10 ** rng.uniform(-3, 4.3, (100, 1))
    a[0] = 0
    close(jax.jit(case.engine(tolerance=1e-8).attend)(*map(jnp.asarray, (a, y, w))), a, y, w, 1e-8)


@on_both
@pytest.mark.skipif(not native.available(), reason="the native kernel is not built")
def test_tokens_far_from_a_crowd_are_found_and_summed_exactly(case):
    """Two tokens beside 10^5 that they hardly see: the series alone misses twelve digits, and its bound says so."""
    y = crowd(np.random.default_rng(0), 100_000, case.dim)
    a, y, w = jnp.asarray(16 * y), jnp.asarray(y), jnp.full(len(y), -np.log(len(y)))
    _, mean, missed = alone(case, 1e-12, a, y, w)
    expected = Blockwise().attend(a[:50], y, w)
    assert list(np.flatnonzero(missed)) == [0, 1]
    assert np.abs(mean[:2] - expected.mean[:2]).max() > 1e-12
    seen = jax.jit(case.engine(tolerance=1e-12).attend)(a, y, w)
    np.testing.assert_allclose(seen.mean[:50], expected.mean, rtol=0, atol=1e-12)
    np.testing.assert_allclose(seen.log_mass[:50], expected.log_mass, rtol=0, atol=1e-12)


@on_both
@pytest.mark.usefixtures("road")
@pytest.mark.parametrize(("beta", "tolerance"), [(16.0, 1e-10), (200.0, 1e-6)])
def test_the_error_bound_of_a_series_is_a_bound(case, beta, tolerance):
    """Tokens at all distances from a crowd, weights over many decades: whatever is not marked has its digits."""
    rng = np.random.default_rng(1)
    y = np.r_[arc(200, case.dim), crowd(rng, 1000, case.dim)[2:]]
    a, y = jnp.asarray(beta * y), jnp.asarray(y)
    w = jnp.asarray(np.r_[np.log(10 ** rng.uniform(-15, -6, 200)), np.zeros(998)])
    expected = dense(a, y, w)
    log_mass, mean, missed = map(np.asarray, alone(case, tolerance, a, y, w))
    error = np.maximum(np.abs(log_mass - expected.log_mass), np.abs(mean - expected.mean).max(1))
    assert missed[:200].any()
    assert not missed[:200].all()
    assert error[~missed].max() < tolerance


@on_both
@pytest.mark.skipif(not native.available(), reason="the native kernel is not built")
def test_series_do_not_depend_on_the_number_of_threads_nor_much_on_the_instructions(case):
    rng = np.random.default_rng(0)
    y, w = jnp.asarray(sphere(rng, 50_001, case.dim)), jnp.zeros(50_001)
    for a in (7.0 * y, jnp.asarray(rng.normal(size=(9001, case.dim)))):
        one, three = (series.natively(series.Expansion(case.series, 1e-10, k), a, y, w) for k in (1, 3))
        np.testing.assert_array_equal(one[0], three[0])
        np.testing.assert_array_equal(one[1], three[1])
        for level in (0, 1):
            # Orders of summation differ: some roundings.
            other = series.natively(series.Expansion(case.series, 1e-10, 0, level), a, y, w)
            np.testing.assert_allclose(other[1], one[1], rtol=0, atol=1e-14)


def observable(engine, a, y, w):
    log_mass, mean = engine.attend(a, y, w)
    return jnp.sum(jnp.sin(log_mass)) + jnp.sum(mean**3)


def derivatives(engine, a, y, w, da, dy, dw):
    """Value, gradient and derivative along a direction."""
    value, slope = jax.value_and_grad(observable, (1, 2, 3))(engine, a, y, w)
    along = jax.jvp(lambda *x: observable(engine, *x), (a, y, w), (da, dy, dw))[1]
    return value, *slope, along


@pytest.mark.slow
@on_both
def test_derivatives_of_series_are_those_of_dense_sums(case):
    """In every direction, also off the sphere, and for covectors that are summed exactly."""
    rng = np.random.default_rng(0)
    y = jnp.asarray(crowd(rng, 41, case.dim)[1:])
    w = jnp.asarray(np.r_[-30.0, rng.normal(size=39)])
    a = jnp.asarray(
        np.r_[np.eye(2, case.dim) * [[0.0], [0.0]], -20 * np.eye(1, case.dim), 5 * rng.normal(size=(12, case.dim))]
    )
    assert alone(case, 1e-10, a, y, w)[2].any()
    directions = [jnp.asarray(rng.normal(size=x.shape)) for x in (a, y, w)]
    got = jax.jit(derivatives, static_argnums=0)(case.engine(tolerance=1e-10), a, y, w, *directions)
    for one, other in zip(got, jax.jit(derivatives, static_argnums=0)(Dense(), a, y, w, *directions), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-8)  # the tolerance times scores of size 20


@pytest.mark.slow
@on_both
def test_gradients_of_series_keep_memory_linear(case):
    n = 2**15
    shapes = [jax.ShapeDtypeStruct(s, jnp.float64) for s in ((n, case.dim), (n, case.dim), (n,))]
    slope = jax.grad(lambda *x: observable(case.engine(), *x), (0, 1, 2))
    compiled = jax.jit(slope).lower(*shapes).compile()
    # All pairs would take 8.6 GB and all features of all tokens 0.5 GB or more; a hundred numbers for each token are 26 MB.
    assert compiled.memory_analysis().temp_size_in_bytes < 100 * 8 * n + 2**26


@on_both
@pytest.mark.usefixtures("road")
def test_a_nan_is_not_hidden_and_costs_no_exact_sums(case):
    rng = np.random.default_rng(0)
    y = sphere(rng, 300, case.dim)
    y[7, 1] = np.nan
    log_mass, mean, missed = alone(case, 1e-10, jnp.asarray(sphere(rng, 40, case.dim)), jnp.asarray(y), jnp.zeros(300))
    assert np.isnan(log_mass).all()
    assert np.isnan(mean).all()
    assert not missed.any()


@on_both
def test_batches_of_series(case):
    y, w = jnp.asarray(crowd(np.random.default_rng(0), 100, case.dim)), jnp.zeros(100)
    scales = jnp.array([0.5, 20.0, 1.0])
    batched = jax.vmap(lambda s: case.engine(tolerance=1e-10).attend(s * y, y, w).mean)(scales)
    expected = jax.vmap(lambda s: Dense().attend(s * y, y, w).mean)(scales)
    np.testing.assert_allclose(batched, expected, rtol=0, atol=1e-10)


def test_only_marked_covectors_are_summed_again():
    rng = np.random.default_rng(0)
    a, y, w = jnp.asarray(rng.normal(size=(100, 3))), jnp.asarray(rng.normal(size=(50, 3))), jnp.zeros(50)
    missed = jnp.asarray(rng.uniform(size=100) < 0.5)
    expected = dense(a, y, w)
    wrong = type(expected)(jnp.full(100, 7.0), jnp.full((100, 3), 7.0))
    seen = isolated.resummed(missed, wrong, a, y, w)
    np.testing.assert_allclose(seen.mean[missed], expected.mean[missed], rtol=1e-12, atol=1e-14)
    assert (seen.log_mass[~missed] == 7.0).all()


@on_both
def test_series_refuse_what_is_not_on_their_sphere_and_name_who_takes_it(case):
    five = jnp.ones((4, 5)) / jnp.sqrt(5.0)
    with pytest.raises(
        ValueError, match=r"coordinates; got 5. .* `Nufft` over up to 3 coordinates, `Native`, `Blockwise`"
    ):
        case.engine().attend(five, five, jnp.zeros(4))
    with pytest.raises(ValueError, match=r"a norm is off by 0.\d*. .* `Nufft`"):
        case.engine().attend(jnp.ones((4, case.dim)), jnp.ones((4, case.dim)), jnp.zeros(4))
    with pytest.raises(ValueError, match="`tolerance` must lie between"):
        case.engine(tolerance=0.0)


def test_each_engine_knows_the_sums_that_it_serves():
    sums = [KernelSum(9, 9, d, "float64", spherical, 1e-9) for spherical in (True, False) for d in (2, 3, 4)]
    assert [Fourier.serving(sum) for sum in sums] == [Fourier(1e-9), *[None] * 5]
    assert [Harmonics.serving(sum) for sum in sums] == [None, Harmonics(1e-9), *[None] * 4]
    for kind, sum in ((Fourier, sums[0]), (Harmonics, sums[1])):
        assert kind.serving(sum._replace(tolerance=None)) is None
        assert kind.serving(sum._replace(dtype="float16")) is None


needs_finufft = pytest.mark.skipif(not nufft.available(), reason="jax-finufft is not installed")


def ball(rng, n, d):
    points = rng.normal(size=(n, d))
    return points / np.linalg.norm(points, axis=1, keepdims=True) * rng.uniform(size=(n, 1))


CLOUDS = {
    "ball": ball,
    "sphere": sphere,
    "crowd": crowd,
    "large": lambda rng, n, d: 7.0 * rng.normal(size=(n, d)),
    "doubled": doubled,
}


@needs_finufft
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("d", "n", "tolerance"), [(1, 2, 1e-6), (2, 301, 1e-10), (3, 300, 1e-6), (3, 1, 1e-3)])
def test_nufft_keeps_its_tolerance(d, n, tolerance, dtype):
    rng = np.random.default_rng(0)
    attend = jax.jit(Nufft(16.0, tolerance).attend)
    for cloud, beta in itertools.product(CLOUDS.values(), [0.0, -2.0, 4.0, 16.0, 300.0]):
        y = cloud(rng, n, d).astype(dtype)
        radius = np.linalg.norm(y.astype(float), axis=1).max()
        w = np.log(rng.uniform(1e-12, 1, n)).astype(dtype)
        a = (beta / radius * cloud(rng, 100, d)).astype(dtype)
        seen = attend(*map(jnp.asarray, (a, y, w)))
        close(seen, a, y, w, tolerance, radius)


@needs_finufft
@pytest.mark.parametrize("d", [1, 2, 3])
def test_the_error_bound_of_the_transforms_is_a_bound(d):
    """Tokens at all distances from a crowd: whatever is not marked has its digits, and the farthest are marked."""
    rng = np.random.default_rng(0)
    for beta, tolerance in [(16.0, 1e-10), (4.0, 1e-3), (100.0, 1e-6)]:
        y = np.r_[np.linspace(-1, 1, 200)[:, None] * np.eye(d)[0], crowd(rng, 2000, d)[2:]]
        a, y, w = jnp.asarray(beta * y), jnp.asarray(y), jnp.asarray(np.r_[np.full(200, -25.0), np.zeros(1998)])
        expected = dense(a, y, w)
        by_transforms = jax.jit(Nufft(beta, tolerance).approximate, static_argnums=0)
        log_mass, mean, missed = map(np.asarray, by_transforms(ALONE, a, y, w))
        error = np.maximum(np.abs(log_mass - expected.log_mass), np.abs(mean - expected.mean).max(1))
        assert missed.any()
        assert not missed[200:].any()
        assert error[~missed].max() < tolerance


@pytest.mark.slow
@needs_finufft
def test_derivatives_of_nufft_sums_are_those_of_dense_sums():
    rng = np.random.default_rng(0)
    y, w = jnp.asarray(crowd(rng, 40, 3)), jnp.asarray(np.r_[-40.0, -40.0, rng.normal(size=38)])
    a = jnp.asarray(np.r_[[[-9.0, 0, 0]], rng.normal(size=(15, 3))])
    assert Nufft(9.0, 1e-9).approximate(ALONE, a, y, w)[2].any()
    directions = [jnp.asarray(rng.normal(size=x.shape)) for x in (a, y, w)]
    got = jax.jit(derivatives, static_argnums=0)(Nufft(9.0, 1e-9), a, y, w, *directions)
    for one, other in zip(got, jax.jit(derivatives, static_argnums=0)(Dense(), a, y, w, *directions), strict=True):
        np.testing.assert_allclose(
            one, other, rtol=0, atol=1e-7
        )  # the tolerance times scores of size 10 and their modes


@needs_finufft
def test_nufft_refuses_many_coordinates_and_names_who_takes_them():
    with pytest.raises(ValueError, match=r"up to 3 coordinates; got 5. `Native`, `Blockwise` and `Dense`"):
        Nufft(4.0).attend(jnp.ones((4, 5)), jnp.ones((4, 5)), jnp.zeros(4))
    with pytest.raises(ValueError, match="`reach` must be a bound"):
        Nufft(-1.0)
    known = KernelSum(9, 9, 3, "float64", tolerance=1e-6, reach=4.0)
    assert Nufft.serving(known) == Nufft(4.0, 1e-6)
    for other in ({"d": 4}, {"reach": None}, {"tolerance": None}, {"dtype": "float16"}):
        assert Nufft.serving(known._replace(**other)) is None


def test_without_finufft_the_engine_says_what_to_install(monkeypatch):
    monkeypatch.setattr(nufft, "available", lambda: False)
    with pytest.raises(ImportError, match=r"install `measureflow\[nufft\]`. `Fourier` sums over the circle without it"):
        Nufft(4.0)
    assert not Nufft.available()


@pytest.mark.slow
@on_both
def test_second_derivatives_of_series_hold_in_every_direction(case):
    rng = np.random.default_rng(0)
    y = jnp.asarray(sphere(rng, 12, case.dim))
    a, w = jnp.asarray(rng.normal(size=(7, case.dim))), jnp.asarray(rng.normal(size=12))
    directions = [jnp.asarray(rng.normal(size=x.shape)) for x in (a, y, w)]

    def bent(engine):
        slope = jax.grad(lambda *x: observable(engine, *x), (0, 1, 2))
        return jax.jit(lambda *x: jax.jvp(slope, x, tuple(directions))[1])(a, y, w)

    for one, other in zip(bent(case.engine(tolerance=1e-12)), bent(Dense()), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-10)  # the tolerance, for results of size ten

"""The kernels for a card, run step by step: sums, derivatives, batches and series are those of plain sums in float64."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from measureflow.sums import Dense, Fourier, Harmonics, Pallas, isolated, pallas, series
from measureflow.sums.fourier import CIRCLE
from measureflow.sums.harmonics import SPHERE
from measureflow.sums.pallas import lanes, products

CASES = [(np.float64, 3), (np.float64, 6), (np.float32, 2), (np.float32, 17)]
"""Second moments with the means, slopes alone, and products of tiles."""
on_all = pytest.mark.parametrize(("dtype", "d"), CASES, ids=lambda case: getattr(case, "__name__", str(case)))


def cloud(dtype, d, m=20, n=70, seed=0):
    """Covectors, sources and log weights; sums have more than one tile of lanes, and the last is not full."""
    rng = np.random.default_rng(seed)
    arrays = rng.normal(size=(m, d)) / np.sqrt(d), rng.normal(size=(n, d)), np.log(rng.uniform(1e-6, 1, n))
    return [jnp.asarray(x.astype(dtype)) for x in arrays]


def wide(tree):
    return jax.tree.map(lambda x: jnp.asarray(np.asarray(x, float)), tree)


def close(got, want, dtype, roundings):
    """Relative to the largest entry of each array."""
    for one, other in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        bound = roundings * np.finfo(dtype).eps * np.abs(other).max()
        np.testing.assert_allclose(np.asarray(one, float), other, rtol=0, atol=bound)


def observable(engine):
    def f(a, y, w):
        seen = engine.attend(a, y, w)
        return jnp.sum(jnp.sin(seen.mean)) + jnp.sum(seen.log_mass**2)

    return f


def gradient(engine):
    return jax.grad(observable(engine), (0, 1, 2))


def tangent(engine):
    return lambda a, y, w: jax.jvp(engine.attend, (a, y, w), (a**2, 0.3 * y, w + 1))[1]


def bent(engine):
    """The derivative of the gradient along a direction."""
    return lambda a, y, w: jax.jvp(gradient(engine), (a, y, w), (a**2, 0.3 * y, w + 1))[1]


@on_all
@pytest.mark.parametrize("derivative", [gradient, tangent, bent], ids=lambda f: f.__name__)
def test_derivatives_are_those_of_dense_sums(derivative, dtype, d):
    arrays = cloud(dtype, d)
    got = jax.jit(derivative(Pallas(interpret=True)))(*arrays)
    # Sums over 70 sources of terms of size up to ten, three times over; factors of products have 22 bits.
    close(got, jax.jit(derivative(Dense()))(*wide(arrays)), dtype, 100)


@pytest.mark.parametrize("which", [(0,), (1,), (2,), (0, 2)], ids=str)
def test_what_is_not_differentiated_may_be_left_out(which):
    arrays = cloud(np.float64, 3)
    got = jax.jit(jax.grad(observable(Pallas(interpret=True)), which))(*arrays)
    close(got, jax.jit(jax.grad(observable(Dense()), which))(*arrays), np.float64, 100)


@on_all
def test_a_batch_is_one_launch_with_or_without_derivatives(dtype, d):
    a, y, w = cloud(dtype, d)
    batch = jnp.stack([a, 2 * a, a**2])
    for f in (lambda e: e.attend, gradient):
        call = jax.jit(jax.vmap(f(Pallas(interpret=True)), (0, None, None)))
        close(call(batch, y, w), jax.jit(jax.vmap(f(Dense()), (0, None, None)))(*wide((batch, y, w))), dtype, 100)
    traced = str(jax.make_jaxpr(call)(batch, y, w))
    # The sum itself, and the pull of all cotangents.
    assert traced.count("pallas_call[") == traced.count("measureflow_pull[") == 1


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_averages_by_lanes_and_their_derivatives(dtype):
    a, y, w = cloud(dtype, 3)
    z = jnp.asarray(np.random.default_rng(2).normal(size=(len(y), lanes.COLUMNS + 2)).astype(dtype))

    def total(engine):
        return lambda a, y, w, z: jnp.sum(jnp.sin(engine.average(a, -engine.attend(a, y, w).log_mass, y, w, z)))

    for f in (total, lambda engine: jax.grad(total(engine), (0, 1, 2, 3))):
        got, want = jax.jit(f(Pallas(interpret=True)))(a, y, w, z), jax.jit(f(Dense()))(*wide((a, y, w, z)))
        close(got, want, dtype, 200)  # as above, and once more for the log mass in the exponent


@pytest.mark.parametrize(("least", "beta"), [(1.0, 2.0), (1e-6, 2.0), (1.0, 300.0), (1e-6, 3000.0)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_exponents_are_shifted_by_a_bound_or_by_the_largest(dtype, least, beta, monkeypatch):
    """Both ways for many sources, with and without weights, and the one for few."""
    rng = np.random.default_rng(0)
    y = rng.normal(size=(150, 3))
    w = np.log(rng.uniform(least, 1, len(y)))
    a, y, w = (jnp.asarray(x.astype(dtype)) for x in (beta * y[:40] / np.linalg.norm(y, axis=1).max() ** 2, y, w))
    expected = jax.jit(Dense().attend)(*wide((a, y, w)))
    bound = 10 * np.finfo(dtype).eps * (1 + beta + 14)  # roundings of scores and of log 1e-6
    for few in (2**13, 0):
        monkeypatch.setattr(lanes, "FEW_SOURCES", few)
        seen = jax.jit(lambda *x: tuple(Pallas(interpret=True).attend(*x)))(a, y, w)
        assert np.abs(np.asarray(seen[0], float) - expected.log_mass).max() < bound
        assert np.abs(np.asarray(seen[1], float) - expected.mean).max() < bound * np.abs(y).max()


@pytest.mark.parametrize("d", [3, 17])
def test_what_has_no_weight_is_not_seen_and_a_nan_is_not_hidden(d):
    a, y, w = (np.array(x) for x in cloud(np.float32, d))
    w[40:] = -np.inf
    attend = jax.jit(Pallas(interpret=True).attend)
    expected = jax.jit(Dense().attend)(*wide((a, y[:40], w[:40])))
    close(tuple(attend(*map(jnp.asarray, (a, y, w)))), tuple(expected), np.float32, 50)
    y[7, 1] = np.nan
    assert np.isnan(attend(*map(jnp.asarray, (a, y, w))).mean).all()


@pytest.mark.parametrize(("tolerance", "error"), [(1e-7, 1e-6), (1e-5, 2e-6), (1e-2, 2e-3)])
def test_products_keep_the_tolerance_they_are_made_for(tolerance, error):
    """In full, of two halves, and of the leading half alone, which is a thousand times less exact."""
    arrays = cloud(np.float32, 40)
    seen = jax.jit(Pallas(tolerance, interpret=True).attend)(*arrays)
    expected = jax.jit(Dense().attend)(*wide(arrays))
    worst = np.abs(np.asarray(seen.mean, float) - expected.mean).max()
    assert worst < error
    assert (worst > 1e-5) == (tolerance == 1e-2)


def test_halves_of_a_factor_have_22_bits_whatever_its_scale():
    x = jnp.asarray(np.random.default_rng(0).normal(size=(1, 9, 5)).astype(np.float32) * 1e-12)
    lead, rest, scale = jax.jit(products.split, static_argnums=(0, 2))(2, x, 16)
    assert lead.shape == (1, 16, 16)
    back = (np.asarray(lead, float) + np.asarray(rest, float)) * np.asarray(scale, float)
    np.testing.assert_allclose(back[:, :9, :5], x, rtol=2.0**-22)


@pytest.mark.parametrize("case", [CIRCLE, SPHERE], ids=lambda case: case.space)
@pytest.mark.parametrize("beta", [0.0, 1.0, 20.0])
def test_series_on_a_card_are_the_plain_sums_in_both_directions(case, beta):
    rng = np.random.default_rng(0)
    y = rng.normal(size=(300, case.dim))
    a, y = beta * rng.normal(size=(90, case.dim)), y / np.linalg.norm(y, axis=1, keepdims=True)
    b, w = -np.linalg.norm(a, axis=1), rng.normal(size=300)
    plain = np.exp(a @ y.T + b[:, None] + w)
    kernel = series.AverageKernel(case, 1e-15, interpret=True)
    # Roundings of sums of three hundred terms of size up to ten.
    there, back = rng.normal(size=(300, 5)), rng.normal(size=(90, 5))
    got = jax.jit(kernel.__call__)(*map(jnp.asarray, (a, b, y, w, there)))
    np.testing.assert_allclose(got, plain @ there, rtol=0, atol=1e-11)
    got = jax.jit(kernel.exchanged().__call__)(*map(jnp.asarray, (y, w, a, b, back)))
    np.testing.assert_allclose(got, plain.T @ back, rtol=0, atol=1e-11)


@pytest.mark.parametrize("case", [CIRCLE, SPHERE], ids=lambda case: case.space)
def test_the_tail_of_a_series_is_bounded(case):
    """By at most a few times itself, where it is above roundings."""
    degrees = np.arange(60)
    for r in (0.01, 1.0, 9.0, 30.0):
        factors = np.asarray(case.bessel(200, jnp.array([r])))[:, 0]
        beyond = factors[::-1].cumsum()[::-1][degrees + 1]
        bound = np.asarray(case.tail(jnp.asarray(degrees, float), jnp.asarray(r)))
        seen = (beyond > 1e-16) & (degrees > r)
        assert (bound[seen] >= beyond[seen]).all()
        assert (bound[seen] <= 3 * beyond[seen]).all()


@functools.cache
def lowered(engine, d: int, dtype, derivative: bool) -> str:
    """The program for a card, made without one."""
    shapes = [jax.ShapeDtypeStruct(shape, dtype) for shape in ((4096, d), (5000, d), (5000,))]
    f = jax.grad(lambda *x: observable(engine)(*x), (0, 1)) if derivative else engine.attend
    return jax.jit(lambda *x: f(*x)).trace(*shapes).lower(lowering_platforms=("cuda",)).as_text()


@pytest.fixture
def card(monkeypatch):
    """As if the default device were a card."""
    for module in (pallas, isolated.pallas, series.pallas):
        monkeypatch.setattr(module, "available", lambda: True)
    monkeypatch.setattr(series.native, "on_cpu", lambda: False)
    lowered.cache_clear()


@pytest.mark.parametrize(("d", "dtype"), [(3, "float32"), (3, "float64"), (64, "float32")])
def test_kernels_are_lowered_for_a_card_and_hold_no_pairs(d, dtype, card):
    for derivative, calls in ((False, 1), (True, 3)):
        text = lowered(Pallas(), d, dtype, derivative)
        assert text.count("custom_call @") == calls
        assert "4096x5000" not in text


@pytest.mark.parametrize(("kind", "d"), [(Fourier, 2), (Harmonics, 3)], ids=["Fourier", "Harmonics"])
def test_series_are_lowered_for_a_card(kind, d, card):
    for dtype in ("float32", "float64"):
        text = lowered(kind(1e-6), d, dtype, derivative=False)
        # Factors, moments and values for each of three numbers of degrees, and the exact sum of what is missed.
        assert text.count("custom_call @") == 10
        assert "xf64" in text

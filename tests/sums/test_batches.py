"""Native sums under `vmap` are one call of the kernel, and every member gets what it gets alone."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from measureflow.sums import Dense, Fourier, Harmonics, Native, native

pytestmark = pytest.mark.skipif(not native.available(), reason="the native kernel is not built")

AXES = [(0, None, None), (None, 0, None), (None, None, 0), (0, 0, None), (0, 0, 0)]


def batch(axes, m=37, n=21, d=3, size=5, dtype=np.float64):
    """Covectors, sources and log weights; an axis of None is shared by all members."""
    rng = np.random.default_rng(0)
    shapes = [(m, d), (n, d), (n,)]
    whole = [shape if axis is None else (size, *shape) for shape, axis in zip(shapes, axes, strict=True)]
    return [jnp.asarray(rng.normal(size=shape).astype(dtype)) for shape in whole]


def one_by_one(f, axes, arrays, size=5):
    each = [
        f(*(x if axis is None else jnp.asarray(np.asarray(x)[i]) for x, axis in zip(arrays, axes, strict=True)))
        for i in range(size)
    ]
    return jax.tree.map(lambda *leaves: np.stack(leaves), *each)


def identical(got, want):
    jax.tree.map(np.testing.assert_array_equal, got, want)


@pytest.mark.parametrize("axes", AXES, ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("d", [2, 3, 7])
def test_members_of_a_batch_get_the_bits_that_they_get_alone(axes, dtype, d):
    arrays = batch(axes, d=d, dtype=dtype)
    attend = jax.jit(Native().attend)
    identical(jax.jit(jax.vmap(Native().attend, axes))(*arrays), one_by_one(attend, axes, arrays))


@pytest.mark.parametrize("threads", [1, 3])
def test_batches_within_batches_do_not_depend_on_threads(threads):
    a, y, w = batch((None, 0, 0), m=300, n=400)
    betas = jnp.array([0.5, 2.0, -1.0])
    attend = Native(threads=threads).attend
    phases = jax.jit(jax.vmap(jax.vmap(lambda beta, y, w: attend(beta * a, y, w), (None, 0, 0)), (0, None, None)))
    for i, beta in enumerate(betas):
        alone = one_by_one(jax.jit(Native().attend), (None, 0, 0), (beta * a, y, w))
        identical(jax.tree.map(lambda x, i=i: x[i], phases(betas, y, w)), alone)


def test_a_batch_is_one_call_of_the_kernel():
    compiled = jax.jit(jax.vmap(Native().attend)).lower(*batch((0, 0, 0))).compile().as_text()
    assert compiled.count('custom_call_target="measureflow_attend"') == 1
    assert "while" not in compiled


def observable(engine):
    def f(a, y, w):
        seen = engine.attend(a, y, w)
        return jnp.sum(jnp.sin(seen.mean)) + jnp.sum(seen.log_mass**2)

    return f


def gradient(engine):
    return jax.grad(observable(engine), (0, 1, 2))


def product(engine):
    """The derivative of the gradient along a direction."""
    return lambda a, y, w: jax.jvp(gradient(engine), (a, y, w), (a**2, 0.3 * y, w + 1))


def tangent(engine):
    return lambda a, y, w: jax.jvp(engine.attend, (a, y, w), (a**2, 0.3 * y, w + 1))[1]


def jacobian(engine):
    return lambda a, y, w: jax.jacfwd(lambda y: engine.attend(a, y, w).mean)(y)


@pytest.mark.parametrize("axes", AXES, ids=str)
@pytest.mark.parametrize("derivative", [gradient, product, tangent, jacobian], ids=lambda f: f.__name__)
def test_derivatives_under_vmap_are_those_of_dense_sums(derivative, axes):
    arrays = batch(axes, m=6, n=8)
    got, want = (jax.jit(jax.vmap(derivative(engine), axes))(*arrays) for engine in (Native(), Dense()))
    # Roundings of sums of a few dozen terms of size up to a hundred.
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-11, atol=1e-11), got, want)


@pytest.mark.parametrize("axes", AXES, ids=str)
def test_derivatives_of_batches_are_those_of_dense_sums(axes):
    arrays = batch(axes, m=6, n=8)

    def total(engine):
        return lambda *arrays: jnp.sum(jax.vmap(observable(engine), axes)(*arrays) ** 2)

    def derivatives(engine):
        slope = jax.grad(total(engine), (0, 1, 2))
        return jax.jit(lambda *x: jax.jvp(slope, x, tuple(x)))(*arrays)

    got, want = (derivatives(engine) for engine in (Native(), Dense()))
    # As above, relative to derivatives of size up to 1e5.
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-10, atol=1e-8), got, want)


@pytest.mark.parametrize(("engine", "d"), [(Fourier(1e-10), 2), (Harmonics(1e-10), 3)], ids=["Fourier", "Harmonics"])
@pytest.mark.parametrize("axes", AXES, ids=str)
def test_series_take_batches_too(engine, d, axes):
    a, y, w = batch(axes, m=100, n=90, d=d)
    y = y / jnp.linalg.norm(y, axis=-1, keepdims=True)
    got = jax.jit(jax.vmap(engine.attend, axes))(a, y, w)
    identical(got, one_by_one(jax.jit(engine.attend), axes, (a, y, w)))

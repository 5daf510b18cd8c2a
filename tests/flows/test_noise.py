"""Langevin tokens: exact moments, weak order, reproducible paths."""

import jax.numpy as jnp
import numpy as np
import pytest

import measureflow as mf


def still(dim):
    """A field that does not move anything."""
    return mf.Perceptron(np.zeros((dim, 1)), np.zeros((1, dim)), np.zeros(1))


def spring(dim):
    """The field -x."""
    return mf.Perceptron(-np.eye(dim), np.eye(dim), np.zeros(dim), lambda x: x)


def at_pole(dim, n):
    return mf.Particles(mf.Sphere(dim), np.tile(np.eye(dim)[0], (n, 1)))


@pytest.mark.parametrize("dim", [2, 3, 5])
def test_diffusion_on_the_sphere_forgets_at_the_rate_of_the_laplacian(dim):
    temperature, n = 0.3, 10_000
    path = mf.evolve(
        still(dim), at_pole(dim, n), [0.0, 0.5, 1.0], mf.Euler(0.05), noise=mf.Langevin(temperature), key=0
    )
    overlap = path.map(lambda mu: mu.points[:, 0].mean())
    # The first coordinate is an eigenfunction: E<x, x0> = exp(-(d - 1) temperature t).
    # Standard error 1 / sqrt(2 n) = 0.007 at three sigma, and a weak error of order dt = 0.05 times its constant 0.1.
    np.testing.assert_allclose(overlap, np.exp(-(dim - 1) * temperature * path.times), atol=0.026)
    np.testing.assert_allclose(jnp.linalg.norm(path.final.points, axis=-1), 1.0, atol=1e-14)


@pytest.mark.busy
def test_a_spring_reaches_its_temperature():
    start = mf.Particles(mf.Euclidean(2), np.zeros((10_000, 2)))
    path = mf.evolve(spring(2), start, [0.0, 3.0], mf.Euler(0.05), noise=mf.Langevin(0.7), key=1)
    # Stationary variance is the temperature, times 1 + dt / 2 for Euler; 20 000 samples give a standard error of 0.007.
    assert float(path.final.points.var()) == pytest.approx(0.7 * (1 - np.exp(-6)) * 1.025, abs=0.025)


@pytest.mark.busy
@pytest.mark.slow
@pytest.mark.parametrize("space", ["plane", "sphere"])
def test_the_scheme_has_weak_order_one(space):
    if space == "plane":
        # Variance of x' = -x with noise at temperature 1 from zero: 1 - exp(-2t); Euler's is a geometric sum.
        start, field, noise = mf.Particles(mf.Euclidean(2), np.zeros((200_000, 2))), spring(2), mf.Langevin(1.0)
        exact, observable = 1 - np.exp(-2.0), lambda mu: (mu.points**2).mean()
    else:
        start, field, noise = at_pole(3, 200_000), still(3), mf.Langevin(1.0)
        exact, observable = np.exp(-2.0), lambda mu: mu.points[:, 0].mean()
    steps = np.array([0.5, 0.25, 0.125])
    errors = [
        abs(float(observable(mf.evolve(field, start, [0.0, 1.0], mf.Euler(dt), noise=noise, key=3).final)) - exact)
        for dt in steps
    ]
    slope = np.polyfit(np.log(steps), np.log(errors), 1)[0]
    # Errors are 0.02 and more; the sampling error of 0.001 moves the slope by less than 0.1, and the steps are coarse.
    assert slope == pytest.approx(1.0, abs=0.25)


def test_the_same_key_gives_the_same_path_and_legs_share_it():
    start = mf.Particles.iid(mf.Sphere(3), 10, key=0)
    arguments = dict(solver=mf.Euler(0.1), noise=mf.Langevin(0.2))
    field = mf.SoftmaxAttention.isotropic(3, 2.0)
    one, two, other = (mf.evolve(field, start, [0.0, 1.0, 2.0], key=key, **arguments) for key in (1, 1, 2))
    np.testing.assert_array_equal(one.final.points, two.final.points)
    assert not np.allclose(one.final.points, other.final.points)
    *_, last = mf.Flow(field, start, [0.0, 1.0, 2.0], key=1, **arguments).legs(2)
    np.testing.assert_allclose(last.final.points, one.final.points, atol=1e-12)


def test_increments_between_dense_frames_are_independent_and_have_the_right_variance():
    start = mf.Particles(mf.Euclidean(1), np.zeros((4000, 1)))
    times = jnp.linspace(0.0, 0.2, 21)
    path = mf.evolve(still(1), start, times, mf.Euler(0.1), noise=mf.Langevin(0.5), key=0)
    kicks = np.diff(np.asarray(path.measures.points)[..., 0], axis=0) / np.sqrt(0.01)
    # 80 000 increments: a variance of one has a standard error of 0.005, a correlation one of 0.0036.
    assert kicks.var() == pytest.approx(1.0, abs=0.02)
    assert (kicks[1:] * kicks[:-1]).mean() == pytest.approx(0.0, abs=0.015)


def test_the_error_estimate_compares_runs_on_one_brownian_path():
    start = mf.Particles.iid(mf.Sphere(3), 10, key=0)
    errors = [
        mf.evolve(
            mf.SoftmaxAttention.isotropic(3, 2.0),
            start,
            [0.0, 1.0],
            mf.Euler(dt),
            noise=mf.Langevin(0.01),
            key=1,
            verify=True,
        ).stats["error"]
        for dt in (0.1, 0.01)
    ]
    assert errors[1] < errors[0] / 3


BAD = {
    "no key": (dict(solver=mf.Euler(0.1), noise=mf.Langevin(1.0)), "needs a `key`"),
    "adaptive": (dict(noise=mf.Langevin(1.0), key=0), "`solver=Euler(dt)`; got Adaptive"),
}


@pytest.mark.parametrize(("arguments", "words"), BAD.values(), ids=BAD.keys())
def test_bad_noise_gets_a_sentence(arguments, words):
    with pytest.raises(ValueError, match="`noise`") as caught:
        mf.evolve(still(2), mf.Particles.iid(mf.Sphere(2), 3, key=0), [0.0, 1.0], **arguments)
    assert words in str(caught.value)


def test_a_temperature_must_be_positive():
    with pytest.raises(ValueError, match="`temperature` must be positive"):
        mf.Langevin(-1.0)

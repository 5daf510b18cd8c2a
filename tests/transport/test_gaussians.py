"""The geometry of Gaussians: distance, map, geodesic, barycenter and variational inference."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import sqrtm

import measureflow as mf
from measureflow import transport
from measureflow.transport.gaussians import bures_squared

RNG = np.random.default_rng(0)
FACTORS = RNG.normal(size=(5, 3, 3))
COVS = FACTORS @ FACTORS.mT + 0.1 * np.eye(3)
A, B = COVS[:2]
ROUNDING = 1e-12
"""Products of a few small matrices with entries of order ten in float64."""


def test_the_distance_has_its_closed_form():
    inner = sqrtm(sqrtm(A) @ B @ sqrtm(A)).real
    assert abs(transport.bures(A, B) ** 2 - np.trace(A + B - 2 * inner)) < ROUNDING


def test_in_one_dimension_it_is_the_difference_of_deviations():
    assert abs(transport.bures([[4.0]], [[9.0]]) - 1.0) < ROUNDING


def test_close_covariances_are_told_apart():
    # Half of the relative change times the root of the trace; the closed form would lose half of the digits.
    change = 1e-10
    assert abs(transport.bures(A, (1 + change) * A) / (change / 2 * np.sqrt(np.trace(A))) - 1) < 1e-4
    assert transport.bures(A, A) < 1e-14


def test_singular_covariances_have_a_distance():
    assert abs(transport.bures(np.diag([1.0, 0.0]), np.diag([0.0, 4.0])) - np.sqrt(5)) < ROUNDING


def test_the_gradient_is_one_minus_the_map():
    gradient = jax.grad(lambda a: bures_squared(a, jnp.asarray(B)) / 2)(jnp.asarray(A))
    assert np.allclose(gradient, (np.eye(3) - transport.bures_map(A, B)) / 2, rtol=0, atol=ROUNDING)


def test_derivatives_exist_where_eigenvalues_meet():
    gradient = jax.grad(lambda a: bures_squared(a, 2 * jnp.eye(3)) / 2)(jnp.eye(3))
    assert np.allclose(gradient, (1 - np.sqrt(2)) / 2 * np.eye(3), rtol=0, atol=ROUNDING)


def test_second_derivatives_are_those_of_differences():
    a, b, c = map(jnp.asarray, COVS[:3])
    slope = jax.jit(jax.grad(lambda s: bures_squared(a + s * c, b + s * a)))
    h = 1e-5
    # Central differences: h^2 times a fourth derivative of order 1e4, and rounding over h.
    assert abs(jax.grad(slope)(0.0) - (slope(h) - slope(-h)) / (2 * h)) < 1e-5


def test_the_map_pushes_one_gaussian_to_the_other():
    T = transport.bures_map(A, B)
    assert np.allclose(T @ A @ T, B, rtol=0, atol=ROUNDING)
    assert np.allclose(T, T.T, rtol=0, atol=ROUNDING)
    assert np.linalg.eigvalsh(T)[0] > 0


def test_geodesics_of_covariances_have_constant_speed():
    length = transport.bures(A, B)
    for s, t in ((0.0, 0.3), (0.3, 0.8), (0.5, 1.0)):
        parts = [transport.bures_geodesic(A, B, time) for time in (s, t)]
        assert abs(transport.bures(*parts) - (t - s) * length) < ROUNDING


def test_means_and_covariances_add_up():
    mu, nu = mf.Gaussian([0.0, 0, 1], A), mf.Gaussian([1.0, 2, 1], B)
    assert abs(transport.wasserstein(mu, nu) ** 2 - 5 - transport.bures(A, B) ** 2) < ROUNDING


def test_the_barycenter_of_commuting_covariances_is_the_square_of_the_mean_root():
    covs, weights = np.stack([np.diag(d) for d in RNG.random((4, 3)) + 0.1]), RNG.random(4)
    mean = np.tensordot(weights / weights.sum(), np.sqrt(covs), 1)
    assert np.allclose(transport.bures_barycenter(covs, weights).cov, mean @ mean, rtol=0, atol=ROUNDING)


def test_the_barycenter_does_not_depend_on_the_start_and_is_a_minimum():
    one, other = transport.bures_barycenter(COVS), transport.bures_barycenter(COVS, start=100 * np.eye(3))
    assert np.allclose(one.cov, other.cov, rtol=0, atol=1e-10)  # where a residual of 1e-12 leaves it
    objective = lambda a: sum(bures_squared(a, jnp.asarray(b)) for b in COVS)  # noqa: E731
    assert np.abs(jax.grad(objective)(one.cov)).max() < 1e-11
    two = transport.bures_barycenter(COVS[:2], [3.0, 1.0]).cov
    assert np.allclose(two, transport.bures_geodesic(A, B, 0.25), rtol=0, atol=1e-10)


@pytest.mark.parametrize("step", [0.1, 0.5])
def test_inference_of_a_gaussian_finds_it(step):
    cov = A + np.eye(3)
    precision, centre = jnp.linalg.inv(cov), jnp.array([1.0, -2.0, 0.5])
    smooth = step / jnp.linalg.eigvalsh(precision)[-1]
    potential = lambda x: (x - centre) @ precision @ (x - centre) / 2  # noqa: E731
    found = transport.gaussian_inference(potential, mf.Gaussian(np.zeros(3), np.eye(3)), step=smooth, steps=2000)
    assert np.allclose(found.final.mean, centre, rtol=0, atol=1e-10)
    assert np.allclose(found.final.cov, cov, rtol=0, atol=1e-10)


def test_inference_satisfies_the_equations_of_its_minimum():
    potential = lambda x: jnp.logaddexp(0.0, x[0] - x[1]) + (x**4).sum() / 4 + (x - 1) @ (x - 1) / 2  # noqa: E731
    law = transport.gaussian_inference(potential, mf.Gaussian(np.zeros(2), np.eye(2)), step=0.05, steps=2000).final
    # The minimum of relative entropy among Gaussians: E grad V = 0 and E hess V = S^{-1}.
    slopes = jax.jit(lambda law: (law.expect(jax.grad(potential)), law.expect(jax.hessian(potential))))
    slope, bend = slopes(law)
    assert np.abs(slope).max() < 1e-10
    assert np.abs(bend @ law.cov - np.eye(2)).max() < 1e-10


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: transport.bures([[1.0, 2.0], [0.0, 1.0]], np.eye(2)), "`a` must be symmetric"),
        (lambda: transport.bures(np.eye(2), -np.eye(2)), "`b` must have no negative eigenvalue"),
        (lambda: transport.bures(np.eye(2), np.eye(3)), "`b` must have shape"),
        (lambda: transport.bures(np.ones((2, 3)), np.eye(3)), "`a` must have shape"),
        (lambda: transport.bures_map(np.diag([1.0, 0.0]), np.eye(2)), "`a` is singular"),
        (lambda: transport.bures_barycenter(np.eye(2)), "`covs` must have shape"),
        (lambda: transport.bures_barycenter(COVS, [1.0, 2.0]), "`weights` must have shape"),
        (lambda: transport.bures_barycenter(COVS, steps=2), "`steps` 2 leave"),
        (lambda: infer(step=-1.0), "`step` must be positive"),
        (lambda: infer(steps=0), "`steps` must be at least 1"),
        (lambda: infer(step=3.0, steps=3000), "`step` 3 is too long"),
    ],
)
def test_what_is_no_covariance_is_refused_with_a_sentence(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def infer(step=0.1, steps=1):
    start = mf.Gaussian(np.ones(2), np.eye(2))
    return transport.gaussian_inference(lambda x: (x**2).sum() / 2, start, step=step, steps=steps)

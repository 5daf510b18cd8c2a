"""The laws that every measure obeys, whatever its numbers are. A new measure joins the list."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import measureflow as mf

rng = np.random.default_rng(5)


def tokens(kind, space, n=9):
    return kind(space, mf.Particles.iid(space, n, key=5).points, weights=np.arange(1.0, n + 1))


def gaussian(d):
    return mf.Gaussian.from_root(rng.normal(size=d) / 2, rng.normal(size=(d, d)) / np.sqrt(4 * d))


def ring(theta):
    return (1 + 0.5 * jnp.cos(theta - 1) + 0.2 * jnp.sin(2 * theta)) / (2 * jnp.pi)


def globe(x):
    return (1 + 0.5 * x[:, 0] + 0.3 * x[:, 1] * x[:, 2]) / (4 * jnp.pi)


MEASURES = {
    "particles in space": tokens(mf.Particles, mf.Euclidean(3)),
    "particles on a sphere": tokens(mf.Particles, mf.Sphere(4)),
    "particles in a ball": tokens(mf.Particles, mf.Ball(2, 1.5)),
    "particles in a product": tokens(mf.Particles, mf.Product(mf.Sphere(2), mf.Euclidean(1))),
    "sequence": tokens(mf.Sequence, mf.Sphere(3)),
    **{f"gaussian, d={d}": gaussian(d) for d in (1, 2, 3, 9)},
    "mixture": mf.GaussianMixture([1.0, 2.0], rng.normal(size=(2, 2)) / 2, np.stack([np.eye(2) / 4, np.eye(2) / 9])),
    "circle": mf.CircleDensity.from_function(ring, 24),
    "cells": mf.CircleCells(ring(2 * jnp.pi * jnp.arange(256.0) / 256)),
    "sphere": mf.SphereDensity.from_function(globe, 16),
    "axial": mf.AxialDensity.from_function(lambda z: 1 + 0.5 * z, dim=5, degree=16),
}
ROUNDING = 1e-12
"""Sums of at most some thousand terms of size one."""


@pytest.fixture(params=MEASURES.values(), ids=MEASURES.keys())
def mu(request):
    return request.param


def covectors(mu):
    """Three covectors, zero among them, along the first axis: there every quadrature is exact, also that about an axis."""
    return jnp.array([[0.0], [0.7], [-1.2]]) * jnp.eye(mu.space.dim)[:1]


def test_the_zero_covector_sees_mass_and_mean(mu):
    seen = mu.attend(jnp.zeros((1, mu.space.dim)))
    np.testing.assert_allclose(seen.log_mass, 0.0, atol=ROUNDING)
    np.testing.assert_allclose(seen.mean[0], mu.expect(lambda x: x), atol=ROUNDING)


def test_the_log_mass_is_the_logarithm_of_an_integral(mu):
    a = covectors(mu)
    integral = mu.integrate(lambda xs: jnp.exp(xs @ a.T))
    # The quadrature of a Gaussian in many dimensions is exact to degree five only: 1.2^6 / 6! times a variance below 1/2.
    tolerance = 1e-2 if isinstance(mu, mf.Gaussian) and mu.space.dim > 3 else 1e-9
    np.testing.assert_allclose(mu.attend(a).log_mass, jnp.log(integral), atol=tolerance)


def test_the_tilted_mean_is_the_gradient_of_the_log_mass(mu):
    a = covectors(mu) + 0.3
    gradient = jax.jit(jax.grad(lambda a: mu.attend(a).log_mass.sum()))(a)
    np.testing.assert_allclose(mu.attend(a).mean, gradient, atol=ROUNDING)


def test_an_exponential_ridge_is_what_covectors_see(mu):
    a = covectors(mu)
    seen, (mass, moment) = mu.attend(a), mu.ridge(jnp.exp, a)
    # For Gaussians a one-dimensional quadrature, good to 1e-10 here.
    np.testing.assert_allclose(mass, jnp.exp(seen.log_mass), rtol=1e-9)
    np.testing.assert_allclose(moment, jnp.exp(seen.log_mass)[:, None] * seen.mean, atol=1e-9)


def test_a_constant_weight_changes_the_mass_alone(mu):
    a = covectors(mu)
    heavier = mu.weigh(mu.potential(lambda y: jnp.full(len(y), 0.4)))
    np.testing.assert_allclose(heavier.attend(a).log_mass, mu.attend(a).log_mass + 0.4, atol=ROUNDING)
    np.testing.assert_allclose(heavier.attend(a).mean, mu.attend(a).mean, atol=ROUNDING)


def test_an_exponential_weight_is_another_covector(mu):
    a, b = covectors(mu), covectors(mu)[1]
    tilted = mu.weigh(mu.potential(lambda y: y @ b))
    np.testing.assert_allclose(tilted.attend(a).log_mass, mu.attend(a + b[None]).log_mass, atol=ROUNDING)
    np.testing.assert_allclose(tilted.attend(a).mean, mu.attend(a + b[None]).mean, atol=ROUNDING)


def test_averages_change_as_the_continuity_equation_says(mu):
    axis = jnp.eye(mu.space.dim)[0]
    rate = mu.transport(lambda xs: jnp.broadcast_to(axis, xs.shape))

    def along(f):
        return jax.jvp(lambda m: m.integrate(f), (mu,), (rate,))[1]

    expected = mu.expect(lambda x: mu.space.tangent(x, axis))
    # Cells move at second order in their width, 2 pi / 256.
    tolerance = 1e-3 if isinstance(mu, mf.CircleCells) else ROUNDING
    np.testing.assert_allclose(along(lambda xs: xs), expected, atol=tolerance)
    np.testing.assert_allclose(along(lambda xs: jnp.ones(len(xs))), 0.0, atol=ROUNDING)


def test_a_measure_on_its_space_is_settled(mu):
    for here, there in zip(jax.tree.leaves(mu), jax.tree.leaves(mu.settle()), strict=True):
        np.testing.assert_allclose(there, here, atol=ROUNDING)


def test_compiled_or_not_is_the_same(mu):
    a = covectors(mu)
    for one, other in zip(mu.attend(a), jax.jit(lambda m, a: m.attend(a))(mu, a), strict=True):
        np.testing.assert_allclose(one, other, atol=ROUNDING)

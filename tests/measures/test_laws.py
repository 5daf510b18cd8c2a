"""The laws that every measure obeys, whatever its numbers are. A new measure joins the list."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import measureflow as mf
from measureflow.measures.parcels import cut


def tokens(kind, space, n=9):
    return kind(space, mf.Particles.iid(space, n, key=5).points, weights=np.arange(1.0, n + 1))


def gaussian(d):
    rng = np.random.default_rng(d)
    return mf.Gaussian.from_root(rng.normal(size=d) / 2, rng.normal(size=(d, d)) / np.sqrt(4 * d))


def mixture():
    means = np.random.default_rng(5).normal(size=(2, 2)) / 2
    return mf.GaussianMixture([1.0, 2.0], means, np.stack([np.eye(2) / 4, np.eye(2) / 9]))


def ring(theta):
    return (1 + 0.5 * jnp.cos(theta - 1) + 0.2 * jnp.sin(2 * theta)) / (2 * jnp.pi)


def globe(x):
    return (1 + 0.5 * x[:, 0] + 0.3 * x[:, 1] * x[:, 2]) / (4 * jnp.pi)


MEASURES = {
    "particles in space": lambda: tokens(mf.Particles, mf.Euclidean(3)),
    "particles on a sphere": lambda: tokens(mf.Particles, mf.Sphere(4)),
    "particles in a ball": lambda: tokens(mf.Particles, mf.Ball(2, 1.5)),
    "particles in a product": lambda: tokens(mf.Particles, mf.Product(mf.Sphere(2), mf.Euclidean(1))),
    "sequence": lambda: tokens(mf.Sequence, mf.Sphere(3)),
    **{f"gaussian, d={d}": lambda d=d: gaussian(d) for d in (1, 2, 3, 9)},
    "mixture": mixture,
    "circle": lambda: mf.CircleDensity.from_function(ring, 24),
    "cells": lambda: mf.CircleCells(ring(2 * np.pi * np.arange(256.0) / 256)),
    "sphere": lambda: mf.SphereDensity.from_function(globe, 16),
    "axial": lambda: mf.AxialDensity.from_function(lambda z: 1 + 0.5 * z, dim=5, degree=16),
    "parcels on the circle": lambda: cut(mf.CircleDensity.from_function(ring, 24)),
    "parcels on the sphere": lambda: cut(mf.SphereDensity.from_function(globe, 8)),
    "parcels about an axis": lambda: cut(mf.AxialDensity.from_function(lambda z: 1 + 0.5 * z, dim=5, degree=16)),
}
ROUNDING = 1e-12
"""Sums of at most some thousand terms of size one."""


@pytest.fixture(scope="module", params=MEASURES)
def mu(request):
    return MEASURES[request.param]()


def covectors(mu):
    """Three covectors, zero among them, along the first axis: there every quadrature is exact, also that about an axis."""
    return np.array([[0.0], [0.7], [-1.2]]) * np.eye(mu.space.dim)[:1]


@pytest.fixture(scope="module")
def sides(mu):
    """Both sides of every law, by its subject: one program for each measure, since compiling is most of the work."""
    return both_sides(mu)


@eqx.filter_jit
def both_sides(mu):
    a, axis = jnp.asarray(covectors(mu)), jnp.eye(mu.space.dim)[0]
    seen, aside, mean = mu.attend(a), mu.attend(a + 0.3), mu.expect(lambda x: x)
    integral = mu.integrate(lambda xs: jnp.exp(xs @ a.T))
    gradient = jax.grad(lambda a: mu.attend(a).log_mass.sum())(a + 0.3)
    heavier = mu.weigh(mu.potential(lambda y: jnp.full(len(y), 0.4))).attend(a)
    tilted = mu.weigh(mu.potential(lambda y: y @ a[1])).attend(a)
    rate = mu.transport(lambda xs: jnp.broadcast_to(axis, xs.shape))
    along = lambda f: jax.jvp(lambda m: m.integrate(f), (mu,), (rate,))[1]  # noqa: E731
    return {
        "zero": (seen.mean[0], mean),
        "integral": (seen.log_mass, jnp.log(integral)),
        "gradient": (aside.mean, gradient),
        "ridge": mu.ridge(jnp.exp, a),
        "heavier": (tuple(heavier), (seen.log_mass + 0.4, seen.mean)),
        "tilted": (tuple(tilted), tuple(mu.attend(a + a[1][None]))),
        "moved": (along(lambda xs: xs), mu.expect(lambda x: mu.space.tangent(x, axis))),
        "mass": along(lambda xs: jnp.ones(len(xs))),
        "resting": eqx.filter(rate, mu.moving(), inverse=True),
        "settled": mu.settle(),
        "seen": tuple(seen),
    }


def agree(pair, **tolerance):
    for found, expected in zip(*map(jax.tree.leaves, pair), strict=True):
        np.testing.assert_allclose(found, expected, **tolerance)


def test_the_zero_covector_sees_mass_and_mean(sides):
    np.testing.assert_allclose(sides["seen"][0][0], 0.0, atol=ROUNDING)
    agree(sides["zero"], atol=ROUNDING)


def test_the_log_mass_is_the_logarithm_of_an_integral(mu, sides):
    # The quadrature of a Gaussian in many dimensions is exact to degree five only: 1.2^6 / 6! times a variance below 1/2.
    agree(sides["integral"], atol=1e-2 if isinstance(mu, mf.Gaussian) and mu.space.dim > 3 else 1e-9)


def test_the_tilted_mean_is_the_gradient_of_the_log_mass(sides):
    agree(sides["gradient"], atol=ROUNDING)


def test_an_exponential_ridge_is_what_covectors_see(sides):
    (mass, moment), (log_mass, mean) = sides["ridge"], sides["seen"]
    # For Gaussians a one-dimensional quadrature, good to 1e-10 here.
    np.testing.assert_allclose(mass, np.exp(log_mass), rtol=1e-9)
    np.testing.assert_allclose(moment, np.exp(log_mass)[:, None] * mean, atol=1e-9)


def test_a_constant_weight_changes_the_mass_alone(sides):
    agree(sides["heavier"], atol=ROUNDING)


def test_an_exponential_weight_is_another_covector(sides):
    agree(sides["tilted"], atol=ROUNDING)


def test_averages_change_as_the_continuity_equation_says(mu, sides):
    # Cells move at second order in their width, 2 pi / 256.
    agree(sides["moved"], atol=1e-3 if isinstance(mu, mf.CircleCells) else ROUNDING)
    np.testing.assert_allclose(sides["mass"], 0.0, atol=ROUNDING)


def test_what_is_said_to_stay_has_no_rate(sides):
    for rate in jax.tree.leaves(eqx.filter(sides["resting"], eqx.is_array)):
        np.testing.assert_array_equal(rate, 0.0)


def test_a_measure_on_its_space_is_settled(mu, sides):
    agree((sides["settled"], mu), atol=ROUNDING)


def test_compiled_or_not_is_the_same(mu, sides):
    agree((tuple(mu.attend(jnp.asarray(covectors(mu)))), sides["seen"]), atol=ROUNDING)

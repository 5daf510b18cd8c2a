"""Densities on the sphere, in three dimensions and symmetric about an axis in any: harmonics, attention, flows."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
from scipy.integrate import solve_ivp

import measureflow as mf
from measureflow.measures.axial import gegenbauer, gegenbauer_rule
from measureflow.measures.sphere import globe
from measureflow.theory import circle, noise

AXIS = np.array([0.3, -0.5, 0.8]) / np.linalg.norm([0.3, -0.5, 0.8])


def weight(k, dim):
    """The average of `e^{k z}` over the sphere."""
    k = np.asarray(k)
    return scipy.special.gamma(dim / 2) * (2 / k) ** (dim / 2 - 1) * scipy.special.iv(dim / 2 - 1, k)


def tilted(degree=24):
    """The density `e^{2 <x, axis>}`, not aligned with the grid."""
    return mf.SphereDensity.from_function(lambda x: jnp.exp(2 * x @ AXIS) / (4 * np.pi * weight(2.0, 3)), degree)


def axial(dim, degree=24):
    """The density `e^{2z}`."""
    return mf.AxialDensity.from_function(lambda z: jnp.exp(2 * z) / weight(2.0, dim), dim, degree)


@eqx.filter_jit
def seen(mu, a):
    """What covectors see, its derivative, the mean, and the same by a ridge."""
    slope = jax.grad(lambda a: mu.attend(a).log_mass.sum())(a)
    return mu.attend(a), slope, mu.expect(lambda x: x), mu.ridge(jnp.exp, a)[1]


@eqx.filter_jit
def mean(mu):
    return mu.expect(lambda x: x)


def moebius(z, r, dim):
    """The image of the uniform law under a Moebius map, which uniform attention keeps in its family."""
    return ((1 - r**2) / (1 - 2 * r * z + r**2)) ** (dim - 1)


def moebius_parameter(start, end, dim):
    """`r' = (1 - r²)/2` times the mean of the law, by a quadrature and an integrator that know nothing of the library."""
    z, w = scipy.special.roots_jacobi(200, (dim - 3) / 2, (dim - 3) / 2)
    mean = lambda r: (w / w.sum() * z) @ moebius(z, r, dim)  # noqa: E731
    rate = lambda t, r: (1 - r**2) / 2 * mean(r)  # noqa: E731
    return solve_ivp(rate, (0, end), [start], rtol=1e-12, atol=1e-14).y[0, -1]


def test_harmonics_are_orthonormal_and_those_of_scipy():
    grid = globe(10)
    P, w = grid.harmonics, grid.z_weights / 2
    for m in range(11):
        gram = np.einsum("li,ki,i->lk", P[m, m:], P[m, m:], w)
        np.testing.assert_allclose(gram, np.eye(len(gram)), atol=1e-13)
    l, m = 7, 3  # noqa: E741
    theirs = scipy.special.sph_harm_y(l, m, np.arccos(grid.z), 0.0).real * np.sqrt(4 * np.pi)
    np.testing.assert_allclose(np.abs(P[m, l]), np.abs(theirs), atol=1e-13)


@pytest.mark.parametrize("dim", [2, 3, 8])
def test_the_rules_along_the_axis_are_those_of_scipy(dim):
    nodes, weights = gegenbauer_rule(dim, 20)
    theirs, w = scipy.special.roots_jacobi(20, (dim - 3) / 2, (dim - 3) / 2)
    np.testing.assert_allclose(nodes, theirs, atol=1e-14)
    np.testing.assert_allclose(weights, w / w.sum(), atol=1e-14)
    p, slopes = gegenbauer(dim, 12, nodes)
    np.testing.assert_allclose((p * weights) @ p.T, np.eye(13), atol=1e-13)
    ahead, behind = (gegenbauer(dim, 12, nodes + h)[0] for h in (1e-6, -1e-6))
    np.testing.assert_allclose(slopes, (ahead - behind) / 2e-6, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("dim", [2, 3, 8])
def test_covectors_see_an_axial_density_in_closed_form(dim):
    a = np.asarray([[0.0] * dim, [0.5] * dim, [-1.0, 2.0] + [0.0] * (dim - 2)])
    k = np.linalg.norm(a + 2 * np.eye(dim)[0], axis=1)
    (log_mass, tilted_mean), slope, average, ridge = jax.tree.map(np.asarray, seen(axial(dim), jnp.asarray(a)))
    np.testing.assert_allclose(log_mass, np.log(weight(k, dim) / weight(2.0, dim)), atol=1e-13)
    np.testing.assert_allclose(slope, tilted_mean, atol=1e-13)
    np.testing.assert_allclose(tilted_mean[0], average, atol=1e-14)
    np.testing.assert_allclose(ridge, np.exp(log_mass)[:, None] * tilted_mean, rtol=1e-12, atol=1e-13)


def test_covectors_see_a_density_on_the_sphere_in_closed_form():
    a = np.asarray([[0.0, 0.0, 0.0], [1.0, 2.0, -0.5]])
    k = np.linalg.norm(a + 2 * AXIS, axis=1)
    (log_mass, tilted_mean), _, average, _ = seen(tilted(), jnp.asarray(a))
    np.testing.assert_allclose(log_mass, np.log(weight(k, 3) / weight(2.0, 3)), atol=1e-13)
    np.testing.assert_allclose(tilted_mean[0], average, atol=1e-14)
    np.testing.assert_allclose(tilted_mean[0], AXIS * (1 / np.tanh(2) - 0.5), atol=1e-13)


@pytest.mark.parametrize("beta", [4.0, -1.5])
def test_harmonics_sum_as_pairs_do(beta):
    mu = tilted(12)

    @eqx.filter_jit
    def roads(mu, beta):
        W = mu.masses[:, None] * jnp.concatenate([jnp.ones_like(mu.nodes[:, :1]), mu.nodes], axis=1)
        a, shift = beta * mu.nodes, jnp.full(len(mu.nodes), jnp.abs(beta))
        known = mu.grid.symmetric(a), mu.grid.symmetric(a[::-1])
        return known, mu.grid.fast(a, shift, W), mu.grid.direct(a, shift, W)

    (forward, backward), fast, direct = roads(mu, jnp.asarray(beta))
    assert bool(forward)
    assert not bool(backward)
    # The kernel has harmonics above degree 13 of relative size I_14(4) / I_0(4) = 1e-8, met by those of the density, 1e-10.
    np.testing.assert_allclose(fast, direct, atol=1e-13)


def test_every_degree_grows_at_its_rate():
    beta, field = 3.0, mf.UnnormalisedAttention.isotropic(3, 3.0)
    uniform = mf.SphereDensity.uniform(8)

    def rate(moments):
        mu = jax.tree.map(lambda _: moments, uniform)
        return mu.transport(lambda xs: field(0.0, xs, mu)).moments

    growth_along = jax.jit(lambda v: jax.jvp(rate, (uniform.moments,), (v,))[1])
    for l, m in ((1, 0), (2, 1), (3, 3), (6, 2)):  # noqa: E741
        step = np.zeros(uniform.moments.shape)
        step[0, l, m] = 1.0
        growth = growth_along(step)
        # Rounding, and the harmonics of the kernel that the grid does not resolve.
        np.testing.assert_allclose(growth, noise.growth(l, 0.0, beta, 1.0, 3.0) * step, atol=1e-9)


@pytest.mark.parametrize("dim", [2, 5])
def test_every_degree_grows_at_its_rate_about_an_axis(dim):
    uniform, k = mf.AxialDensity.uniform(dim, 10), np.arange(1, 8)
    for field, exact in (
        (mf.UnnormalisedAttention.isotropic(dim, 3.0), noise.growth(k, 0.0, 3.0, 1.0, float(dim))),
        (mf.SoftmaxAttention.isotropic(dim, 3.0), circle.softmax_growth(k, 3.0, dim=float(dim))),
    ):

        def rate(moments, field=field):
            mu = jax.tree.map(lambda _: moments, uniform)
            return mu.transport(lambda xs: field(0.0, xs, mu)).moments

        jacobian = jax.jit(jax.jacfwd(rate))(uniform.moments)
        np.testing.assert_allclose(jnp.diag(jacobian)[1:8], exact, atol=1e-9)  # as above


def test_uniform_attention_keeps_moebius_images_on_the_sphere():
    mu = mf.SphereDensity.from_function(lambda x: moebius(x @ AXIS, 0.2, 3) / (4 * np.pi), 40)
    path = mf.evolve(mf.SoftmaxAttention.isotropic(3, 0.0), mu, [0.0, 1.0], mf.Adaptive(1e-10))
    r = moebius_parameter(0.2, 1.0, 3)
    exact = moebius(np.asarray(mu.nodes) @ AXIS, r, 3) / (4 * np.pi)
    # Tolerance of the solver, summed over 1600 moments; r is 0.39, so harmonics end at 1e-16.
    np.testing.assert_allclose(path.final.values, exact, atol=1e-8)
    np.testing.assert_allclose(path.final.moments[0, 0, 0], 1.0, atol=1e-14)


def test_uniform_attention_keeps_moebius_images_about_an_axis():
    dim = 6
    mu = mf.AxialDensity.from_function(lambda z: moebius(z, 0.2, dim), dim, 60)
    path = mf.evolve(mf.SoftmaxAttention.isotropic(dim, 0.0), mu, [0.0, 1.0], mf.Adaptive(1e-10))
    exact = moebius(mu.grid.z, moebius_parameter(0.2, 1.0, dim), dim)
    np.testing.assert_allclose(path.final.values, exact, atol=1e-8 * exact.max())  # tolerance, summed over 60 moments


def test_the_sphere_and_its_axial_reduction_agree_with_noise():
    field, times = mf.SoftmaxAttention.isotropic(3, 2.0), [0.0, 0.5]
    full = mf.SphereDensity.from_function(lambda x: jnp.exp(2 * x[:, 0]) / (4 * np.pi * weight(2.0, 3)), 24)
    paths = [mf.evolve(field, mu, times, noise=mf.Langevin(0.1)) for mu in (full, axial(3))]
    means = [mean(path.final) for path in paths]
    np.testing.assert_allclose(*means, atol=1e-8)  # the tolerance of both flows


def test_heat_forgets_a_degree_at_its_eigenvalue():
    nu, mu = tilted(), axial(6)
    warmed = eqx.filter_jit(lambda mu, span: mu.heat(span))
    np.testing.assert_allclose(mean(warmed(nu, jnp.asarray(0.3))), np.exp(-0.6) * np.asarray(mean(nu)), atol=1e-14)
    np.testing.assert_allclose(warmed(mu, jnp.asarray(0.3)).moments[1], np.exp(-0.3 * 5) * mu.moments[1], rtol=1e-13)
    for each in (nu, mu):
        ahead, behind = (np.asarray(warmed(each, jnp.asarray(h)).moments) for h in (1e-5, -1e-5))
        change = (ahead - behind) / 2e-5
        np.testing.assert_allclose(
            each.diffuse(1.0).moments, change, atol=1e-4
        )  # third power of the highest eigenvalue


@pytest.mark.parametrize("make", [tilted, lambda: axial(6)], ids=["sphere", "axial"])
def test_samples_have_the_moments_of_the_density(make):
    mu, n = make(), 40_000
    tokens = mu.sample(n, key=0)
    weights, points = np.asarray(tokens.weights), np.asarray(tokens.points)
    drawn = weights @ points, (weights * points.T) @ points
    known = eqx.filter_jit(lambda mu: (mu.expect(lambda x: x), mu.expect(lambda x: jnp.outer(x, x))))(mu)
    for found, expected in zip(drawn, known, strict=True):
        # Four standard errors of variables of size one, and cells of the grid, (pi / 38)² / 24 = 3e-4.
        np.testing.assert_allclose(found, expected, atol=4 / np.sqrt(n) + 3e-4)


def test_tokens_follow_the_axial_density_in_high_dimension():
    mu, n = axial(8), 4000
    field, times = mf.SoftmaxAttention.isotropic(8, 2.0), [0.0, 1.0]
    tokens = mf.evolve(field, mu.sample(n, key=1), times, mf.RK4(0.25)).final
    path = mf.evolve(field, mu, times)
    np.testing.assert_allclose(mean(tokens), mean(path.final), atol=4 / np.sqrt(n))  # four standard errors


@pytest.mark.slow
def test_a_higher_degree_than_needed_changes_nothing_and_costs_no_steps():
    start = lambda x: (1 + 0.1 * x[:, 0] + 0.05 * x[:, 1] * x[:, 2]) / (4 * jnp.pi)  # noqa: E731
    field = mf.SoftmaxAttention.isotropic(3, 1.0)
    low, high = (mf.evolve(field, mf.SphereDensity.from_function(start, k), [0.0, 2.0]) for k in (24, 64))
    assert low.outcome.ok
    assert high.outcome.ok
    assert high.stats["steps"] <= low.stats["steps"] + 2  # the highest harmonics carry no mass, so they limit no step
    # Both runs keep a relative tolerance of 1e-8 in about ten steps.
    np.testing.assert_allclose(high.final.moments[:, :25, :25], low.final.moments, atol=1e-7)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: mf.SphereDensity(np.ones(10), 4), "`values` must have shape"),
        (lambda: mf.SphereDensity.from_function(lambda x: x[:, 0], 4), "must not be negative"),
        (lambda: mf.SphereDensity.from_function(lambda x: 1 + x[:, 0], 4), "mass 1 within 1e-06; got 12.5664"),
        (lambda: tilted(4), "`degree` 4 resolves the density only to"),
        (lambda: mf.SphereDensity.uniform(0), "`degree` must be at least 1"),
        (lambda: mf.AxialDensity(np.ones(3), 4, 8), "`values` must have shape"),
        (lambda: mf.AxialDensity.from_function(lambda z: z, 4, 8), "must not be negative"),
        (lambda: mf.AxialDensity.from_function(lambda z: 2 + z, 4, 8), "mass 1 within 1e-06; got 2"),
        (lambda: axial(5, 4), "`degree` 4 resolves the density only to"),
        (lambda: mf.AxialDensity.uniform(1, 4), "`dim` counts ambient coordinates"),
        (
            lambda: mf.evolve(mf.SoftmaxAttention(np.diag(np.arange(5.0)), np.eye(5)), axial(5), [0.0, 1.0]),
            "not symmetric about the first axis",
        ),
    ],
)
def test_bad_input_gets_a_sentence(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()

"""Densities on the circle: laws of measures, spectral accuracy, positivity, and what users may pass."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

import measureflow as mf
from measureflow.measures.density import exponential_sums
from measureflow.theory import circle, kuramoto, noise


def bumps(angle):
    """A smooth density without symmetry."""
    return 0.6 * circle.von_mises(angle - 1.0, 2.0) + 0.4 * circle.von_mises(angle + 2.0, 5.0)


def cells(n):
    """The same density on cells; point values are averages up to the square of the width."""
    values = bumps(2 * np.pi * np.arange(n) / n)
    return mf.CircleCells(values / (values.mean() * 2 * np.pi))


def line(n=20001):
    """A fine trapezoid rule that knows nothing of the library."""
    angles = 2 * np.pi * np.arange(n) / n
    return np.stack([np.cos(angles), np.sin(angles)], 1), np.asarray(bumps(angles)) * 2 * np.pi / n


COVECTORS = np.array([[0.0, 0.0], [3.0, -1.0], [-0.2, 6.0]])
DENSITIES = {"fourier": lambda: mf.CircleDensity.from_function(bumps, 48), "cells": lambda: cells(4000)}


@eqx.filter_jit
def attend(mu, a):
    return mu.attend(a)


@eqx.filter_jit
def rates(mu, velocity):
    return mu.transport(velocity)


def turn(x):
    return jnp.stack([-x[:, 1], x[:, 0]], 1)


def swirl(x):
    """A velocity along the circle that changes with the angle."""
    return turn(x) * jnp.exp(x[:, :1])


@pytest.fixture(scope="module")
def settled_path():
    """A flow of the density that its tokens are held against; resolved to the end."""
    mu = mf.CircleDensity.from_function(bumps, 128)
    return mf.evolve(mf.SoftmaxAttention.isotropic(2, 2.0), mu, [0.0, 1.0, 2.0])


def moments(tokens):
    """First and second moments of tokens in every frame, on the host."""
    w, x = np.exp(np.asarray(tokens.log_weights)), np.asarray(tokens.points)
    return np.einsum("...n,...nd->...d", w, x), np.einsum("...n,...nd,...ne->...de", w, x, x)


@pytest.fixture(params=DENSITIES)
def mu(request):
    return DENSITIES[request.param]()


def tolerance(mu):
    # Fourier: rounding. Cells: rectangles on a smooth density, so rounding too, until their averages matter.
    return 1e-13 if isinstance(mu, mf.CircleDensity) else 1e-12


def test_covectors_see_the_integral(mu):
    points, masses = line()
    kernel = np.exp(COVECTORS @ points.T) * masses
    seen = attend(mu, jnp.asarray(COVECTORS))
    np.testing.assert_allclose(seen.log_mass, np.log(kernel.sum(1)), atol=tolerance(mu))
    np.testing.assert_allclose(seen.mean, kernel @ points / kernel.sum(1, keepdims=True), atol=tolerance(mu))


def test_the_convolution_is_the_sum_and_so_are_its_derivatives():
    grid = mf.CircleDensity.from_function(bumps, 16).grid
    rng = np.random.default_rng(0)
    W, dW, da = map(jnp.asarray, rng.normal(size=(3, len(grid.nodes), 2)))
    a = jnp.asarray(3.0 * np.asarray(grid.nodes) @ np.array([[0.6, 0.8], [-0.8, 0.6]]))
    shift = jnp.full(len(a), 3.0)

    @jax.jit
    def derivatives(a, W):
        def of(f):
            once = lambda a, W: jax.jvp(f, (a, W), (da, dW))[1]  # noqa: E731
            back = jax.grad(lambda a, W: (f(a, W) ** 2).sum(), argnums=(0, 1))
            return jax.jvp(once, (a, W), (da, dW))[1], back(a, W)

        values = grid.symmetric(a), grid.fast(a, shift, W), grid.direct(a, shift, W)
        ours, plain = (lambda a, W: exponential_sums(grid, a, shift, W)), (lambda a, W: grid.direct(a, shift, W))
        return values, of(ours), of(plain)

    (symmetric, fast, direct), (twice, back), (twice_plain, back_plain) = derivatives(a, W)
    assert bool(symmetric)
    np.testing.assert_allclose(fast, direct, atol=1e-14)
    np.testing.assert_allclose(twice, twice_plain, rtol=1e-10, atol=1e-11)  # rounding, with sums of size 1e3
    for found, expected in zip(back, back_plain, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)


def test_covectors_in_another_order_are_not_taken_for_a_polygon():
    mu = mf.CircleDensity.from_function(bumps, 16)
    a = 2.0 * np.asarray(mu.nodes)
    turned = jnp.asarray(a[::-1])
    assert not bool(jax.jit(mu.grid.symmetric)(turned))
    np.testing.assert_allclose(attend(mu, turned).mean, attend(mu, jnp.asarray(a)).mean[::-1], atol=1e-14)


@pytest.mark.parametrize(
    "field",
    [
        mf.SoftmaxAttention([[1.0, 0.4], [-0.3, 2.0]], [[1.0, 0.2], [0.0, 0.7]]),
        mf.L2Attention([[1.0, 0.4], [0.0, 1.0]], [[0.5, 0.0], [0.2, 1.0]], np.eye(2)),
        mf.SinkhornAttention([[1.0, 0.4], [0.4, 0.5]], np.eye(2)),
        mf.SigmoidAttention.isotropic(2, 2.0),
        mf.LinearAttention.isotropic(2, 2.0),
        mf.UnnormalisedAttention.isotropic(2, 3.0),
        mf.GradientFlow(-mf.InteractionEnergy(2.0)),
    ],
    ids=lambda f: type(f).__name__,
)
def test_every_field_moves_a_density_as_it_moves_its_tokens(field):
    mu = mf.CircleDensity.from_function(bumps, 48)
    tokens = mf.Particles(mf.Sphere(2), mu.nodes, mu.masses)
    # One quadrature seen as tokens: the same sums, so rounding, and what the Sinkhorn sweeps leave.
    ours, theirs = (jax.jit(lambda m: field(0.0, mu.nodes, m))(m) for m in (mu, tokens))
    np.testing.assert_allclose(ours, theirs, atol=1e-10)


def test_transport_is_minus_the_derivative_of_the_flux():
    mu = mf.CircleDensity.from_function(bumps, 64)
    rate = rates(mu, swirl)
    values = eqx.filter_jit(lambda mu: mu.values)(rate)
    angle = jnp.asarray(mu.grid.angles)
    exact = jax.jit(jax.vmap(jax.grad(lambda t: -bumps(t) * jnp.exp(jnp.cos(t)))))(angle)
    np.testing.assert_allclose(values, exact, atol=1e-12)  # rounding times the highest mode
    np.testing.assert_array_equal(rate.moments[:, 0], 0.0)


def test_uniform_attention_follows_the_law_of_ott_and_antonsen():
    mu = mf.CircleDensity.from_function(lambda t: circle.poisson_kernel(t, 0.2), 256)
    path = mf.evolve(mf.SoftmaxAttention.isotropic(2, 0.0), mu, jnp.linspace(0.0, 4.0, 5), mf.Adaptive(1e-11, 1e-13))
    r = kuramoto.order_parameter(path.times, 0.2)
    # The target of the circle PDE; moments are r^k and at the end r = 0.83, so all are resolved.
    np.testing.assert_allclose(path.measures.moments[:, 0, 1], r, atol=1e-12)
    exact = jnp.stack([circle.poisson_kernel(jnp.asarray(mu.grid.angles), s) for s in r])
    np.testing.assert_allclose(path.measures.values, exact, atol=1e-10)
    np.testing.assert_array_equal(path.measures.moments[:, 0, 0], path.measures.moments[0, 0, 0])


@pytest.mark.parametrize("kind", ["unnormalised", "softmax"])
@pytest.mark.parametrize("beta", [2.0, 10.0])
def test_each_mode_of_the_uniform_density_grows_at_its_rate(kind, beta):
    field = {"unnormalised": mf.UnnormalisedAttention, "softmax": mf.SoftmaxAttention}[kind].isotropic(2, beta)
    uniform = mf.CircleDensity.uniform(32)

    def rate(moments):
        mu = jax.tree.map(lambda _: moments, uniform)
        return mu.transport(lambda xs: field(0.0, xs, mu)).moments[0]

    k = np.arange(1, 33)
    growth = jnp.diag(jax.jit(jax.jacfwd(rate))(uniform.moments)[:, 0])[1:]
    exact = noise.growth(k, 0.0, beta) if kind == "unnormalised" else circle.softmax_growth(k, beta)
    np.testing.assert_allclose(growth, exact, rtol=1e-10, atol=1e-12 * float(exact.max()))  # rounding


def test_energy_rises_at_the_rate_of_squared_speed():
    mu, energy = mf.CircleDensity.from_function(bumps, 48), mf.InteractionEnergy(2.0)
    field = mf.UnnormalisedAttention.isotropic(2, 2.0)

    @jax.jit
    def both(mu):
        rise = jax.jvp(energy, (mu,), (mu.transport(lambda xs: field(0.0, xs, mu)),))[1]
        tangent = jax.vmap(mu.space.tangent)(mu.nodes, field(0.0, mu.nodes, mu))
        return rise, mu.masses @ (tangent**2).sum(-1)

    np.testing.assert_allclose(*both(mu), rtol=1e-12)  # rounding; geshkovski:25


def test_a_disturbed_uniform_density_breaks_into_the_predicted_number_of_clusters():
    beta, k = 10.0, np.arange(1.0, 9.0)[:, None]
    start = lambda t: (1 + 1e-5 * jnp.cos(k * (t[None] - k**2)).sum(0)) / (2 * jnp.pi)  # noqa: E731
    mu = mf.CircleDensity.from_function(start, 64)
    path = mf.evolve(mf.SoftmaxAttention.isotropic(2, beta), mu, jnp.linspace(0.0, 16.0, 5))
    sizes = np.hypot(*path.final.moments)[1:9]
    assert 1 + int(np.argmax(sizes)) == int(circle.first_clusters(beta)) == 4
    assert path.outcome.ok


def test_tokens_at_quantiles_follow_the_density(settled_path):
    start, field = settled_path.at(0).quantiles(1000), mf.SoftmaxAttention.isotropic(2, 2.0)
    tokens = mf.evolve(field, start, [0.0, 1.0, 2.0], mf.RK4(0.05))
    found = settled_path.map(lambda m: (m.expect(lambda x: x), m.expect(lambda x: jnp.outer(x, x))))
    for ours, theirs in zip(found, moments(tokens.measures), strict=True):
        # Midpoints of equal masses: an error of the square of their distance, 1000^-2 = 1e-6, with a constant near one;
        # fourth-order steps of 0.05 add about as much.
        np.testing.assert_allclose(ours, theirs, atol=1e-5)


@pytest.mark.slow
def test_more_modes_than_needed_change_nothing_and_cost_no_steps():
    start = lambda t: (1 + 1e-3 * jnp.cos(t - 1) + 1e-3 * jnp.sin(2 * t)) / (2 * jnp.pi)  # noqa: E731
    field = mf.SoftmaxAttention.isotropic(2, 1.0)
    # Five frames, as in the test of clusters, so that the flow of 64 modes is compiled once for both.
    times = np.linspace(0.0, 8.0, 5)
    few, many = (mf.evolve(field, mf.CircleDensity.from_function(start, k), times) for k in (64, 512))
    assert few.outcome.ok
    assert many.outcome.ok
    assert many.stats["steps"] <= few.stats["steps"] + 2  # the fastest waves carry no mass, so they limit no step
    # Both runs keep a relative tolerance of 1e-8 in about ten steps.
    np.testing.assert_allclose(many.final.moments[:, :65], few.final.moments, atol=1e-7)


@pytest.mark.busy
@pytest.mark.slow
def test_a_sample_of_twenty_thousand_tokens_follows_the_density(settled_path):
    n, field = 20_000, mf.SoftmaxAttention.isotropic(2, 2.0)
    tokens = mf.evolve(field, settled_path.at(0).sample(n, key=0), [0.0, 1.0], mf.RK4(0.25))
    # Four standard errors of a mean of size one, and the flow stretches by no more than e.
    mean = settled_path.at(1).expect(lambda x: x)
    np.testing.assert_allclose(mean, moments(tokens.final)[0], atol=4 * np.e / np.sqrt(n))


def test_a_sample_has_the_law_of_the_density():
    mu = mf.CircleDensity.from_function(bumps, 64)
    points = mu.sample(100_000, key=1).points
    angles = np.mod(np.arctan2(points[:, 1], points[:, 0]), 2 * np.pi)
    fine, masses = 2 * np.pi * np.arange(20001) / 20001, line()[1]
    gap = np.abs(np.interp(np.sort(angles), fine, np.cumsum(masses)) - np.arange(100_000) / 100_000).max()
    assert gap < 1.63 / np.sqrt(100_000)  # Kolmogorov's bound at 1 %
    assert scipy.special.kolmogorov(1.63) < 0.011


def test_cells_stay_positive_and_keep_their_mass():
    mu = mf.CircleCells(np.where(np.arange(400) < 200, 1 / np.pi, 0.0))
    dt = 0.5 * mu.width  # speeds are at most one
    path = mf.evolve(mf.SoftmaxAttention.isotropic(2, 4.0), mu, jnp.linspace(0.0, 6.0, 7), mf.Heun(dt))
    assert float(path.measures.values.min()) == 0.0
    # Differences of fluxes cancel in exact arithmetic; a few thousand roundings remain.
    np.testing.assert_allclose(path.measures.masses.sum(-1), 1.0, atol=1e-12)
    assert float(path.final.values.max()) > 5  # a cluster has formed


def test_cells_move_at_second_order():
    errors = []
    for n in (200, 400, 800):
        mu = cells(n)
        rate = rates(mu, swirl)
        flux = lambda t: np.asarray(bumps(t)) * np.exp(np.cos(t))  # noqa: E731
        exact = (flux(mu.grid.angles - 1e-5) - flux(mu.grid.angles + 1e-5)) / 2e-5
        errors.append(np.median(np.abs(rate.values - exact)))
    # Limited slopes are of first order at the four extrema, so the median tells the order of the rest.
    np.testing.assert_allclose(np.log2(np.array(errors[:-1]) / errors[1:]), 2.0, atol=0.15)


def test_a_flow_that_is_no_longer_resolved_ends_with_a_sentence_unless_filtered():
    plain, filtered = (
        mf.CircleDensity.from_function(lambda t: circle.poisson_kernel(t, 0.3), 32, filter=f) for f in (None, 8)
    )
    field, times = mf.SoftmaxAttention.isotropic(2, 0.0), jnp.linspace(0.0, 8.0, 5)
    path = mf.evolve(field, plain, times)
    assert not bool(path.outcome.ok)
    assert "no longer resolved" in str(path.outcome)
    assert float(path.final.negative_mass) > 1e-3
    path = mf.evolve(field, filtered, times)
    assert path.outcome.ok
    # 32 moments cannot tell a cluster narrower than 1/32; its mean is off by the square of that.
    np.testing.assert_allclose(path.measures.moments[:, 0, 1], kuramoto.order_parameter(times, 0.3), atol=1 / 32**2)


def test_a_filter_leaves_resolved_densities_alone():
    plain, filtered = (rates(mf.CircleDensity.from_function(bumps, 96, filter=f), turn) for f in (None, 8))
    np.testing.assert_allclose(filtered.moments, plain.moments, atol=1e-6)  # m_k (k / 96)^8, with m_k near e^{-k/3}


def test_values_come_back_from_an_even_and_an_odd_number():
    for n in (10, 11):
        values = np.abs(np.sin(np.arange(n))) + 0.1
        values /= values.mean() * 2 * np.pi
        np.testing.assert_allclose(mf.CircleDensity(values).sampled(10 * n)[::10], values, atol=1e-15)


@pytest.mark.slow
def test_flows_of_densities_jit_vmap_and_differentiate():
    def order(beta):
        mu = mf.CircleDensity.from_function(bumps, 12)
        return mf.evolve(mf.SoftmaxAttention.isotropic(2, beta), mu, [0.0, 0.5]).final.moments[0, 1]

    betas = jnp.array([0.5, 1.5])
    slope = jax.jit(jax.vmap(jax.grad(order)))(betas)
    h, orders = 1e-4, jax.jit(jax.vmap(order))
    differences = (orders(betas + h) - orders(betas - h)) / (2 * h)
    np.testing.assert_allclose(slope, differences, atol=1e-6)  # tolerance 1e-10 of the flow over h


def test_densities_work_in_single_precision():
    values = np.asarray(bumps(2 * np.pi * np.arange(65) / 65), np.float32)
    field = mf.SoftmaxAttention(np.eye(2, dtype=np.float32), np.eye(2, dtype=np.float32))
    single, double = mf.CircleDensity(values), mf.CircleDensity.from_function(bumps, 32)
    moved = eqx.filter_jit(lambda mu, field: mu.transport(lambda xs: field(0.0, xs, mu)))
    rate = moved(single, field)
    assert rate.moments.dtype == jnp.float32
    exact = moved(double, mf.SoftmaxAttention.isotropic(2, 1.0))
    np.testing.assert_allclose(rate.moments, exact.moments, atol=1e-5)  # rounding times the highest moment


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: mf.CircleDensity([0.5, -0.1, 0.1]), "must not be negative; entry 1 is -0.1"),
        (lambda: mf.CircleDensity(np.ones(8)), "must have mass 1 within 1e-06; got 6.28319"),
        (lambda: mf.CircleDensity(np.ones((2, 8))), "must have shape"),
        (lambda: mf.CircleDensity([0.3, 0.2]), "at least 3 angles"),
        (lambda: mf.CircleDensity([0.3, np.nan, 0.2]), "NaN"),
        (lambda: mf.CircleDensity.uniform(8, filter=3), "even order"),
        (lambda: mf.CircleDensity.uniform(0), "`modes` must be at least 1"),
        (lambda: mf.CircleDensity.uniform(8).sampled(16), "more than 16"),
        (lambda: mf.CircleCells([0.5, -0.1, 0.1]), "must not be negative"),
        (lambda: mf.CircleCells(np.ones(8)), "must have mass 1"),
        (lambda: mf.CircleCells([0.1]), "at least 3 cells"),
        (lambda: mf.CircleDensity.uniform(8).using(mf.sums.Dense()), "sums over its grid"),
        (
            lambda: mf.evolve(mf.HardmaxAttention.isotropic(2), mf.CircleDensity.uniform(8), [0.0, 1.0]),
            "needs a measure with support points",
        ),
    ],
)
def test_bad_input_gets_a_sentence(make, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence):
        make()

"""Distances agree with each other whichever way they are computed, and with the metric laws."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist
from scipy.stats import wasserstein_distance

import measureflow as mf
from measureflow import transport

SPACES = [mf.Euclidean(1), mf.Euclidean(3), mf.Sphere(2), mf.Sphere(3)]
ROUNDING = 1e-12
"""Sums of fewer than a hundred terms of order one in float64."""


def cloud(space, n, seed, weighted=True):
    weights = np.random.default_rng(seed).random(n) + 0.1 if weighted else None
    return mf.Particles(space, mf.Particles.iid(space, n, key=seed).points, weights)


@pytest.mark.parametrize("p", [1, 1.5, 2, 3])
@pytest.mark.parametrize("space", [mf.Euclidean(1), mf.Sphere(2)], ids=str)
def test_sorting_agrees_with_the_simplex(space, p):
    mu, nu = cloud(space, 40, 0), cloud(space, 33, 1)
    assert abs(transport.wasserstein(mu, nu, p) - transport.coupling(mu, nu, p).distance) < ROUNDING


def test_distances_on_a_line_are_those_of_scipy():
    mu, nu = cloud(mf.Euclidean(1), 50, 0), cloud(mf.Euclidean(1), 60, 1)
    expected = wasserstein_distance(*(np.asarray(m.points[:, 0]) for m in (mu, nu)), mu.weights, nu.weights)
    assert abs(transport.wasserstein(mu, nu, 1) - expected) < ROUNDING


@pytest.mark.parametrize("p", [1, 2])
def test_equal_weights_give_the_best_assignment(p):
    mu, nu = (cloud(mf.Euclidean(3), 50, seed, weighted=False) for seed in (0, 1))
    costs = cdist(mu.points, nu.points) ** p
    assert abs(transport.wasserstein(mu, nu, p) - costs[linear_sum_assignment(costs)].mean() ** (1 / p)) < ROUNDING


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_two_points_are_as_far_apart_as_in_the_space(space):
    x, y = (mf.Particles.iid(space, 1, key=seed) for seed in (0, 1))
    for p in (1, 2):
        assert abs(transport.wasserstein(x, y, p) - space.distance(x.points[0], y.points[0])) < ROUNDING


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_the_laws_of_a_metric_hold(space):
    a, b, c = (cloud(space, 20, seed) for seed in range(3))
    for p in (1, 2):
        ab, bc, ac = (float(transport.wasserstein(*pair, p)) for pair in ((a, b), (b, c), (a, c)))
        assert ac <= ab + bc + ROUNDING
        assert abs(transport.wasserstein(b, a, p) - ab) < ROUNDING
        # The root of a rounded zero.
        assert transport.wasserstein(a, a, p) < ROUNDING ** (1 / p)


def test_the_circle_is_measured_around_both_ways():
    angles = jnp.array([0.1, 3.0, -3.0])
    at = lambda turn: mf.Particles(mf.Sphere(2), jnp.stack([jnp.cos(angles + turn), jnp.sin(angles + turn)], 1))  # noqa: E731
    for turn in (0.3, -0.4, 2 * np.pi - 0.2):
        short = abs((turn + np.pi) % (2 * np.pi) - np.pi)
        assert abs(transport.wasserstein(at(0.0), at(turn), 2) - short) < ROUNDING


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_splitting_a_particle_changes_nothing(space):
    mu, nu = cloud(space, 10, 0), cloud(space, 20, 1)
    split = mf.Particles(space, jnp.concatenate([mu.points, mu.points]), jnp.concatenate([mu.weights, mu.weights]))
    assert abs(transport.wasserstein(split, nu) - transport.wasserstein(mu, nu)) < ROUNDING


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_derivatives_are_those_of_differences(space):
    mu, nu = cloud(space, 20, 0), cloud(space, 20, 1)
    direction = jax.vmap(space.tangent)(
        mu.points, jnp.cos(jnp.arange(mu.points.size, dtype=float)).reshape(mu.points.shape)
    )
    along = jax.jit(lambda s: transport.wasserstein(mu.advance(s * direction), nu))
    h = 1e-5
    # Central differences are off by h^2 and by rounding over h.
    assert abs(jax.grad(along)(0.0) - (along(h) - along(-h)) / (2 * h)) < 1e-8


def test_derivatives_are_finite_where_points_coincide():
    mu = cloud(mf.Euclidean(3), 10, 0)
    moved = mu.shift(jnp.zeros_like(mu.points).at[0, 0].set(1.0))
    slope = jax.grad(lambda m: transport.wasserstein(m, mu))(moved).points
    assert jnp.isfinite(slope).all()
    assert abs(slope[0, 0] - jnp.sqrt(mu.weights[0])) < ROUNDING


def test_distances_map_over_the_frames_of_a_flow():
    start = cloud(mf.Sphere(3), 15, 0)
    path = mf.evolve(mf.SoftmaxAttention.isotropic(3, 1.0), start, np.linspace(0.0, 1.0, 4))
    mapped = path.map(lambda mu: transport.wasserstein(mu, start))
    assert np.allclose(mapped, [transport.wasserstein(mu, start) for mu in path], rtol=0, atol=ROUNDING)


def test_a_frame_that_was_not_reached_has_no_distance():
    mu = cloud(mf.Euclidean(2), 5, 0)
    lost = mu.shift(jnp.full_like(mu.points, jnp.inf))
    assert jnp.isnan(transport.wasserstein(lost, mu))


def test_two_thousand_points_take_seconds():
    mu, nu = (mf.Particles.iid(mf.Euclidean(3), 2000, key=seed) for seed in (0, 1))
    distance = transport.wasserstein(mu, nu)
    # Brenier: the coupling is cyclically monotone, so no two targets want to be exchanged.
    best = transport.coupling(mu, nu)
    x, y = mu.points[best.sources], nu.points[best.targets]
    assert ((x[:, None] - x[None]) * (y[:, None] - y[None])).sum(-1).min() > -ROUNDING
    assert abs(best.distance - distance) < ROUNDING


def test_particles_of_a_gaussian_are_as_far_as_its_moments_say_at_least():
    mu, nu = mf.Gaussian([0.0, 1.0], np.diag([1.0, 2.0])), mf.Gaussian([1.0, 0.0], [[2.0, 0.5], [0.5, 1.0]])
    xs, ys = (law.sample(300, key=seed) for seed, law in enumerate((mu, nu)))
    moments = [mf.Gaussian(m.points.mean(0), np.cov(np.asarray(m.points).T, bias=True)) for m in (xs, ys)]
    assert transport.wasserstein(*moments) <= transport.wasserstein(xs, ys)
    # 300 draws of two dimensions: twice the rate (log n / n)^{1/2} of each sample.
    assert abs(transport.wasserstein(xs, ys) - transport.wasserstein(mu, nu)) < 4 * np.sqrt(np.log(300) / 300)


def test_slices_of_a_shift_see_its_share_of_the_dimension():
    mu = cloud(mf.Euclidean(3), 30, 0)
    shift = jnp.array([0.3, -0.2, 0.5])
    value = transport.sliced(mu, mu.shift(jnp.tile(shift, (30, 1))), slices=4000)
    # The mean of 4000 cosines squared, whose variance is 4/45: three deviations.
    assert abs(value**2 - shift @ shift / 3) < 3 * np.sqrt(4 / 45 / 4000) * float(shift @ shift)


def test_slices_of_a_line_are_the_line():
    mu, nu = cloud(mf.Euclidean(1), 30, 0), cloud(mf.Euclidean(1), 20, 1)
    assert abs(transport.sliced(mu, nu) - transport.wasserstein(mu, nu)) < ROUNDING


@pytest.mark.parametrize("p", [1, 2])
def test_slices_lie_below_the_distance(p):
    mu, nu = cloud(mf.Sphere(3), 30, 0), cloud(mf.Sphere(3), 20, 1)
    assert transport.sliced(mu, nu, p) < transport.wasserstein(mu, nu, p)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda mu: transport.wasserstein(mu, cloud(mf.Euclidean(3), 5, 0)), "`mu` lives on"),
        (lambda mu: transport.wasserstein(mu, cloud(mf.Sphere(2), 5, 0)), "needs one space"),
        (lambda mu: transport.wasserstein(mu, mu.weigh(jnp.zeros(5) - 1.0)), "`nu` has mass 0.367879"),
        (lambda mu: transport.wasserstein(mu, mu, 0.5), "`p` must be"),
        (lambda mu: transport.wasserstein(mu, mf.Gaussian(np.zeros(2), np.eye(2))), "`nu` must be Particles; got Gaussian"),
        (lambda mu: transport.wasserstein(mu, mf.Sequence(mf.Euclidean(2), mu.points)), "transport.conditional"),
        (lambda mu: transport.sliced(mu, mu, slices=0), "`slices`"),
        (lambda mu: transport.conditional(mu, mu), "`mu` must be a Sequence"),
        (lambda mu: jax.jit(lambda m: transport.coupling(m, mu).masses)(mu), "cannot be traced"),
        (lambda mu: transport.coupling(mu, mu).geodesic(1.5), "`t` must lie in"),
        (lambda mu: transport.mixture(mu, mu, -0.1), "`t` must lie in"),
    ],
)  # fmt: skip
def test_what_cannot_be_compared_is_refused_with_a_sentence(call, words):
    with pytest.raises((ValueError, TypeError), match=words):
        call(cloud(mf.Euclidean(2), 5, 0))


def test_gaussians_have_distances_of_order_two_only():
    mu = mf.Gaussian(np.zeros(2), np.eye(2))
    with pytest.raises(ValueError, match="`p` must be 2"):
        transport.wasserstein(mu, mu, 1)
    with pytest.raises(ValueError, match="needs one space"):
        transport.wasserstein(mu, mf.Gaussian(np.zeros(3), np.eye(3)))


def test_a_missing_library_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "ot", None)
    with pytest.raises(ImportError, match=r"needs POT.*measureflow\[transport\]"):
        transport.coupling(cloud(mf.Euclidean(2), 5, 0), cloud(mf.Euclidean(2), 5, 1))

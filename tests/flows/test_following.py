"""Densities that go on in another form where their moments no longer resolve them."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import measureflow as mf
from measureflow.diagnostics import clusters, order_parameter
from measureflow.measures.parcels import CircleParcels, cut
from measureflow.theory import circle, kuramoto

TIMES = jnp.array([0.0, 2.0, 4.0, 20.0])
FIELD = mf.SoftmaxAttention.isotropic(2, 9.0)


def waves(angle):
    """A density that attention gathers in several clusters of various mass."""
    angle = np.asarray(angle)
    return (1 + 0.3 * np.cos(angle) + 0.4 * np.cos(3 * angle - 1) + 0.2 * np.sin(4 * angle)) / (2 * np.pi)


def density(modes):
    return mf.CircleDensity.from_function(waves, modes)


def placed(mu):
    """Angles and masses of the clusters, in order."""
    found = clusters(mf.Particles(mu.space, mu.points, mu.weights), tolerance=0.05)
    angles = np.arctan2(*np.asarray(found.centres).T[::-1])
    order = np.argsort(angles)
    return angles[order], np.asarray(found.masses)[order]


@pytest.fixture(scope="module")
def path():
    return mf.evolve(FIELD, density(64), TIMES, follow=True, verify=True)


@pytest.fixture(scope="module")
def tokens():
    return mf.evolve(FIELD, density(64).quantiles(16384), TIMES)


def test_a_density_is_followed_through_collapse_where_its_moments_end(path):
    assert not mf.evolve(FIELD, density(64), TIMES).outcome.ok
    assert path.outcome.ok
    assert isinstance(path.final, CircleParcels)
    assert path.stats["changes"] == 1
    assert 0 < path.stats["changed_at"] < 4
    # What is told of the change is what the highest moments were when they passed the bound of 1e-6, after one step more.
    assert 1e-6 < path.stats["change_error"] < 1e-5


def test_clusters_of_a_followed_density_are_those_of_its_tokens(path, tokens):
    (angles, masses), (others, shares) = placed(path.final), placed(tokens.final)
    assert len(angles) == len(others) > 2
    # Tokens come in shares of 1/16384 and parcels in pieces of about 1/1536 of the mass where it is even, a tenth of that at
    # a watershed; masses may be off by that at each side, and a place by the mass times the distance of the clusters.
    np.testing.assert_allclose(masses, shares, atol=3e-4)
    np.testing.assert_allclose(angles, others, atol=1e-3)


def test_all_frames_of_a_followed_density_have_the_moments_of_its_tokens(path, tokens):
    for mu, nu in zip(path, tokens, strict=True):
        moved = CircleParcels(nu.points, nu.log_weights, nu.engine, 8)
        # As above; a distance of mass bounds what moments over their degree differ by.
        assert float(moved.misplaced(mu)) < 1e-3


def test_parcels_keep_the_mass_to_rounding(path):
    np.testing.assert_allclose(path.measures.weights.sum(1), 1.0, atol=1e-14)
    assert float(path.measures.weights.min()) >= 0


def test_the_error_estimate_of_a_followed_density_tells_where_mass_is_misplaced(path, tokens):
    moved = CircleParcels(tokens.final.points, tokens.final.log_weights, tokens.final.engine, 64)
    true = float(moved.misplaced(path.final))
    # An estimate by a run with a quarter less of everything: of the size of the error, within a factor of ten.
    assert true / 10 < path.stats["error"] < 1e-3 + 10 * true


def test_a_followed_density_agrees_with_the_closed_form_long_after_its_moments_end():
    mu = mf.CircleDensity.from_function(lambda t: circle.poisson_kernel(t, 0.3), 32)
    times = jnp.linspace(0.0, 12.0, 5)
    path = mf.evolve(mf.SoftmaxAttention.isotropic(2, 0.0), mu, times, follow=True)
    assert path.stats["changed_at"] < 3
    # Half the mass of a parcel at the watershed, 0.08 times the width 2π/800, is not yet where it should be, or is so early.
    np.testing.assert_allclose(path.map(order_parameter), kuramoto.order_parameter(times, 0.3), atol=3e-4)


@pytest.mark.slow
def test_parcels_misplace_less_mass_when_there_are_more(tokens):
    like = CircleParcels(tokens.final.points, tokens.final.log_weights, tokens.final.engine, 16)
    ends = [mf.evolve(FIELD, density(modes), TIMES[jnp.array([0, 3])], follow=True).final for modes in (16, 48, 144)]
    errors = [float(like.misplaced(end)) for end in ends]
    # Nine times the parcels: the mass at a watershed falls at least as fast, but by chance a coarse cut may be lucky.
    assert errors[2] < errors[0] / 4
    assert errors[2] < 1e-4


def test_legs_of_a_followed_density_go_on_to_the_same_bits():
    flow = mf.Flow(FIELD, density(32), np.linspace(0, 4, 9), follow=True)
    whole = list(flow.legs(3))
    kinds = [type(leg.final) for leg in whole]
    assert kinds[-1] is CircleParcels
    assert kinds[0] is mf.CircleDensity
    for k in (1, 2):
        state = whole[k - 1].final
        changes = sum(leg.stats.get("changes", 0) for leg in whole[:k])
        form = flow.form(changes)
        assert jax.tree.structure(form) == jax.tree.structure(state)
        assert [leaf.shape for leaf in jax.tree.leaves(form)] == [leaf.shape for leaf in jax.tree.leaves(state)]
        again = next(flow.legs(3, since=3 * k, state=state))
        np.testing.assert_array_equal(again.final.points, whole[k].final.points)


def test_with_noise_a_density_takes_more_moments_instead():
    noise, times = mf.Langevin(4e-3), [0.0, 8.0]
    followed = mf.evolve(FIELD, density(32), times, noise=noise, follow=True)
    assert followed.outcome.ok
    assert followed.final.modes > 32
    assert followed.stats["degree"] == followed.final.modes == 32 * 2 ** followed.stats["changes"]
    whole = mf.evolve(FIELD, density(256), times, noise=noise)
    # The highest moments were cut off at 1e-6 at each change, and motion away from a watershed makes ten times more of it.
    np.testing.assert_allclose(followed.measures.moments[:, :, :16], whole.measures.moments[:, :, :16], atol=3e-5)


def test_a_density_about_an_axis_and_one_on_the_sphere_are_followed_to_the_same_end():
    field, times = mf.SoftmaxAttention.isotropic(3, 4.0), [0.0, 4.0, 12.0]
    axial = mf.AxialDensity.from_function(lambda z: 1 + 0.5 * z, dim=3, degree=24)
    sphere = mf.SphereDensity.from_function(lambda x: (1 + 0.5 * x[:, 0]) / (4 * jnp.pi), 12)
    orders = []
    for mu in (axial, sphere):
        path = mf.evolve(field, mu, times, follow=True)
        assert path.outcome.ok
        assert path.stats["parcels"] == len(path.final.points)
        np.testing.assert_allclose(path.final.weights.sum(), 1.0, atol=1e-13)
        assert float(path.final.density.negative_mass) < 1e-3  # what is shown does not ripple
        orders.append(path.map(order_parameter))
    # About an axis there is one cluster and no watershed; on the sphere rounding of the cut is all that breaks the symmetry.
    np.testing.assert_allclose(*orders, atol=1e-4)
    assert orders[0][-1] > 0.99


@pytest.mark.parametrize("mu", [density(24), mf.SphereDensity.uniform(6), mf.AxialDensity.uniform(4, 8)])
def test_a_density_and_its_parcels_are_one_measure(mu):
    parcels = cut(mu)
    # Sums of some thousand terms of size one, and of polynomials that grow with the degree.
    np.testing.assert_allclose(parcels.moments, mu.moments, atol=1e-12)
    np.testing.assert_allclose(parcels.values, mu.values, atol=1e-11)


def test_what_cannot_be_followed_is_refused_with_a_sentence():
    with pytest.raises(TypeError, match="`follow` is for densities"):
        mf.evolve(FIELD, mf.Particles.iid(mf.Sphere(2), 4, key=0), TIMES, follow=True)
    with pytest.raises(ValueError, match="cannot be traced"):
        eqx.filter_jit(lambda mu: mf.evolve(FIELD, mu, TIMES, follow=True).final)(density(8))

"""Laws that every space obeys."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import measureflow as mf
from measureflow import checks

FAR = 1e6
"""A factor that takes a vector out of every bounded space."""


@pytest.fixture(scope="module")
def laws():
    return eqx.filter_jit(both_sides)


def both_sides(space):
    """What the laws of spaces compare, by its subject: one program for each space."""
    k1, k2, k3 = jax.random.split(jax.random.key(1), 3)
    x, y, v = space.sample(k1), space.sample(k2), jax.random.normal(k3, (space.dim,))
    points = jax.vmap(space.sample)(jax.random.split(jax.random.key(3), 100))
    projected, tangent = space.project(2.5 * v), space.tangent(x, v)
    step = 0.3 * tangent / jnp.linalg.norm(tangent)
    return {
        "projected": (space.project(projected), projected),
        "tangent": (space.tangent(x, tangent), tangent),
        "outward": jnp.vdot(v - tangent, tangent),
        "leaving": (jax.jvp(lambda h: space.exp(x, h * step), (0.0,), (1.0,))[1], step),
        "length": space.distance(x, space.exp(x, step)),
        "still": (space.exp(x, jnp.zeros_like(x)), x),
        "slope": jax.jacfwd(lambda v: space.exp(x, v))(jnp.zeros_like(x)),
        "distances": (space.distance(x, y), space.distance(y, x), jnp.linalg.norm(x - y)),
        "points": (jax.vmap(space.project)(points), points),
        "directions": jax.jacfwd(lambda v: space.tangent(x, v))(v),
        "far": (space.project(FAR * v), FAR * v),
        "middle": (space.project((x + y) / 2), (x + y) / 2),
        "norms": jnp.linalg.norm(points, axis=1),
        "between": (space.distance(x, third := space.between(x, y, 1 / 3)), space.distance(third, y)),
        "ends": (jnp.stack([space.between(x, y, 0.0), space.between(x, y, 1.0)]), jnp.stack([x, y])),
    }


def test_a_projected_point_stays_where_it_is(space, laws):
    np.testing.assert_allclose(*laws(space)["projected"], atol=1e-15)


def test_tangent_is_a_projection(space, laws):
    np.testing.assert_allclose(*laws(space)["tangent"], atol=1e-14)
    np.testing.assert_allclose(laws(space)["outward"], 0.0, atol=1e-14)


def test_exp_leaves_along_the_tangent_and_covers_its_length(space, laws):
    np.testing.assert_allclose(*laws(space)["leaving"], atol=1e-14)
    np.testing.assert_allclose(laws(space)["length"], 0.3, rtol=1e-13)


def test_exp_of_zero_is_the_point_and_differentiable(space, laws):
    np.testing.assert_allclose(*laws(space)["still"], atol=1e-15)
    assert np.isfinite(laws(space)["slope"]).all()


def test_distance_is_symmetric_and_its_chord_is_the_ambient_distance(space, laws):
    there, back, chord = laws(space)["distances"]
    # A compiler may compute the points again for each of them, with another rounding.
    np.testing.assert_allclose(there, back, rtol=1e-14)
    np.testing.assert_allclose(space.chord(np.asarray(there)), chord, rtol=1e-12)


def test_samples_lie_in_the_space(space, laws):
    projected, points = laws(space)["points"]
    space.check(points)
    np.testing.assert_allclose(projected, points, atol=1e-15)


def test_the_intrinsic_dimension_counts_tangent_directions(space, laws):
    assert np.linalg.matrix_rank(laws(space)["directions"]) == space.intrinsic_dim


def test_a_space_is_compact_where_far_points_are_brought_back(space, laws):
    assert space.compact == (np.linalg.norm(laws(space)["far"][0]) < np.sqrt(FAR))


def test_a_space_is_linear_where_every_vector_is_a_point(space, laws):
    assert space.linear == np.array_equal(*laws(space)["far"])
    assert space.convex >= space.linear


def test_a_space_is_convex_where_middles_are_points_and_distances_norms(space, laws):
    there, _, straight = laws(space)["distances"]
    assert space.convex == (np.allclose(*laws(space)["middle"], atol=1e-14) and np.isclose(there, straight, rtol=1e-12))


def test_a_space_is_spherical_where_points_are_unit_vectors_and_distances_angles(space, laws):
    there, _, straight = laws(space)["distances"]
    on_sphere = np.allclose(laws(space)["norms"], 1.0, atol=1e-14)
    assert space.spherical == (on_sphere and np.isclose(2 * np.sin(there / 2), straight, rtol=1e-12))


def test_shortest_paths_are_walked_in_proportion(space, laws):
    whole, first, rest = laws(space)["distances"][0], *laws(space)["between"]
    np.testing.assert_allclose([first, rest], [whole / 3, 2 * whole / 3], rtol=1e-12)
    np.testing.assert_allclose(*laws(space)["ends"], atol=1e-14)


def test_a_product_is_what_all_its_parts_are():
    sphere, flat, ball = mf.Sphere(3), mf.Euclidean(2), mf.Ball(2, 1.0)
    assert mf.Product(sphere, flat).intrinsic_dim == 4
    assert (mf.Product(sphere, ball).compact, mf.Product(ball, flat).compact) == (True, False)
    assert (mf.Product(flat, ball).convex, mf.Product(sphere, ball).convex) == (True, False)
    assert (mf.Product(flat, flat).linear, mf.Product(flat, ball).linear) == (True, False)
    # A product of circles is a torus and not a sphere.
    assert not mf.Product(mf.Sphere(2), mf.Sphere(2)).spherical


def test_antipodal_points_have_no_shortest_path():
    x = jnp.array([0.0, 0.6, 0.8])
    assert np.isnan(jax.jit(mf.Sphere(3).between)(x, -x, 0.5)).all()


def test_sphere_distance_keeps_its_digits_at_small_angles():
    x = jnp.array([1.0, 0.0])
    y = jnp.array([np.cos(1e-9), np.sin(1e-9)])
    np.testing.assert_allclose(jax.jit(mf.Sphere(2).distance)(x, y), 1e-9, rtol=1e-12)


@pytest.mark.parametrize(("make", "words"), [(lambda: mf.Sphere(1), "Sphere(2)"), (lambda: mf.Euclidean(0), "got 0")])
def test_too_few_coordinates_are_refused_with_a_remedy(make, words):
    with pytest.raises(ValueError, match="`dim` must be a whole number") as caught:
        make()
    assert words in str(caught.value)


@pytest.mark.parametrize("dim", [2.5, True, 1])
def test_coordinates_are_counted_in_whole_numbers(dim):
    with pytest.raises(ValueError, match=f"`dim` must be a whole number, at least 2; got {dim}"):
        checks.count("dim", dim, 2)


def test_on_the_boundary_of_a_ball_a_velocity_loses_only_its_outward_part():
    ball, x = mf.Ball(2, 2.0), jnp.array([0.0, 2.0])
    np.testing.assert_array_equal(ball.tangent(x, jnp.array([1.0, 3.0])), [1.0, 0.0])
    np.testing.assert_array_equal(ball.tangent(x, jnp.array([1.0, -3.0])), [1.0, -3.0])
    np.testing.assert_array_equal(ball.tangent(x / 2, jnp.array([1.0, 3.0])), [1.0, 3.0])
    # A projected point is on the boundary for `tangent` too, whatever the rounding of the division was.
    y = jax.jit(jax.vmap(ball.project))(3 * np.random.default_rng(0).normal(size=(100, 2)) + 9)
    radial = jax.jit(jax.vmap(lambda x: x @ ball.tangent(x, x)))(y)
    np.testing.assert_allclose(radial, 0.0, atol=1e-14)


def test_points_outside_a_ball_are_refused_with_their_norm():
    with pytest.raises(ValueError, match="point 1 has 3"):
        mf.Particles(mf.Product(mf.Euclidean(1), mf.Ball(1, 2.0)), [[5.0, 2.0], [0.0, -3.0]])
    with pytest.raises(ValueError, match="must be positive"):
        mf.Ball(2, 0.0)

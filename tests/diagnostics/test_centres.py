import jax
import numpy as np
import pytest

import measureflow as mf


def circle(angles):
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


def by_definition(points, space, separation):
    """Both kinds of centres, token by token."""
    distances = jax.jit(jax.vmap(jax.vmap(space.distance, (None, 0)), (0, None)))(points, points)
    renyi, strong = [], []
    for k, row in enumerate(np.asarray(distances)):
        far = row[:k] > separation
        strong += [k] if all(far) else []
        renyi += [k] if all(far[j] for j in renyi) else []
    return renyi, strong


def test_the_example_of_the_documentation():
    found = mf.diagnostics.centres(mf.Particles(mf.Sphere(2), circle(np.array([0.0, 0.4, 0.8, 3.0]))), 0.5)
    assert found.renyi.tolist() == [True, False, True, True]
    assert found.strong.tolist() == [True, False, False, True]


@pytest.mark.parametrize("space", [mf.Sphere(2), mf.Sphere(3), mf.Euclidean(2)], ids=str)
def test_centres_are_those_of_the_definition(space):
    for key in range(5):
        mu = mf.Particles.iid(space, 60, key=key)
        found = mf.diagnostics.centres(mu, 0.4)
        renyi, strong = by_definition(mu.points, space, 0.4)
        assert np.flatnonzero(found.renyi).tolist() == renyi
        assert np.flatnonzero(found.strong).tolist() == strong
        assert set(strong) <= set(renyi)


def test_positions_of_a_sequence_are_the_order():
    points = circle(np.random.default_rng(0).uniform(0, 6.28, 40))
    turned = mf.Sequence(mf.Sphere(2), points[::-1], np.linspace(1, 1 / 40, 40))
    plain = mf.diagnostics.centres(mf.Particles(mf.Sphere(2), points), 0.5)
    found = mf.diagnostics.centres(turned, 0.5)
    np.testing.assert_array_equal(found.renyi[::-1], plain.renyi)
    np.testing.assert_array_equal(found.strong[::-1], plain.strong)


def test_many_clouds_at_once_are_each_as_alone():
    clouds = np.stack([circle(np.random.default_rng(seed).uniform(0, 6.28, 30)) for seed in range(4)])
    one = jax.vmap(lambda points: mf.diagnostics.centres(mf.Particles(mf.Sphere(2), points), 0.6))
    alone = [mf.diagnostics.centres(mf.Particles(mf.Sphere(2), points), 0.6) for points in clouds]
    np.testing.assert_array_equal(one(clouds).renyi, [found.renyi for found in alone])
    np.testing.assert_array_equal(one(clouds).strong, [found.strong for found in alone])


def test_bad_input_is_refused_by_name():
    with pytest.raises(ValueError, match="`separation` must be positive; got the value -1"):
        mf.diagnostics.centres(mf.Particles.iid(mf.Sphere(2), 3, key=0), -1.0)

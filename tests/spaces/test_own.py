"""A space of one's own is asked like those of the library, and never for its class."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import measureflow as mf
from measureflow.plotting import view_of
from measureflow.spaces import AbstractSpace


class Wrapped(AbstractSpace):
    """A space of the library under another name, without what a base class may answer."""

    inner: AbstractSpace

    dim = property(lambda self: self.inner.dim)

    def project(self, x):
        return self.inner.project(x)

    def tangent(self, x, v):
        return self.inner.tangent(x, v)

    def exp(self, x, v):
        return self.inner.exp(x, v)

    def distance(self, x, y):
        return self.inner.distance(x, y)

    def chord(self, distance):
        return self.inner.chord(distance)

    def sample(self, key):
        return self.inner.sample(key)

    def check(self, points):
        self.inner.check(points)


class Globe(Wrapped):
    """One that says that it is a sphere."""

    intrinsic_dim = property(lambda self: self.dim - 1)
    compact = property(lambda self: True)
    spherical = property(lambda self: True)

    def between(self, x, y, t):
        return self.inner.between(x, y, t)


class Block(Wrapped):
    """One that says that it is convex and bounded."""

    compact = property(lambda self: True)
    convex = property(lambda self: True)


def clouds(space, n=12):
    return [mf.Particles(space, jax.vmap(space.sample)(jax.random.split(jax.random.key(i), n))) for i in range(2)]


@pytest.mark.parametrize(
    "space", [Globe(mf.Sphere(2)), Globe(mf.Sphere(3)), Block(mf.Ball(1, 2.0)), Block(mf.Ball(2, 2.0))]
)
def test_a_space_of_ones_own_is_treated_as_what_it_says(space):
    mine, theirs = clouds(space), clouds(space.inner)
    assert np.isclose(mf.transport.wasserstein(*mine), mf.transport.wasserstein(*theirs), rtol=1e-12)
    middle, expected = (mf.transport.coupling(*pair).geodesic(0.5).points for pair in (mine, theirs))
    np.testing.assert_allclose(middle, expected, atol=1e-14)
    np.testing.assert_array_equal(mf.diagnostics.labels(mine[0]), mf.diagnostics.labels(theirs[0]))
    assert mf.diagnostics.extent(mine[0]) == mf.diagnostics.extent(theirs[0])
    assert mine[0].engine == theirs[0].engine
    shown, wanted = (view_of(mu.points, mu.space) for mu in (mine[0], theirs[0]))
    assert (shown.reach, shown.middle.tolist()) == (wanted.reach, wanted.middle.tolist())


def test_targets_are_averaged_in_every_convex_space():
    places = (mf.Euclidean(2), mf.Ball(2, 2.0), Block(mf.Ball(2, 2.0)))
    points = [mu.points for mu in clouds(mf.Ball(2, 2.0))]
    maps = [mf.transport.entropic_map(*(mf.Particles(space, each) for each in points), 0.1) for space in places]
    flat, ball, mine = (move(jnp.ones((1, 2))) for move in maps)
    np.testing.assert_allclose([ball, mine], [flat, flat], rtol=1e-12)


def test_a_best_response_exists_in_every_compact_space():
    risk = mf.training.fixtures.f2()
    mu = risk.family.gaussian(3, key=0)
    inner = risk.family.balls(**dict.fromkeys(risk.family.shapes, 1.0))
    found = mf.training.best_response(risk, mu, Block(inner), starts=4, steps=20)
    assert np.isfinite(found.value)
    with pytest.raises(ValueError, match="must be compact"):
        mf.training.best_response(risk, mu, Wrapped(inner))


def test_shortest_paths_of_a_space_that_says_nothing_are_refused():
    with pytest.raises(TypeError, match="Give `Wrapped` a method `between`"):
        mf.transport.coupling(*clouds(Wrapped(mf.Sphere(3)))).geodesic(0.5)

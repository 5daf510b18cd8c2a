"""Residual layers: what a network does, and how far it is from the flow."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import measureflow as mf

RNG = np.random.default_rng(0)
A, V = RNG.normal(size=(2, 3, 3))


@pytest.fixture(scope="module")
def start():
    return mf.Particles.iid(mf.Euclidean(3), 5, key=0)


def test_a_layer_is_a_residual_step_written_out(start):
    path = mf.layers(mf.SoftmaxAttention(A, V), start, depth=3, step=0.1)
    x = np.asarray(start.points)
    for _ in range(3):
        kernel = np.exp(x @ A.T @ x.T)
        x = x + 0.1 * kernel / kernel.sum(1, keepdims=True) @ x @ V.T
    np.testing.assert_allclose(path.final.points, x, rtol=1e-12)
    np.testing.assert_allclose(path.times, [0.0, 0.1, 0.2, 0.3])
    assert path.stats["steps"] == 3
    assert str(path.outcome) == "Reached t = 0.3."


def test_on_the_sphere_a_layer_normalises_after_the_residual():
    start = mf.Particles.iid(mf.Sphere(3), 5, key=0)
    field = mf.SoftmaxAttention(A, V)
    x = start.points + 0.5 * field(0.0, start.points, start)
    expected = x / jnp.linalg.norm(x, axis=-1, keepdims=True)
    np.testing.assert_allclose(mf.layers(field, start, 1, 0.5).final.points, expected, rtol=1e-14)


def test_each_layer_uses_its_own_weights(start):
    fields = [mf.SoftmaxAttention(k * A, V) + mf.Perceptron(V, A, np.full(3, k)) for k in (1.0, 2.0, 3.0)]
    together = mf.layers(mf.Layered(fields), start, depth=3, step=0.5)
    mu = start
    for field in fields:
        mu = mf.layers(field, mu, depth=1, step=0.5).final
    np.testing.assert_allclose(together.final.points, mu.points, rtol=1e-12)


def test_layers_follow_the_flow_at_order_one(start):
    field = mf.SoftmaxAttention(-np.eye(3), V)
    exact = mf.evolve(field, start, [0.0, 1.0], mf.Adaptive(1e-12, 1e-12)).final.points
    depths = np.array([32, 64, 128, 256])
    errors = [np.abs(mf.layers(field, start, int(N), 1 / N).final.points - exact).max() for N in depths]
    assert np.polyfit(np.log(1 / depths), np.log(errors), 1)[0] == pytest.approx(1.0, abs=0.1)


def test_layers_are_differentiable_in_the_weights(start):
    def size(scale):
        return (mf.layers(mf.SoftmaxAttention(scale * A, V), start, 4, 0.1).final.points ** 2).sum()

    h = 1e-6
    slope = (size(1.0 + h) - size(1.0 - h)) / (2 * h)
    # Central differences lose eps / h = 1e-10 to rounding.
    np.testing.assert_allclose(jax.grad(size)(1.0), slope, rtol=1e-7)


def test_layers_that_overflow_stop_before(start):
    path = mf.layers(mf.UnnormalisedAttention(5 * np.eye(3), 5 * np.eye(3)), start, depth=50)
    assert path.outcome.blew_up
    assert len(path) < 51
    assert np.isfinite(path.measures.points).all()
    assert np.isfinite(path.final.points).all()


@pytest.mark.parametrize("size", [1, 2, 4, 20])
def test_layers_in_legs_are_those_of_the_whole_stack(size, start):
    flow = mf.flows.Layers(mf.SoftmaxAttention(A, V), start, depth=6, step=0.1)
    whole, legs = flow.run(), list(flow.legs(size))
    np.testing.assert_array_equal(np.concatenate([leg.measures.points for leg in legs]), whole.measures.points)
    np.testing.assert_array_equal(np.concatenate([leg.times for leg in legs]), whole.times)
    assert all(len(leg) == size for leg in legs[:-1])
    assert flow.error(whole.final) is None


def test_causal_sequences_go_through_layers(start):
    sequence = mf.Sequence(start.space, start.points)
    path = mf.layers(mf.Causal(mf.SoftmaxAttention(A, V)), sequence, 3, 0.1)
    np.testing.assert_array_equal(path.final.positions, sequence.positions)


@pytest.mark.parametrize(("arguments", "words"), [(dict(depth=0), "`depth`"), (dict(depth=1, step=-1.0), "`step`")])
def test_bad_depths_get_a_sentence(arguments, words, start):
    with pytest.raises(ValueError, match=words):
        mf.layers(mf.SoftmaxAttention(A, V), start, **arguments)

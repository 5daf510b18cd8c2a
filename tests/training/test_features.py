"""Features of one's own: their risk against formulas, against neurons, and in blocks."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import measureflow as mf
from measureflow import training
from measureflow.training import features as module

rng = np.random.default_rng(0)
X, Y = rng.normal(size=(7, 3)), rng.normal(size=(7, 2))
SPIKES = training.Plain(height=(2,), place=(3,))


def spike(theta, x):
    return theta[:2] * jnp.exp(-jnp.sum((x - theta[2:]) ** 2))


LABELS = {"square": (training.Square(), Y), "cross-entropy": (training.CrossEntropy(), rng.integers(0, 2, 7))}


def risk_of(loss="square", **options):
    criterion, labels = LABELS[loss]
    return training.FeatureRisk(spike, X, labels, SPIKES, criterion, **options)


def crowd(n=5, seed=1):
    rng = np.random.default_rng(seed)
    return mf.Particles(SPIKES.space, rng.normal(size=(n, 5)), rng.uniform(1, 2, n))


@pytest.mark.parametrize("loss", LABELS)
def test_the_risk_and_its_variation_are_those_of_the_formula(loss):
    risk, mu = risk_of(loss), crowd()
    heights, places = np.asarray(mu.points[:, :2]), np.asarray(mu.points[:, 2:])
    bells = np.exp(-((X[:, None] - places[None]) ** 2).sum(-1))
    z = bells @ (np.asarray(mu.weights)[:, None] * heights)
    labels = LABELS[loss][1]
    if loss == "square":
        value, slope = ((z - Y) ** 2).sum(1), 2 * (z - Y)
    else:
        value = np.log(np.exp(z).sum(1)) - z[np.arange(7), labels]
        slope = np.exp(z) / np.exp(z).sum(1, keepdims=True) - np.eye(2)[labels]
    found = eqx.filter_jit(lambda risk, mu: (risk(mu), risk.variation(mu, mu.points)))(risk, mu)
    np.testing.assert_allclose(found[0], value.mean(), rtol=1e-12)
    np.testing.assert_allclose(found[1], np.einsum("sn,nv,sv->n", bells, heights, slope) / 7, rtol=1e-12)


def test_neurons_are_features_like_any_other():
    family = training.Neurons(3, 2, activation=jnp.tanh, bias=True)
    own = training.FeatureRisk(lambda th, x: th[:2] * jnp.tanh(x @ th[2:5] + th[5]), X, Y, family)
    known = training.NeuronRisk(X, Y, family)
    mu = family.gaussian(4, key=0)
    np.testing.assert_allclose(own(mu), known(mu), rtol=1e-13)
    flows = [eqx.filter_jit(mf.GradientFlow(risk))(0.0, mu.points, mu) for risk in (own, known)]
    np.testing.assert_allclose(*flows, atol=1e-13)


def test_blocks_of_data_change_nothing(monkeypatch):
    risk, mu = risk_of("cross-entropy"), crowd()
    both = lambda: (risk(mu), jax.grad(lambda xs: risk.variation(mu, xs).sum())(mu.points))  # noqa: E731
    whole = both()
    monkeypatch.setattr(module, "BLOCK", 20)  # two data at a time, and one is left over
    for one, other in zip(whole, both(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-15)


def test_batches_have_the_risk_as_their_mean_and_train():
    risk, mu = risk_of(), crowd()
    drawn = jax.jit(jax.vmap(lambda key: risk.draw(key, 2)(mu)))(jax.random.split(jax.random.key(0), 4000))
    assert abs(float(drawn.mean() - risk(mu))) < 4 * float(drawn.std()) / 4000**0.5
    path = training.sgd(risk, mu, 0.02, 50, key=0, every=50)
    assert risk(path.final) < risk(mu)


def test_a_gaussian_of_features_is_the_mean_of_its_sample():
    wave = training.FeatureRisk(lambda theta, x: jnp.sin(x @ theta), X, Y[:, 0], 3)
    normal = mf.Gaussian(np.full(3, 0.3), 0.2 * np.eye(3))
    sample = normal.sample(200_000, key=0)
    assert np.abs(wave.logits(normal) - wave.logits(sample)).max() < 5 / 200_000**0.5


def test_a_feature_with_numbers_of_its_own_is_not_compiled_again():
    traces = []

    class Bell(eqx.Module):
        width: jax.Array

        def __call__(self, theta, x):
            traces.append(1)
            return theta[:2] * jnp.exp(-jnp.sum((x - theta[2:]) ** 2) / self.width)

    value = eqx.filter_jit(lambda risk, mu: risk(mu))
    risks = [training.FeatureRisk(Bell(jnp.asarray(width)), X, Y, SPIKES) for width in (1.0, 2.0)]
    before = len(traces)
    values = [float(value(risk, crowd())) for risk in risks]
    assert len(traces) == before + 1
    np.testing.assert_allclose(values[0], risk_of()(crowd()), rtol=1e-13)
    assert values[0] != values[1]


def test_a_plain_family_has_blocks_and_no_gauge():
    assert training.Plain(3).size == training.Plain(3).dim == 3
    theta = jnp.arange(5.0)
    assert SPIKES.unfold(theta)["place"].tolist() == [2.0, 3.0, 4.0]
    assert SPIKES.gauge(theta).shape == (0, 5)
    assert SPIKES.invariants(theta) is theta
    assert training.FeatureRisk(spike, X, Y, 5).family == training.Plain(5)


def test_bad_input_gets_a_sentence():
    for arguments, options in (((), {}), ((2,), {"place": (1,)})):
        with pytest.raises(ValueError, match="one of the two"):
            training.Plain(*arguments, **options)
    with pytest.raises(ValueError, match="`size` must be a whole number, at least 1; got 0"):
        training.Plain(0)
    with pytest.raises(ValueError, match="`place` must be a whole number, at least 1; got 0"):
        training.Plain(place=(0,))
    with pytest.raises(ValueError, match="`reduction` must be 'sum' or 'mean'"):
        risk_of(reduction="none")
    with pytest.raises(ValueError, match="one row for each datum"):
        training.FeatureRisk(spike, np.asarray(1.0), Y, SPIKES)
    with pytest.raises(ValueError, match="`labels` must have shape"):
        training.FeatureRisk(spike, X, Y[:, 0], SPIKES)
    with pytest.raises(ValueError, match="for one input; got"):
        training.FeatureRisk(lambda theta, x: jnp.ones((2, 2)), X, Y, SPIKES)
    with pytest.raises(ValueError, match="for one input; got"):
        training.FeatureRisk(lambda theta, x: {"a": theta}, X, Y, SPIKES)
